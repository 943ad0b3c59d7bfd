"""On a GPU: a recorded search finds what the same steps find as they are, and what the search on the host finds."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import pytest
import torch

from decoding.test_resident import KINDS, WORDS, assert_same, build, together
from manyheads.decoding import rooms
from manyheads.decoding.beam import beam_search
from manyheads.decoding.rooms import Rooms, applies, resident_search, rooms_of
from manyheads.recorded import Eager, Recorder
from manyheads.text.tokenizer import END, PADDING

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.plain,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
]


def batch(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(END, WORDS, (length,), generator=generator) for length in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING).cuda()


BATCHES = [([5, 9, 3], [40, 20, 7]), ([16, 1, 7], [3, 45, 60]), ([4, 4, 4], [64, 64, 1])]
"""All of one room: from the second on, what is replayed was recorded for others."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beam", [1, 5])
@torch.no_grad()
def test_recorded_is_eager_is_the_search_on_the_host(kind, beam):
    model = build(0, kind).cuda()
    longest = model.config.max_length if model.config.positions == "learned" else 64
    eager = Rooms(torch.device("cuda"), record=False)
    for turn, (lengths, limits) in enumerate(BATCHES * 2):
        source, limits = batch(lengths, turn), [min(longest, limit) for limit in limits]
        assert applies(model, source, limits, beam)
        wanted = beam_search(model, source, limits, beam=beam, alpha=0.6)
        assert_same(eager.search(model, source, limits, beam=beam, alpha=0.6), wanted, tolerance=1e-4)
        assert_same(resident_search(model, source, limits, beam=beam, alpha=0.6), wanted, tolerance=1e-4)
    recordings = [one for kept in rooms_of(model).kept.values() for one in (kept.begin, *kept.steps.values())]
    assert sum(one.graph is not None for one in recordings) >= 2


@pytest.mark.parametrize("beam", [1, 5])
@torch.no_grad()
def test_an_ensemble_is_recorded_as_one(beam):
    model = together(
        *(build(n, kind) for n, kind in enumerate(("plain", "rotary, grouped heads", "layer by layer")))
    ).cuda()
    for turn, (lengths, limits) in enumerate(BATCHES * 2):
        source = batch(lengths, turn)
        assert applies(model, source, limits, beam)
        wanted = beam_search(model, source, limits, beam=beam, alpha=0.6)
        assert_same(resident_search(model, source, limits, beam=beam, alpha=0.6), wanted, tolerance=1e-4)
    (kept,) = rooms_of(model).kept.values()
    assert all(one.graph is not None for one in (kept.begin, kept.steps[16]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@torch.no_grad()
def test_in_half_precision_a_replay_gives_what_the_eager_step_gives(dtype):
    model = build(0).cuda().to(dtype)
    eager = Rooms(torch.device("cuda"), record=False)
    for turn, (lengths, limits) in enumerate(BATCHES * 2):
        search = partial(resident_search, model, batch(lengths, turn), limits, beam=4, alpha=1.0)
        wanted = eager.search(model, batch(lengths, turn), limits, beam=4, alpha=1.0)
        assert_same(search(), wanted, tolerance=1e-3)


@torch.no_grad()
def test_a_replay_sees_weights_that_were_changed_in_place():
    model, other = build(0).cuda(), build(1).cuda()
    search = partial(resident_search, source=batch([5, 6, 7]), limits=[30, 30, 30], beam=3, alpha=0.6)
    before = [search(model) for _ in range(3)][-1]
    kept = list(rooms_of(model).kept.values())
    model.load_state_dict(other.state_dict())
    after = search(model)
    assert list(rooms_of(model).kept.values()) == kept
    assert before != after
    assert_same(after, search(other), tolerance=1e-4)


@torch.no_grad()
def test_weights_that_moved_are_recorded_anew():
    model = build(0).cuda()
    search = partial(resident_search, source=batch([5, 6, 7]), limits=[30, 30, 30], beam=3, alpha=0.6)
    wanted = [search(model) for _ in range(3)][-1]
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    assert_same([search(model) for _ in range(3)][-1], wanted, tolerance=1e-4)
    model.half()
    assert {h.finished for one in [search(model) for _ in range(3)][-1] for h in one} <= {True, False}
    (kept,) = rooms_of(model).kept.values()
    assert kept.beams.cache.past[0].k.dtype == torch.float16


@torch.no_grad()
def test_under_autocast_it_computes_in_the_precision_of_the_model():
    model, source = build(0).cuda(), batch([5, 6])
    wanted = resident_search(model, source, [20, 20], beam=2, alpha=0.6)
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(3):
            assert_same(resident_search(model, source, [20, 20], beam=2, alpha=0.6), wanted, tolerance=1e-5)


@torch.no_grad()
def test_a_step_never_waits_for_the_gpu():
    model = build(0).cuda()
    kept = rooms.Kept(model, rooms.Room(4, 3, 16, 32), Eager)
    kept.fill(batch([5, 9, 3, 4]), [20] * 4, 0.6)
    torch.cuda.set_sync_debug_mode("error")
    try:
        rooms.begin(model, kept.beams)
        for _ in range(5):
            rooms.search_step(model, kept.beams, 16)
            kept.done.ask(kept.beams.going)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@torch.no_grad()
def test_what_fails_while_it_is_recorded_is_done_as_it_is():
    """A recording that was given up leaves the GPU and its streams usable."""
    current = torch.cuda.current_stream()
    recorded, x = Recorder(torch.device("cuda"))(), torch.zeros(3, device="cuda")

    def adds():
        x.add_(1)

    def fails():
        x.add_(1)
        raise ValueError("not now")

    recorded(adds)
    with pytest.warns(RuntimeWarning, match="not now"), pytest.raises(ValueError, match="not now"):
        recorded(fails)
    assert torch.cuda.current_stream() == current
    recorded(adds)
    recorded(adds)
    assert recorded.graph is None
    assert x.tolist() == [4, 4, 4]


@torch.no_grad()
def test_a_recording_that_failed_keeps_no_memory():
    def fails():
        held = torch.empty(1 << 26, device="cuda")
        raise ValueError(f"not now, with {len(held):,} numbers")

    recorder = Recorder(torch.device("cuda"))
    with torch.cuda.stream(recorder.stream):
        torch.cuda.current_blas_handle()  # has a workspace on every stream, and keeps it
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    with pytest.raises(ValueError, match="not now"):
        recorder.record(fails)
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before


@torch.no_grad()
def test_what_waits_for_the_gpu_cannot_be_recorded_and_the_search_goes_on():
    """A number that is read ends a recording in a way that torch does not clean up by itself."""
    current, recorder, x = torch.cuda.current_stream(), Recorder(torch.device("cuda")), torch.zeros(3, device="cuda")
    recorded, other = recorder(), recorder()

    def reads():
        x.add_(1).sum().item()

    def adds():
        x.add_(torch.ones(3, device="cuda"))

    recorded(reads)
    with pytest.warns(RuntimeWarning, match="could not record"):
        recorded(reads)
    recorded(reads)
    assert torch.cuda.current_stream() == current
    assert x.tolist() == [3, 3, 3]
    # A recording that is not ended would hold on to the generator, and to the memory that others record into.
    assert torch.rand(5, device="cuda").unique().numel() > 1
    for _ in range(3):
        other(adds)
    assert other.graph is not None
    assert x.tolist() == [6, 6, 6]


@torch.no_grad()
def test_what_one_thread_has_warmed_up_another_records():
    """A handle of cuBLAS belongs to a thread, and none can be made while a graph is recorded."""
    recorded, x, out = Recorder(torch.device("cuda"))(), torch.eye(4, device="cuda"), torch.empty(4, 4, device="cuda")
    others, everyone, ended = 32, Barrier(33), Event()

    def multiplies():
        torch.mm(x, x, out=out)

    def keeps_a_handle():  # those of threads that have ended are there for the next
        torch.cuda.current_blas_handle()
        everyone.wait()
        ended.wait()

    recorded(multiplies)
    with ThreadPoolExecutor(others + 1) as pool:
        for _ in range(others):
            pool.submit(keeps_a_handle)
        everyone.wait()
        try:
            pool.submit(recorded, multiplies).result()
        finally:
            ended.set()
    assert recorded.graph is not None
    assert torch.equal(out, x)


@torch.no_grad()
def test_without_memory_the_host_searches(monkeypatch):
    model, source = build(0).cuda(), batch([5, 6])
    wanted = beam_search(model, source, [20, 20], beam=2, alpha=0.6)
    monkeypatch.setattr(rooms, "free_bytes", lambda _: 0)
    assert_same(resident_search(model, source, [20, 20], beam=2, alpha=0.6), wanted, tolerance=1e-4)
    assert not rooms_of(model).kept


@torch.no_grad()
def test_a_search_that_was_not_finite_leaves_nothing_behind():
    model, other, source = build(0).cuda(), build(0).cuda(), batch([5, 6])
    search = partial(resident_search, model, source, [30, 30], beam=2, alpha=0.6)
    wanted = [search() for _ in range(3)][-1]
    for parameter in model.parameters():
        parameter.fill_(torch.nan)
    search()
    model.load_state_dict(other.state_dict())
    assert_same(search(), wanted, tolerance=1e-4)
