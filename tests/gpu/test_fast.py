"""The recorded update against the one that is computed operation by operation, on a GPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from manyheads import Transformer, TransformerConfig
from manyheads.machine import Machine
from manyheads.recipe import TrainConfig
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import Parts, pack_pairs, pad_pairs
from manyheads.tasks.teachers import ALONE, Teachers
from manyheads.text.packs import PackPlan
from manyheads.text.shards import Rows

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]

WORDS = 500


def corpus(tokens=1024, pairs=400, parts=1):
    """Parts, and the same pairs padded; each target is its source backwards, so that there is something to learn."""
    random = np.random.default_rng(0)
    lengths = random.integers(3, 40, pairs)
    plan = PackPlan(lengths + 1, lengths + 1, tokens, 1, parts=parts)
    sentences = [random.integers(3, WORDS, n) for n in lengths]

    def rows(some, turn):
        chosen = [sentences[row][::turn] for row in some]
        sizes = np.array([len(ids) for ids in chosen], np.int64)
        return Rows(np.concatenate([*chosen, []]).astype(np.int64), np.cumsum(sizes) - sizes, sizes)

    packed, padded = [], []
    for step in range(plan.batches):
        packs = [pack_pairs(rows(some, 1), rows(some, -1), plan.room, 64) for some in plan.rows(step)]
        all_rows = np.concatenate(plan.rows(step))
        padded.append(pad_pairs(rows(all_rows, 1), rows(all_rows, -1)))
        packed.append(Parts(packs, padded[-1].count))
    return packed, padded


def state_of(config, dropout=0.0, **options):
    from manyheads.training.state import State

    torch.manual_seed(0)
    shape = TransformerConfig(**{"width": 64, "layers": 2, "heads": 2, "feedforward": 128, "norm": "pre", **options})
    model = Transformer(replace(shape, dropout=dropout), WORDS)
    state = State(model, config, torch.device("cuda"))
    state.model.train()
    return state


def teachers():
    """Of other shapes than the student's, and sure of what they say."""
    models = [state_of(TrainConfig(), width=32 * n, layers=1).model.eval().requires_grad_(False) for n in (1, 3)]
    for model in models:
        model.output_words.mul_(4)
        model.bfloat16()
    return Teachers(models, 0.6)


def run(kind, batches, config, steps=30, state=None, first=0, taught=ALONE, **options):
    from manyheads.training.steps import EagerSteps, GraphedSteps

    state = state or state_of(config, **options)
    machine = Machine(torch.device("cuda"), "bf16")
    loss = replace(choose_loss(config), teachers=taught)
    learn = (
        EagerSteps(state, config, machine, loss)
        if kind == "eager"
        else GraphedSteps(state, config, machine, loss.fused(), batches[0])
    )
    losses = [learn(batches[n % len(batches)], n + 1, 1e-3) for n in range(first, first + steps)]
    return state, torch.stack([loss for loss, _, _ in losses]).cpu(), losses


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"ema": 0.9, "accumulate": 2}, {"positions": "rotary", "normaliser": "rms", "activation": "swiglu"}),
        ({"simcut": 1.0, "cut": 0.0}, {"norm": "post", "bias": True}),
        ({"accumulate": 3, "freeze": "encoder"}, {"width": 72, "heads": 3, "cross": "same", "tie": "target"}),
        ({}, {"window": (4, 2), "drop_path": 0.0, "tie": "none", "decoder_layers": 1}),
        ({"rdrop": 2.0, "optimizer": "muon"}, {"qk_norm": True, "kv_heads": 1, "positions": "learned", "max_length": 64}),
    ],
)  # fmt: skip
def test_the_recorded_update_learns_the_same(changes, options):
    config = TrainConfig(clip=1.0, **changes)
    packed, padded = corpus(parts=config.accumulate)
    options = {"dropout": 0.0, **options}
    fast, losses, _ = run("graphed", packed, config, **options)
    plain, others, _ = run("eager", padded, config, **options)
    assert others[-1] < 0.9 * others[0]
    torch.testing.assert_close(losses, others, rtol=0.02, atol=0.02)
    for one, other in zip(fast.model.parameters(), plain.model.parameters(), strict=True):
        if one.ndim > 1:  # the keys' bias changes nothing: its gradient is rounding alone, which Adam makes large
            assert (one - other).norm() <= 0.1 * other.norm()


@pytest.mark.parametrize("changes", [{}, {"rdrop": 2.0, "accumulate": 2}])
def test_what_teachers_say_is_recorded_along_with_the_update(changes):
    config = TrainConfig(**changes)
    packed, padded = corpus(parts=config.accumulate)
    _, losses, _ = run("graphed", packed, config, taught=teachers())
    _, others, _ = run("eager", padded, config, taught=teachers())
    _, untaught, _ = run("eager", padded, config)
    torch.testing.assert_close(losses, others, rtol=0.02, atol=0.02)
    assert (losses - untaught).abs().min() > 0.1


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_run_that_goes_on_is_the_same_run_bit_for_bit(tmp_path, positions):
    from manyheads.training.checkpoints import Checkpoints

    config, shape = TrainConfig(ema=0.9), {"dropout": 0.2, "positions": positions, "max_length": 64}
    packed, _ = corpus()
    whole, losses, _ = run("graphed", packed, config, steps=8, **shape)
    half, first, _ = run("graphed", packed, config, steps=4, **shape)
    checkpoints = Checkpoints(tmp_path, print)
    checkpoints.save(4, half.contents())
    again = state_of(config, **shape)
    again.restore(checkpoints.newest())
    again, second, _ = run("graphed", packed, config, steps=4, state=again, first=4)
    assert torch.equal(losses, torch.cat([first, second]))
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_dropout_differs_from_step_to_step_and_not_from_run_to_run():
    config = TrainConfig()
    packed, _ = corpus()
    _, one, _ = run("graphed", packed[:1], config, steps=6, dropout=0.3)
    _, other, _ = run("graphed", packed[:1], config, steps=6, dropout=0.3)
    _, still, _ = run("graphed", packed[:1], config, steps=6, dropout=0.0)
    assert torch.equal(one, other)
    assert (one - still).abs().max() > 1e-3


def test_other_words_are_cut_in_every_replay():
    config = TrainConfig(simcut=1.0, cut=0.5)
    packed, _ = corpus()
    state = state_of(config)
    from manyheads.training.steps import GraphedSteps

    machine = Machine(torch.device("cuda"), "bf16")
    learn = GraphedSteps(state, config, machine, choose_loss(config).fused(), packed[0])
    losses = [learn(packed[0], step, 0.0)[0].item() for step in (1, 2, 1)]
    assert losses[0] == losses[2] != losses[1]


def test_a_gradient_that_is_not_finite_changes_nothing():
    config = TrainConfig(ema=0.9)
    packed, _ = corpus()
    state = state_of(config)
    with torch.no_grad():
        state.model.words.weight[5] = float("nan")
        before = [p.clone() for p in state.model.parameters()]
    state, _, reports = run("graphed", packed, config, steps=2, state=state)
    assert [skipped.item() for _, _, skipped in reports] == [1.0, 1.0]
    for one, other in zip(state.model.parameters(), before, strict=True):
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


def test_blocks_are_as_they_were_afterwards():
    config = TrainConfig()
    packed, padded = corpus()
    state, _, _ = run("graphed", packed, config, steps=1)
    assert all(module._compiled_call_impl is None for module in state.model.modules())
    with torch.no_grad():
        logits = state.model(*padded[0].to(torch.device("cuda")).inputs)
    assert logits.isfinite().all()


def test_an_update_that_cannot_be_recorded_leaves_nothing_behind():
    """A number that is read ends a recording in a way that torch does not clean up by itself."""
    from manyheads.training.steps import GraphedSteps

    config = TrainConfig()
    packed, _ = corpus()
    loss = choose_loss(config).fused()

    def reads(model, batch):
        value = loss(model, batch)
        value.item()
        return value

    with pytest.raises(RuntimeError, match="captur"):
        GraphedSteps(state_of(config), config, Machine(torch.device("cuda"), "bf16"), reads, packed[0])
    assert torch.rand(5, device="cuda").unique().numel() > 1
    _, losses, _ = run("graphed", packed, config, steps=2)
    assert losses.isfinite().all()
