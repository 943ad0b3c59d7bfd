"""First proof of learning: copy a sequence, turn one round. Each within a minute on two cores."""

import pytest
import torch
import torch.nn.functional as F

from manyheads import Transformer, TransformerConfig

BEGIN, FIRST, WORDS, LENGTH = 1, 2, 20, 10


def draw(task, batch):
    source = torch.randint(FIRST, WORDS, (batch, LENGTH))
    target = source.flip(1) if task == "reverse" else source
    begin = torch.full((batch, 1), BEGIN)
    return source, torch.cat([begin, target], dim=1)


@torch.no_grad()
def decode_greedily(model, source):
    cache = model.start(model.encode(source))
    written = [torch.full((len(source), 1), BEGIN)]
    for _ in range(LENGTH):
        written.append(model.step(written[-1], cache).argmax(-1))
    return torch.cat(written, dim=1)


@pytest.mark.slow
@pytest.mark.plain
@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_learns(task, norm):
    config = TransformerConfig(width=64, layers=2, heads=4, feedforward=128, dropout=0.0, norm=norm)
    model = Transformer(config, WORDS)
    steps = 500
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.2)
    for _ in range(steps):
        source, target = draw(task, batch=64)
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    source, target = draw(task, batch=1000)
    exact = (decode_greedily(model.eval(), source) == target).all(1).float().mean().item()
    assert exact > 0.99
