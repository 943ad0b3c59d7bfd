"""Updates that are recorded for each shape of padded batches: here played as they are, by the same code, and held against updates operation by operation."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import manyheads
from manyheads import OptionError
from manyheads.machine import Machine
from manyheads.models.config import ParallelConfig
from manyheads.models.parallel import ParallelTransformer
from manyheads.recipe import TrainConfig
from manyheads.recorded import Eager, Recorded
from manyheads.tasks.parallel import GraphLoss, PlacesBatch, Task
from manyheads.tasks.task import Validation
from manyheads.text.tokenizer import END, PADDING
from manyheads.training import beginning, loop, shaped
from manyheads.training.shaped import ShapedSteps
from manyheads.training.state import State
from manyheads.training.steps import EagerSteps, check_gradients, learn_weighted
from training.corpus import TINY, write_pairs

WORDS = 40
GRAPH = {"width": 32, "layers": 1, "heads": 2, "feedforward": 48, "norm": "pre", "writes": "graph", "places": 2.0}


def batches(device="cpu", count=6):
    """Each target is its source; every other batch has the shape of the one before the last."""
    random = np.random.default_rng(0)

    def batch(sentences, longest):
        lengths = random.integers(1, longest, sentences)
        lengths[0] = longest - 1
        words = torch.from_numpy(random.integers(3, WORDS, (sentences, longest - 1)))
        there = torch.arange(longest - 1) < torch.from_numpy(lengths)[:, None]
        labels = words.where(there, PADDING)
        source = torch.nn.functional.pad(labels, (0, 1)).scatter(1, torch.from_numpy(lengths)[:, None], END)
        vertices = 2 * torch.from_numpy(lengths)[:, None] + 4
        target = torch.where(torch.arange(2 * longest + 2) < vertices, WORDS, PADDING)
        tokens = int(lengths.sum())
        return PlacesBatch(source, target, labels, count=tokens, glance=torch.full((sentences,), 0.5)).rounded()

    return [batch(*((4, 8), (7, 5))[n % 2]).to(torch.device(device)) for n in range(count)]


def state_of(config, device="cpu", dropout=0.0):
    torch.manual_seed(0)
    state = State(ParallelTransformer(ParallelConfig(**GRAPH, dropout=dropout), WORDS), config, torch.device(device))
    state.model.train()
    return state


def steps_of(config, device="cpu", precision="fp32", recorder=None, dropout=0.0):
    """(operation by operation, by shapes), each with a model of its own."""
    eager, under = (
        EagerSteps(
            state_of(config, device, dropout), config, Machine(torch.device(device), precision), GraphLoss().fused
        )
        for _ in range(2)
    )
    return eager, ShapedSteps(under, GraphLoss().fused, recorder or Eager)


def learn(steps, some, first=0):
    return torch.stack([torch.stack(steps(batch, first + n + 1, 1e-2)) for n, batch in enumerate(some)])


def assert_like(ours, theirs, tolerance=1e-5):
    """Matrices: the bias of keys changes nothing, its gradient is rounding alone."""
    for name, weight in ours.items():
        if weight.ndim > 1:
            torch.testing.assert_close(weight, theirs[name], rtol=1e-4, atol=tolerance, msg=name)


def assert_every_weight_has_a_gradient(device, precision):
    """Also after a first look without gradients, whose rounded weights autocast keeps."""
    _, steps = steps_of(TrainConfig(), device, precision)
    model = steps.eager.state.model
    learn_weighted(model, batches(device, 1), torch.tensor(0.1, device=device), steps.loss, steps.eager.machine)
    check_gradients(model)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_weight_has_a_gradient(precision):
    assert_every_weight_has_a_gradient("cpu", precision)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_by_shapes_it_learns_what_it_learns_operation_by_operation(accumulate):
    config = TrainConfig(accumulate=accumulate, ema=0.9)
    eager, by_shapes = steps_of(config, dropout=0.1)
    torch.testing.assert_close(learn(by_shapes, batches()), learn(eager, batches()))
    assert len(by_shapes.places) == 2
    assert_like(by_shapes.eager.state.model.state_dict(), eager.state.model.state_dict())
    assert_like(by_shapes.eager.state.average.weights, eager.state.average.weights)


def test_a_batch_is_left_as_it_is():
    """It is the loader's: what lies at a place is overwritten by the next one."""
    _, by_shapes = steps_of(TrainConfig())
    some = batches()
    before = [[t.clone() for t in batch.tensors()] for batch in some]
    learn(by_shapes, some)
    assert all(torch.equal(x, y) for b, old in zip(some, before, strict=True) for x, y in zip(b.tensors(), old, strict=True))  # fmt: skip


def test_where_memory_is_too_short_it_is_computed_in_parts(monkeypatch):
    split = []
    eager, by_shapes = steps_of(TrainConfig())
    by_shapes.eager.on_split = lambda step, parts: split.append((step, parts))
    whole = GraphLoss().fused

    def short(model, batch):
        if len(batch.source) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(model, batch)

    by_shapes.loss = by_shapes.eager.loss = short
    torch.testing.assert_close(learn(by_shapes, batches()), learn(eager, batches()))
    assert split == [(2, 2), (4, 2), (6, 2)]
    assert len(by_shapes.places) == 1
    assert len(by_shapes.too_large) == 1


class AtOnce(Recorded):
    def run(self, work):
        work()


def test_what_there_is_no_memory_to_record_is_computed_as_it_is():
    """Whole: what a recording keeps for itself, it need not have."""
    told, tried = [], []
    eager, by_shapes = steps_of(TrainConfig(ema=0.9))
    by_shapes.eager.on_split = None

    def record(work):
        tried.append(work)
        raise torch.OutOfMemoryError("CUDA out of memory")

    by_shapes.recorder = lambda: AtOnce(SimpleNamespace(record=record, tell=told.append))
    torch.testing.assert_close(learn(by_shapes, batches()), learn(eager, batches()))
    assert (len(told), len(tried)) == (1, 1)
    assert "out of memory" in told[0]
    assert not by_shapes.too_large


def test_an_update_that_began_is_not_made_twice():
    _, by_shapes = steps_of(TrainConfig())

    def half(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    by_shapes.eager.state.optimizer.step = half
    with pytest.raises(torch.OutOfMemoryError):
        learn(by_shapes, batches()[:1])


def test_an_update_that_had_not_begun_is_made_after_all(monkeypatch):
    """Nothing has changed yet where a batch finds no place, however many updates were made before."""
    eager, by_shapes = steps_of(TrainConfig())
    some, put = batches(), shaped.Place.put
    wanted = learn(eager, some)
    found = [learn(by_shapes, some[:3])]

    def full(self, batch):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(shaped.Place, "put", full)
    found.append(learn(by_shapes, some[3:4], first=3))
    monkeypatch.setattr(shaped.Place, "put", put)
    found.append(learn(by_shapes, some[4:], first=4))
    torch.testing.assert_close(torch.cat(found), wanted)
    assert len(by_shapes.too_large) == 1


def test_a_replay_that_began_is_not_made_twice(monkeypatch):
    """It has run no Python that could say so."""
    _, by_shapes = steps_of(TrainConfig())
    some = batches()
    learn(by_shapes, some[:2])

    def report():
        raise torch.OutOfMemoryError("CUDA out of memory")

    for place in by_shapes.places.values():
        place.player = lambda work: None
    by_shapes.report = SimpleNamespace(clone=report)
    with pytest.raises(torch.OutOfMemoryError):
        learn(by_shapes, some[2:3], first=2)


def test_what_was_recorded_before_is_given_up_for_memory():
    """All recordings share what they have reserved: as long as one is kept, none of it can go to others."""
    eager, by_shapes = steps_of(TrainConfig())
    by_shapes.eager.on_split = None
    some, places = batches(), []

    def record(work):
        if places:
            raise torch.OutOfMemoryError("CUDA out of memory")
        places.append(by_shapes.places)
        return SimpleNamespace(replay=work)

    by_shapes.recorder = lambda: AtOnce(SimpleNamespace(record=record, tell=lambda why: None))
    torch.testing.assert_close(learn(by_shapes, some), learn(eager, some))
    assert not any(isinstance(place.player, Recorded) for place in by_shapes.places.values())
    assert by_shapes.recorder is Eager


def test_what_cannot_be_recorded_is_said_once_and_learnt_from_as_it_is():
    told, tried = [], []
    eager, by_shapes = steps_of(TrainConfig())
    plain = by_shapes.loss

    def failing(model, batch):
        """Leaves gradients that would, on a GPU, never have been computed."""
        (plain(model, batch) * 1e6).backward()
        raise RuntimeError("not permitted when stream is capturing")

    def record(work):
        tried.append(work)
        by_shapes.loss = failing
        try:
            work()
        finally:
            by_shapes.loss = plain

    by_shapes.recorder = lambda: AtOnce(SimpleNamespace(record=record, tell=told.append))
    some = [replace(batch, glance=None) for batch in batches()]  # a recording that failed may have drawn
    torch.testing.assert_close(learn(by_shapes, some), learn(eager, some))
    assert told == ["RuntimeError: not permitted when stream is capturing"]
    assert len(tried) == 1


@pytest.mark.parametrize(("device", "few_shapes", "processes", "wanted"), [
    ("cpu", False, 1, "states"), ("cuda", True, 1, "states"), ("cuda", False, 1, "logits"), ("cpu", True, 2, "logits"),
])  # fmt: skip
def test_of_a_graph_no_logits_are_held_as_it_is_either(device, few_shapes, processes, wanted):
    task = SimpleNamespace(has_few_shapes=few_shapes, loss="logits", fused_loss=lambda: "states")
    machine = SimpleNamespace(device=torch.device(device))
    assert (
        loop.loss_as_it_is(SimpleNamespace(task=task, machine=machine, team=SimpleNamespace(size=processes))) == wanted
    )


def test_what_fails_for_another_reason_fails():
    _, by_shapes = steps_of(TrainConfig())
    by_shapes.loss = lambda model, batch: 1 / 0
    with pytest.raises(ZeroDivisionError):
        learn(by_shapes, batches()[:1])


def test_of_too_many_shapes_some_are_not_kept(monkeypatch):
    monkeypatch.setattr(shaped, "MOST_SHAPES", 1)
    eager, by_shapes = steps_of(TrainConfig())
    torch.testing.assert_close(learn(by_shapes, batches()), learn(eager, batches()))
    assert len(by_shapes.places) == 1


def test_a_gradient_that_is_not_finite_changes_nothing():
    _, by_shapes = steps_of(TrainConfig())
    before = [p.clone() for p in by_shapes.eager.state.parameters]
    by_shapes.loss = lambda model, batch: GraphLoss().fused(model, batch) * torch.inf
    assert learn(by_shapes, batches()[:1])[0, 2] == 1
    assert all(torch.equal(p, old) for p, old in zip(by_shapes.eager.state.parameters, before, strict=True))


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

TINIEST = {key: value for key, value in TINY.items() if not key.startswith("decode")}
CHANGES = {**TINIEST, "train.warmup": 0, "train.steps": 12, "train.save_every": 4, "model.dropout": 0.0, "train.glance": 0.0}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return write_pairs(folder / "train.tsv", 200), write_pairs(folder / "dev.tsv", 20, seed=1)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    for module in (loop, beginning):
        monkeypatch.setattr(module, "can_graph", lambda machine, team: True)
    monkeypatch.setattr(shaped, "Recorder", lambda device, tell: Eager)
    monkeypatch.setattr(Task, "validate", lambda *_, **__: Validation(0.0, {"loss": 1.0}))


def train(data, out, recipe="parallel/graph", **changes):
    return manyheads.train(
        recipe, train=data[0], dev=data[1], out=out, changes={**CHANGES, **changes}, device="cpu", quiet=True
    )


@pytest.mark.parametrize("fast", ["auto", "on"])
def test_a_run_of_shapes_is_a_run_of_padded_batches(tmp_path, data, monkeypatch, as_on_a_gpu, fast):
    shapes, place_for = [], ShapedSteps.place_for
    monkeypatch.setattr(
        ShapedSteps, "place_for", lambda self, shape, batch: shapes.append(shape) or place_for(self, shape, batch)
    )
    train(data, tmp_path / "shaped", **{"train.fast": fast})
    assert len(shapes) == 12
    assert all(shape[0][0] % 4 == 0 and shape[0][1] % 8 == shape[1][1] % 8 == 0 for shape in shapes)
    train(data, tmp_path / "plain", **{"train.fast": "off"})
    assert len(shapes) == 12
    models = (manyheads.ParallelTranslator.load(tmp_path / name).model for name in ("shaped", "plain"))
    assert_like(*(model.state_dict() for model in models), tolerance=1e-4)


def test_what_is_packed_and_what_is_not_one_shape_is_not_shaped(tmp_path, data, monkeypatch, as_on_a_gpu):
    monkeypatch.setattr(loop, "recorded_steps", None)
    train(data, tmp_path / "learned", **{"model.positions": "learned", "model.max_length": 1026})
    train(data, tmp_path / "mask", "parallel/mask", **{"train.fast": "off", "train.rdrop": 0.0})


def test_fast_is_refused_where_nothing_can_be_recorded(tmp_path, data):
    with pytest.raises(OptionError, match="needs one GPU in bf16"):
        train(data, tmp_path / "run", **{"train.fast": "on"})


def test_rows_that_are_copies_are_not_learnt_from():
    batch = batches()[1]
    assert batch.source.shape == (8, 8)
    assert torch.equal(batch.source[7], batch.source[0])
    assert not batch.labels[7].any()
    plain = replace(batch, **{name: getattr(batch, name)[:7] for name in batch.names()})
    model = state_of(TrainConfig()).model
    plain, batch = replace(plain, glance=None), replace(batch, glance=None)
    torch.testing.assert_close(GraphLoss().fused(model, batch), GraphLoss().fused(model, plain))
