"""The search that lives on the device against the one that lives on the host, step by step and as a whole, on the CPU.

What a GPU adds, recordings of these same steps, is tested in tests/gpu/test_recorded.py.
"""

import gc
import threading
import warnings
import weakref
from dataclasses import replace
from functools import partial
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.untrained import build as build_translator
from manyheads import Transformer, TransformerConfig
from manyheads.decoding import rooms
from manyheads.decoding.beam import beam_search
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.hypothesis import NOTHING, length_penalty
from manyheads.decoding.recordings import few_sizes, forget_recordings
from manyheads.decoding.resident import Beams, begin, search_step, trace
from manyheads.decoding.rooms import Rooms, applies, resident_search, room_for, rooms_of
from manyheads.decoding.translator import Translator
from manyheads.nn import BeamCache, MultiHeadAttention, Padded, Room
from manyheads.nn.beams import BeamPast
from manyheads.nn.cache import KeyValue, KeyValueCache
from manyheads.recorded import Eager, Recorded, warn
from manyheads.tasks.translate import Task
from manyheads.text.tokenizer import END, PADDING

WORDS = 11
SMALL = TransformerConfig(width=16, layers=2, heads=4, feedforward=32, dropout=0.1, tie="none", norm="pre")
KINDS = {
    "plain": SMALL,
    "post-norm with biases": replace(SMALL, norm="post", bias=True, tie="all", positions="sinusoidal-split"),
    "rotary, grouped heads": replace(SMALL, positions="rotary", kv_heads=2, qk_norm=True),
    "learned positions that end": replace(SMALL, positions="learned", max_length=40),
    "values wider than keys, other scores": replace(SMALL, key_width=2, value_width=6, score="additive"),
    "layer by layer": replace(SMALL, cross="same", normaliser="rms", activation="swiglu", feedforward_bias=False),
}
seeds = st.integers(0, 9_999)
kinds = st.sampled_from(sorted(KINDS))
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])
sentences = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=1, max_size=5)


def build(seed, kind="plain", words=WORDS):
    """A model that was never trained, loud enough to have opinions."""
    torch.manual_seed(seed)
    model = Transformer(KINDS[kind], words).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def draw_batch(lengths, words=WORDS):
    rows = [torch.randint(END, words, (length,)) for length in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def assert_same(ours, theirs, tolerance=1e-5):
    assert [[(h.ids, h.finished) for h in one] for one in ours] == [
        [(h.ids, h.finished) for h in one] for one in theirs
    ]
    for a, b in zip(chain(*ours), chain(*theirs), strict=True):
        assert a.score == pytest.approx(b.score, rel=tolerance, abs=tolerance)
        assert a.log_probability == pytest.approx(b.log_probability, rel=tolerance, abs=tolerance)


@settings(max_examples=60)
@given(seeds, kinds, sentences, alphas, st.integers(1, 6))
@torch.no_grad()
def test_it_finds_what_the_search_on_the_host_finds(seed, kind, sentences, alpha, beam):
    model = build(seed, kind)
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(lengths)
    ours = resident_search(model, source, limits, beam=beam, alpha=alpha)
    assert_same(ours, beam_search(model, source, limits, beam=beam, alpha=alpha))


def together(*members):
    """They read the same ids."""
    alike = SimpleNamespace(as_json=lambda: "the same")
    return Ensemble(members, [alike] * len(members)).eval()


@settings(max_examples=30)
@given(seeds, st.lists(kinds, min_size=1, max_size=3), sentences, alphas, st.integers(1, 5))
@torch.no_grad()
def test_an_ensemble_finds_what_it_finds_on_the_host(seed, kinds, sentences, alpha, beam):
    """Of models of all shapes: each has a room of its own."""
    model = together(*(build(seed + n, kind) for n, kind in enumerate(kinds)))
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(lengths)
    ours = resident_search(model, source, limits, beam=beam, alpha=alpha)
    assert_same(ours, beam_search(model, source, limits, beam=beam, alpha=alpha))
    (kept,) = rooms_of(model).kept.values()
    assert kept.beams.cache.bytes == rooms.room_bytes(model, kept.beams.cache.room)


@settings(max_examples=20)
@given(seeds, sentences, alphas)
@torch.no_grad()
def test_a_beam_of_one_is_greedy_search(seed, sentences, alpha):
    model = build(seed)
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(lengths)
    greedy = decode_one_by_one(model, source, limits, alpha)
    assert_same(resident_search(model, source, limits, beam=1, alpha=alpha), [[one] for one in greedy])


@settings(max_examples=15)
@given(seeds, sentences, alphas, st.integers(1, 4))
@torch.no_grad()
def test_a_sentence_gives_the_same_alone_and_in_company(seed, sentences, alpha, beam):
    """… also in a room that someone else has used before: of the rooms here, most are."""
    model = build(seed)
    lengths, limits = zip(*sentences, strict=True)
    source = draw_batch(lengths)
    together = resident_search(model, source, limits, beam=beam, alpha=alpha)
    for n, (length, limit) in enumerate(sentences):
        alone = resident_search(model, source[n : n + 1, :length], [limit], beam=beam, alpha=alpha)
        assert_same(alone, together[n : n + 1])


@torch.no_grad()
def test_what_fills_a_room_up_changes_nothing():
    """Rows that are not used find nothing, and a wider room gives the same."""
    model, source, limits = build(3), draw_batch([5, 8, 2]), [9, 30, 4]
    wanted = beam_search(model, source, limits, beam=3, alpha=0.6)
    for room in (Room(3, 3, 8, 30), Room(8, 3, 8, 30), Room(3, 3, 24, 30), Room(16, 3, 32, 128)):
        kept = rooms.Kept(model, room, Eager)
        assert_same(kept.search(model, source, limits, 0.6), wanted)
        assert not kept.beams.going.any()
        assert (kept.beams.found.scores[3:] == -torch.inf).all()


@torch.no_grad()
def test_a_sentence_that_is_done_keeps_what_it_found():
    """However long the others take."""
    model, source, limits = build(5), draw_batch([6, 6]), [3, 25]
    beams = Beams.empty(model, Room(2, 2, 6, 32))
    beams.source.copy_(source)
    beams.last.copy_(torch.tensor(limits) - 1)
    begin(model, beams)
    for _ in range(3):
        search_step(model, beams, 32)
    assert beams.going.tolist()[0] is False
    before = trace(beams, 3, limits)[0]
    for _ in range(20):
        search_step(model, beams, 32)
    assert trace(beams, 23, limits)[0] == before
    assert_same([before], beam_search(model, source, limits, beam=2, alpha=0.0)[:1])


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_room_gives_the_logits_of_the_cache_that_grows(kind):
    """Beams that change places, twice from the same one: a mask on one side, copies of keys on the other."""
    model, beam = build(1, kind), 3
    source = draw_batch([7, 4])
    room = BeamCache.empty(model.decoder.blocks, Room(2, beam, 7, 20))
    room.begin(model.start(model.encode(source)))
    grown = model.start(model.encode(source))
    grown.select(torch.arange(2).repeat_interleave(beam))  # the memory, once for each beam
    for step in range(18):
        tokens = torch.randint(END, WORDS, (2, beam))
        ours = model.step_beams(tokens, room, 16 if step < 16 else 20)
        theirs = model.step(tokens.view(-1, 1), grown)[:, 0].view(2, beam, WORDS)
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)
        origin = torch.randint(beam, (2, beam))
        room.advance(origin)
        grown.reorder((origin + beam * torch.arange(2)[:, None]).flatten())


@torch.no_grad()
def test_what_is_not_seen_counts_for_nothing_and_nothing_moves():
    """Keys and values are written once, at their step, and all else of the room stays as it was."""
    model, source, tokens = build(2), draw_batch([5]), torch.tensor([[4, 5]])
    said = []
    for filling in (0.0, 1e4):
        room = BeamCache.empty(model.decoder.blocks, Room(1, 2, 5, 16))
        room.begin(model.start(model.encode(source)))
        for tensor in chain(*room.past):
            tensor.fill_(filling)
        said.append(model.step_beams(tokens, room, 16))
        assert all((tensor[:, :, 1:] == filling).all() for tensor in chain(*room.past))
        assert all((tensor[:, :, 0] != filling).all() for tensor in chain(*room.past))
    assert torch.equal(*said)


@torch.no_grad()
def test_a_window_moves_over_slots_that_lie_still():
    attention, beam, steps = MultiHeadAttention(16, 2, causal=True, window=(2, 0)).eval(), 2, 8
    x, cache = torch.randn(beam, steps, 16), KeyValueCache()
    room, seen = KeyValue(*torch.zeros(2, 1, 2, steps, beam, 8)), torch.zeros(1, 1, beam, steps, beam, dtype=torch.bool)
    for step in range(steps):
        here = torch.tensor([step])
        seen[:, :, :, step] = torch.eye(beam, dtype=torch.bool)
        past = BeamPast(room, here, seen.flatten(3))
        ours = attention.step_beams(x[None, :, step], Padded((1, beam), here.expand(beam), steps), past)
        theirs = attention(x[:, step : step + 1], cache=cache)
        torch.testing.assert_close(ours[0], theirs[:, 0])


@torch.no_grad()
def test_a_model_whose_numbers_are_not_finite_finds_nothing():
    model, source, limits = build(0), draw_batch([3, 4]), [5, 6]
    model.head.weight.fill_(torch.nan)
    for search in (resident_search, beam_search):
        assert search(model, source, limits, beam=2, alpha=1.0) == [[NOTHING], [NOTHING]]
    assert decode_one_by_one(model, source, limits) == [NOTHING, NOTHING]


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_search_that_was_not_finite_leaves_nothing_behind(kind):
    """Slots that are not seen have weight 0, but 0 times NaN is NaN."""
    model, source = build(0, kind), draw_batch([4, 6])
    search = partial(resident_search, model, source, [30, 30], beam=2, alpha=0.6)
    before, weights = search(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.fill_(torch.nan)
    assert search() == [[NOTHING], [NOTHING]]
    model.load_state_dict(weights)
    assert search() == before
    assert len(rooms_of(model).kept) == 1


@torch.no_grad()
def test_one_sentence_that_overflows_spoils_no_other():
    model = build(0).half()
    model.words.weight[9] = 20_000.0  # finite; what the model makes of it is not
    good, mixed = torch.tensor([[4, 5, 6, 2], [7, 5, 2, 0]]), torch.tensor([[4, 9, 6, 2], [7, 5, 2, 0]])
    search = partial(resident_search, model, limits=[30, 30], beam=2, alpha=0.6)
    before = search(good)
    assert search(mixed) == [[NOTHING], before[1]]
    assert search(good) == before


def test_rooms_made_in_inference_mode_are_good_outside_of_it_and_the_other_way_round():
    model = build(0)
    with torch.inference_mode():
        source = draw_batch([5, 6])
        inside = resident_search(model, source, [9, 9], beam=2, alpha=0.6)
    assert resident_search(model, source, [9, 9], beam=2, alpha=0.6) == inside
    with torch.inference_mode():
        assert resident_search(model, source, [9, 9], beam=2, alpha=0.6) == inside
    assert len(rooms_of(model).kept) == 1


@torch.no_grad()
def test_a_beam_wider_than_the_vocabulary():
    model, source = build(0, words=5), draw_batch([4, 2], words=5)
    ours = resident_search(model, source, [6, 9], beam=8, alpha=0.6)
    assert_same(ours, beam_search(model, source, [6, 9], beam=8, alpha=0.6))


@torch.no_grad()
def test_length_penalties_are_those_of_the_host():
    kept = rooms.Kept(build(0), Room(1, 2, 16, 32), Eager)
    kept.fill(draw_batch([4]), [9], 0.6)
    assert kept.beams.penalties.tolist() == [length_penalty(n + 1, 0.6) for n in range(32)]


@torch.no_grad()
def test_the_host_stops_soon_after_all_are_done(monkeypatch):
    """An end that is nearly certain: not at the bound, but two steps after."""
    model, made = build(0), []
    plain = model.step_beams
    monkeypatch.setattr(model, "step_beams", lambda *given: plain(*given) + 20 * torch.eye(WORDS)[END])
    monkeypatch.setattr(rooms, "search_step", lambda *given: made.append(given[2]) or search_step(*given))
    (found,) = resident_search(model, draw_batch([5]), [200], beam=1, alpha=0.0)
    assert found[0].ids == []
    assert made == [16] * (1 + rooms.BEHIND)


@torch.no_grad()
def test_a_step_looks_no_further_than_it_must(monkeypatch):
    model, made = build(0), []
    plain = model.step_beams
    monkeypatch.setattr(model, "step_beams", lambda *given: plain(*given) - 99 * torch.eye(WORDS)[END])
    monkeypatch.setattr(rooms, "search_step", lambda *given: made.append(given[2]) or search_step(*given))
    resident_search(model, draw_batch([5]), [70], beam=1, alpha=0.0)
    assert made == [16] * 16 + [32] * 16 + [64] * 32 + [128] * 6


# ── rooms ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sizes_are_rounded_up_to_few():
    assert [few_sizes(n) for n in (1, 2, 4, 5, 16, 17, 64, 65, 128, 129)] == [1, 4, 4, 16, 16, 64, 64, 128, 128, 256]
    assert all(few_sizes(n) >= n for n in range(1, 1_000))


def test_a_room_ends_where_learned_positions_end():
    model = build(0, "learned positions that end")
    assert room_for(model, torch.ones(5, 33), [40, 3, 1, 1, 1], 4) == Room(16, 4, 40, 40)
    assert room_for(build(0), torch.ones(5, 33), [40, 3, 1, 1, 1], 4) == Room(16, 4, 64, 64)


@torch.no_grad()
def test_rooms_are_used_again_bounded_and_gone_with_their_weights(monkeypatch):
    model, search = build(0), partial(resident_search, beam=2, alpha=0.0)
    monkeypatch.setattr(rooms, "MOST_ROOMS", 2)
    for lengths in ([3], [4], [3] * 5, [3] * 2, [9]):
        search(model, draw_batch(lengths), [9] * len(lengths))
    kept = rooms_of(model).kept
    assert [room.sentences for room in kept] == [4, 1]
    (_, again) = kept.values()
    model.head.weight.mul_(0.5)  # in place: what was kept is good
    search(model, draw_batch([5]), [9])
    assert rooms_of(model).kept[Room(1, 2, 16, 32)] is again
    moved = lambda: setattr(model.head, "weight", torch.nn.Parameter(model.head.weight.clone()))  # noqa: E731
    for change in (model.double, moved, model.train, model.decoder.eval):
        change()
        search(model, draw_batch([5]), [9])
        assert list(rooms_of(model).kept) == [Room(1, 2, 16, 32)]
        assert rooms_of(model).kept[Room(1, 2, 16, 32)] is not again
        again = rooms_of(model).kept[Room(1, 2, 16, 32)]


@torch.no_grad()
def test_weights_changed_in_place_are_seen():
    model, other, source = build(0), build(1), draw_batch([5, 6])
    before = resident_search(model, source, [20, 20], beam=2, alpha=0.6)
    model.load_state_dict(other.state_dict())
    after = resident_search(model, source, [20, 20], beam=2, alpha=0.6)
    assert before != after
    assert_same(after, beam_search(other, source, [20, 20], beam=2, alpha=0.6))


@torch.no_grad()
def test_rooms_keep_no_model_alive():
    model = build(0)
    resident_search(model, draw_batch([5]), [9], beam=2, alpha=0.6)
    seen = weakref.ref(rooms_of(model)), weakref.ref(model)
    del model
    gc.collect()
    assert [one() for one in seen] == [None, None]


def test_rooms_hold_as_many_bytes_as_they_say():
    for kind in KINDS:
        model, room = build(0, kind), Room(3, 2, 16, 32)
        assert rooms.room_bytes(model, room) == BeamCache.empty(model.decoder.blocks, room).bytes


@torch.no_grad()
def test_half_precision_stays_in_half_but_for_the_scores():
    model = build(0).bfloat16()
    kept = rooms.Kept(model, Room(1, 2, 16, 32), Eager)
    assert {tensor.dtype for pair in kept.beams.cache.past for tensor in pair} == {torch.bfloat16}
    source = draw_batch([5])
    ours = kept.search(model, source, [12], 0.6)
    assert_same(ours, beam_search(model, source, [12], beam=2, alpha=0.6), tolerance=0.02)


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@torch.no_grad()
def test_a_room_in_which_a_search_was_broken_off_is_given_up(monkeypatch, error):
    model, source = build(0), draw_batch([5, 6])
    search = partial(resident_search, model, source, [20, 20], beam=2, alpha=0.6)
    wanted, steps = search(), []
    (before,) = rooms_of(model).kept.values()

    def breaks(*given):
        steps.append(given)
        if len(steps) == 4:
            raise error
        return Transformer.step_beams(model, *given)

    with monkeypatch.context() as patch:
        patch.setattr(model, "step_beams", breaks)
        with pytest.raises(error):
            search()
    assert not rooms_of(model).kept
    assert search() == wanted
    assert list(rooms_of(model).kept.values()) != [before]


@pytest.mark.parametrize("when", ["made", "used"])
@torch.no_grad()
def test_without_memory_for_a_room_the_host_searches(monkeypatch, when):
    model, source = build(0), draw_batch([5, 6])
    search = partial(resident_search, beam=2, alpha=0.6)
    search(model, source[:1], [9])

    def full(*_):
        raise torch.OutOfMemoryError("full")

    with monkeypatch.context() as patch:
        patch.setattr(*((rooms.Beams, "empty", full) if when == "made" else (model, "step_beams", full)))
        found = search(model, source, [20, 20])
    assert not rooms_of(model).kept  # the one before is given up, too
    assert_same(found, beam_search(model, source, [20, 20], beam=2, alpha=0.6), tolerance=0)
    assert_same(search(model, source, [20, 20]), found)
    assert len(rooms_of(model).kept) == 1


@torch.no_grad()
def test_rooms_leave_memory_to_others(monkeypatch):
    """Half of what is free: what is wanted may push others out, and what would not fit alone is not tried."""
    model, source = build(0), draw_batch([5] * 5)
    search = partial(resident_search, model, beam=2, alpha=0.6)
    one, more = (rooms.room_bytes(model, Room(sentences, 2, 16, 32)) for sentences in (1, 16))
    search(source[:1], [9])
    monkeypatch.setattr(rooms, "free_bytes", lambda _: 2 * (more - one))
    search(source, [9] * 5)
    assert [room.sentences for room in rooms_of(model).kept] == [16]
    monkeypatch.setattr(rooms, "free_bytes", lambda _: 0)
    kept = list(rooms_of(model).kept)
    assert_same(search(source, [1100] * 5), beam_search(model, source, [1100] * 5, beam=2, alpha=0.6))
    assert list(rooms_of(model).kept) == kept


@torch.no_grad()
def test_without_room_for_all_fewer_are_searched_at_a_time(monkeypatch):
    model, lengths, limits = build(0), [n % 7 + 1 for n in range(11)], [n % 5 + 9 for n in range(11)]
    source, searched = draw_batch(lengths), []
    monkeypatch.setattr(rooms, "MOST_BYTES", rooms.room_bytes(model, Room(4, 2, 16, 32)))
    plainly = rooms.beam_search
    monkeypatch.setattr(rooms, "beam_search", lambda *given, **how: searched.append(given) or plainly(*given, **how))
    found = resident_search(model, source, limits, beam=2, alpha=0.6)
    assert_same(found, beam_search(model, source, limits, beam=2, alpha=0.6))
    assert not searched
    assert list(rooms_of(model).kept) == [Room(4, 2, 16, 32)]  # 4 + 4 + 3
    assert applies(model, source.as_subclass(OnAGpu), limits, 2)


@torch.no_grad()
def test_what_memory_was_too_short_for_is_not_tried_again(monkeypatch):
    """Until weights move; and what fits is kept from one batch to the next."""
    model, source, limits = build(0), draw_batch([4] * 20), [9] * 20
    wanted = beam_search(model, source, limits, beam=2, alpha=0.6)
    plain, tries = model.step_beams, []

    def short(tokens, cache, steps):
        tries.append(len(tokens))
        if len(tokens) > 16:
            raise torch.OutOfMemoryError
        return plain(tokens, cache, steps)

    monkeypatch.setattr(model, "step_beams", short)
    for _ in range(2):
        assert_same(resident_search(model, source, limits, beam=2, alpha=0.6), wanted)
    assert tries.count(64) == 1
    assert [room.sentences for room in rooms_of(model).kept] == [16, 4]
    model.head.weight = torch.nn.Parameter(model.head.weight.clone())
    resident_search(model, source, limits, beam=2, alpha=0.6)
    assert tries.count(64) == 2
    assert [rooms.next_smaller(n) for n in (256, 128, 64, 16, 4, 1)] == [128, 64, 16, 4, 0, 0]


@torch.no_grad()
def test_threads_take_turns():
    model, sources = build(0), [draw_batch([n + 2, 9 - n]) for n in range(6)]
    search = partial(resident_search, model, limits=[20, 20], beam=3, alpha=0.6)
    wanted, found = [search(source) for source in sources], {}

    def work(n):
        for _ in range(3):
            found[n] = search(sources[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[n] for n in range(6)] == wanted


class AtOnce(Recorded):
    """Without a GPU there is no stream to run beside."""

    def run(self, work):
        work()


def test_what_cannot_be_recorded_runs_as_it_is_and_says_so_once():
    done = []

    def unrecordable(work):
        done.append("tried")
        raise RuntimeError("not permitted when stream is capturing\nand more")

    player = AtOnce(SimpleNamespace(record=unrecordable, tell=warn))
    player(partial(done.append, 0))
    with pytest.warns(RuntimeWarning, match="CUDA graph.*: RuntimeError: not permitted when stream is capturing$"):
        player(partial(done.append, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        player(partial(done.append, 2))
    assert done == [0, "tried", 1, 2]


def test_memory_that_is_full_while_it_is_recorded_is_no_reason_to_go_on():
    def full(work):
        raise torch.OutOfMemoryError("full")

    player = AtOnce(SimpleNamespace(record=full))
    player(int)
    with pytest.raises(torch.OutOfMemoryError):
        player(int)


@torch.no_grad()
def test_rooms_are_forgotten_when_asked_and_made_anew():
    model, source = build(0), draw_batch([5])
    wanted = resident_search(model, source, [9], beam=2, alpha=0.6)
    before = rooms_of(model)
    forget_recordings(model)
    forget_recordings(torch.nn.Linear(1, 1))  # who never had any
    assert rooms_of(model) is not before
    assert resident_search(model, source, [9], beam=2, alpha=0.6) == wanted


# ── who takes it ────────────────────────────────────────────────────────────────────────────────────────────────────


class OnAGpu(torch.Tensor):
    is_cuda = True


def test_it_is_for_plain_transformers_and_narrow_beams_on_a_gpu():
    model, source = build(0), draw_batch([5])
    there = source.as_subclass(OnAGpu)
    assert applies(model, there, [9], 5)
    assert not applies(model, source, [9], 5)
    assert not applies(model, there, [9], rooms.WIDEST + 1)
    assert not applies(model, there, [1 << 28], 5)
    assert not applies(type("Sharded", (Transformer,), {})(SMALL, WORDS), there, [9], 5)
    for register in (model.encoder.register_forward_hook, model.head.register_forward_pre_hook):
        hook = register(lambda *_: None)
        assert not applies(model, there, [9], 5)
        hook.remove()
    assert applies(model, there, [9], 5)
    both = together(model, build(1, "rotary, grouped heads"))
    assert applies(both, there, [9], 5)
    assert not applies(together(model, type("Sharded", (Transformer,), {})(SMALL, WORDS)), there, [9], 5)
    hook = both.members[1].decoder.register_forward_hook(lambda *_: None)
    assert not applies(both, there, [9], 5)
    hook.remove()
    both.reads_alike[1] = False  # text would be cut again, on the host
    assert not applies(both, there, [9], 5)


def test_a_translator_on_a_gpu_takes_more_lines_at_a_time_unless_it_is_told(monkeypatch):
    translator = build_translator()
    assert translator.search().batch == 64
    monkeypatch.setattr(Translator, "device", torch.device("cuda"))
    assert translator.search().batch == 256
    assert translator.search(batch=7).batch == 7


def test_a_translator_takes_it_where_it_applies(monkeypatch):
    """… and gives what it gave: searched, greedy, drawn, and with several outputs."""
    translator, lines = build_translator(), ["ab cab", "e", "é a", "fed a cab"]
    options = [{}, {"beam": 1}, {"beam": 3, "n_best": 3}, {"sample": True}, {"no_repeat": 1}]
    plain = [list(translator.translate(lines, translator.search(**one))) for one in options]
    monkeypatch.setattr("manyheads.decoding.searching.applies", lambda *_: True)
    there = [list(translator.translate(lines, translator.search(**one))) for one in options]
    for ours, theirs in zip(chain(*there), chain(*plain), strict=True):
        assert len(ours.n_best) == len(theirs.n_best)
        for a, b in zip(ours.n_best, theirs.n_best, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-5)
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-5)
        scores = tuple(replace(a, score=0.0, log_probability=0.0) for a in ours.n_best)
        wanted = tuple(replace(b, score=0.0, log_probability=0.0) for b in theirs.n_best)
        assert replace(ours, n_best=scores) == replace(theirs, n_best=wanted)
    assert len(rooms_of(translator.model).kept) == 3
    assert isinstance(rooms_of(translator.model), Rooms)


def test_a_validation_gives_its_rooms_back(monkeypatch):
    """… also one that fails: training goes on, and needs the memory."""
    translator, task = build_translator(), Task.__new__(Task)
    task.recipe, task.vocabulary, task.held_out = translator.recipe, translator.vocabulary, {"dev": [("ab cab", "e")]}
    monkeypatch.setattr("manyheads.decoding.searching.applies", lambda *_: True)
    translator("ab cab")
    before = rooms_of(translator.model)
    assert before.kept
    assert task.validate(translator.model).samples
    assert rooms_of(translator.model) is not before
    translator("ab cab")
    monkeypatch.setattr(Translator, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        task.validate(translator.model)
    assert not rooms_of(translator.model).kept
