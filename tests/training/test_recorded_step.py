"""What a GPU records of a step, without one: every gate that asks for CUDA is open, blocks are compiled, kernels are interpreted (conftest.py).

In float16: Triton's interpreter multiplies the bits of bfloat16, not its numbers.
"""

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from gpu.test_fast import WORDS, corpus
from manyheads import Transformer, TransformerConfig
from manyheads.nn import feedforward, norms, packed
from manyheads.nn.blocks import streams
from manyheads.nn.linear_relu import linear_relu
from manyheads.nn.ragged import WIDTHS
from manyheads.recipe import TrainConfig
from manyheads.tasks import consistency
from manyheads.training.steps import COMPILED, GraphedSteps, check_gradients, has_table

pytestmark = [pytest.mark.slow, pytest.mark.plain]

CPU = torch.device("cpu")


def open_gates(monkeypatch):
    monkeypatch.setattr(norms, "fast", lambda x: torch.compiler.is_compiling() and x.requires_grad)
    monkeypatch.setattr(packed, "ragged_applies", lambda x, width, *_: x.dtype == torch.float16 and width in WIDTHS)
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda _: True)
    monkeypatch.setattr(
        feedforward.FeedForward,
        "rise",
        lambda self, x: (
            linear_relu(x, self.up.weight, self.up.bias) if self.is_biased_relu else self.activation.apply(self.up(x))
        ),
    )


def learn(model, batch, loss, dtype):
    """(the loss, the gradients) of what GraphedSteps would record."""
    model.zero_grad()
    torch.manual_seed(1)
    machine = SimpleNamespace(device=CPU, autocast=lambda: torch.autocast("cpu", dtype, enabled=dtype != torch.float32))
    weight = torch.tensor(1 / batch.count)
    step = SimpleNamespace(
        machine=machine, parts=batch.parts, loss=loss, weight=weight, state=SimpleNamespace(model=model)
    )
    value = GraphedSteps.learn(step)
    check_gradients(model)
    return value, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"drop_path": 1e-9, "normaliser": "rms", "activation": "swiglu", "cross": "same"}),
        ({"simcut": 1.0, "cut": 0.3, "accumulate": 2}, {"norm": "post", "kv_heads": 1, "qk_norm": True}),
    ],
    ids=["streamed", "normed", "cut"],
)
def test_compiled_in_one_piece_it_learns_what_the_plain_step_does(changes, options, monkeypatch):
    config = TrainConfig(**changes)
    shape = {"width": 32, "layers": 2, "heads": 2, "feedforward": 48, "norm": "pre", "dropout": 0.0, **options}
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**shape), WORDS).train()
    batch, loss = corpus(tokens=48, pairs=12, parts=config.accumulate)[0][0], consistency.choose_loss(config)
    plain, wanted = learn(model, batch, loss, torch.float32)
    open_gates(monkeypatch)
    torch._dynamo.reset()
    with streams(model):
        for block in (m for m in model.modules() if isinstance(m, COMPILED) and not has_table(m)):
            block.compile(dynamic=False, fullgraph=True, backend="aot_eager")
        value, gradients = learn(model, batch, loss.fused(), torch.float16)
    torch.testing.assert_close(value, plain, rtol=1e-3, atol=0)
    for name, gradient in wanted.items():
        if gradient.ndim > 1:  # the keys' bias changes nothing: its gradient is rounding alone
            assert (gradient - gradients[name]).norm() <= 0.05 * gradient.norm(), name
