"""Inspections of models that write all tokens at once: what is shown is what the decoding did, and where the heads of that pass looked."""

import json
from dataclasses import replace
from itertools import combinations
from math import exp

import numpy as np
import pytest
import torch
from parallels import TEXT, WAYS, make_ending, make_parallel

from manyheads import inspect
from manyheads.decoding import in_masks
from manyheads.decoding.at_once import write_at_once
from manyheads.decoding.mask_predict import Filled, masked_again
from manyheads.decoding.way import first_word
from manyheads.errors import InputError, OptionError
from manyheads.inspection.atonce import MASK, WrittenAtOnce, masked, read_places
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.importance import importance
from manyheads.inspection.plane import choose_plane
from manyheads.inspection.switches import Head, switched_off
from manyheads.inspection.trace import trace
from manyheads.inspection.vertices import LINKS
from manyheads.nn import Padded
from manyheads.text.tokenizer import BEGIN, END, PADDING

FILLING = ("mask", "end")


@pytest.fixture(scope="module")
def translators():
    return {writes: make_parallel(writes) for writes in WAYS}


@pytest.fixture(scope="module")
def found(translators):
    options = {"mask": {"iterations": 4, "lengths": 3}, "end": {"iterations": 5}, "graph": {"length": 5}}
    return {writes: inspect(translators[writes], TEXT, **options[writes]) for writes in WAYS}


def written_by(translator, **options):
    """What the decoding itself gives and shows."""
    seen, source = [], torch.tensor([translator.read([TEXT])[0][0]])
    hypotheses = write_at_once(translator.model, source, translator.search(**options), translator.longest, seen.append)
    return hypotheses[0], seen


def distributions(translator, source, read):
    """log P of every word in every place, by the fast path."""
    model, ids = translator.model, torch.tensor([read])
    with torch.no_grad():
        logits = model.decode(ids, model.encode(torch.tensor([source])), Padded.like(ids))[0].double()
    logits[:, : first_word(model)] = -torch.inf
    return logits.log_softmax(-1)


# ── iterations ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", FILLING)
def test_what_is_shown_is_what_the_decoding_did(translators, found, writes):
    options = {"iterations": 4, "lengths": 3} if writes == "mask" else {"iterations": 5}
    hypotheses, seen = written_by(translators[writes], **options)
    steps, inspection = [one for one in seen if isinstance(one, Filled)], found[writes]
    assert isinstance(inspection, WrittenAtOnce)
    assert len(inspection.tries) == len(hypotheses) == (3 if writes == "mask" else 1)
    assert sorted((one.score for one in inspection.tries), reverse=True) == [one.score for one in hypotheses]
    assert inspection.taken.score == hypotheses[0].score == max(one.score for one in inspection.tries)
    assert inspection.translation == translators[writes](TEXT, **options) == inspection.taken.text
    for row, attempt in enumerate(inspection.tries):
        for iteration, step in zip(attempt.iterations, steps, strict=False):
            count = attempt.length
            assert iteration.ids == step.words[row, :count].tolist()
            assert iteration.log_probability == step.log_probability[row, :count].tolist()
            assert iteration.written == step.written[row, :count].tolist()
        assert not any(step.written[row].any() for step in steps[len(attempt.iterations) :])
        assert attempt.log_probability == pytest.approx(sum(attempt.iterations[-1].log_probability), abs=1e-4)


@pytest.mark.parametrize("writes", FILLING)
def test_each_iteration_fills_the_masks_that_the_one_before_leaves(translators, found, writes):
    """By hand: the least sure places of what stood before are masked, and the likeliest word of each is written."""
    inspection, total = found[writes], 4 if writes == "mask" else 5
    source = inspection.ids("source")
    for attempt in inspection.tries:
        for n, iteration in enumerate(attempt.iterations):
            read = attempt.read(n)
            assert [i is None for i in read] == iteration.written
            if n:
                before = attempt.iterations[n - 1]
                lengths = torch.tensor([attempt.length])
                _, again = masked_again(torch.tensor([before.log_probability]), lengths, lengths * (total - n) // total)
                assert iteration.written == again[0].tolist()
                assert [i for i in read if i is not None] == [
                    i for i, written in zip(before.ids, iteration.written, strict=True) if not written
                ]
                assert iteration.changed == [a != b for a, b in zip(iteration.ids, before.ids, strict=True)]
            else:
                assert all(iteration.written)
                assert not any(iteration.changed)
            mask = inspection.model.mask
            log_p = distributions(translators[writes], source, [mask if i is None else i for i in read])
            for place, written in enumerate(iteration.written):
                if written:
                    assert iteration.ids[place] == int(log_p[place].argmax())
                    assert iteration.log_probability[place] == pytest.approx(log_p[place].max().item(), abs=1e-4)


def test_the_length_is_as_likely_as_the_model_held_it(translators, found):
    model, inspection = translators["mask"].model, found["mask"]
    with torch.no_grad():
        log_p = model.length(model.encode(torch.tensor([inspection.ids("source")])))[0]
    for attempt in inspection.tries:
        of_length = log_p[attempt.length - len(inspection.ids("source")) + 64]
        assert attempt.length_log_probability == pytest.approx(of_length.item(), abs=1e-5)
    wished = inspect(translators["mask"], TEXT, length=6)
    assert [one.length for one in wished.tries] == [6]
    assert wished.tries[0].length_log_probability is None
    shorter = inspect(translators["mask"], TEXT, stretch=0.5, lengths=1)
    assert shorter.taken.length == round(0.5 * inspect(translators["mask"], TEXT, lengths=1).taken.length)


def test_what_stands_behind_the_end_is_cut_and_said_to_be():
    tokenizer = make_parallel("end").vocabulary.target
    words = tokenizer.encode(["Der Hund schläft."])[0]
    side = read_places(tokenizer, [*words, END, words[0], END])
    assert side.text == "Der Hund schläft."
    assert len(side.pieces) == len(words) + 3
    assert [word.special for word in side.words[-3:]] == [True] * 3
    assert [piece.word for piece in side.pieces[-3:]] == [len(side.words) - n for n in (3, 2, 1)]
    shown = masked(side, [99_999, *words[1:], END, words[0], END], 99_999, 1)
    assert shown.pieces[0].text == f"{MASK}1"
    assert shown.pieces[1:] == side.pieces[1:]


def test_a_model_of_ends_says_where_it_was_cut():
    translator = make_ending()
    inspection = inspect(translator, TEXT, iterations=3)
    ids = inspection.taken.iterations[-1].ids
    assert inspection.taken.cut == (ids.index(END) if END in ids else None)
    assert END in ids
    assert len(inspection.target.text) < len(translator.vocabulary.target.decode([i for i in ids if i != END]))
    assert inspection.translation == translator.vocabulary.target.decode(ids[: ids.index(END)])
    assert len(inspection.target.pieces) == inspection.taken.length
    for one in inspection.taken.iterations:
        assert one.cut == (one.ids.index(END) if END in one.ids else None)
    assert any(one.cut is None for one in inspect(make_parallel("end"), TEXT).taken.iterations)


# ── a graph ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def explicit_graph(translator, inspection):
    """(log P of the words of the vertices, links between them), by the fast path."""
    model, count = translator.model, len(inspection.graph.vertices)
    read = torch.full((1, count), model.mask)
    with torch.no_grad():
        states = model.states(read, model.encode(torch.tensor([inspection.ids("source")])), Padded.like(read))
        logits = model.logits(states)[0].double()
        links = model.link(states, torch.tensor([count - 1]))[0].double()
    logits[:, [PADDING, BEGIN, END]] = -torch.inf
    return logits.log_softmax(-1), links


@pytest.mark.parametrize("seed", range(3))
def test_the_path_is_the_best_of_all(seed):
    translator = make_parallel("graph", seed, **{"model.places": 1.0})
    for options in ({}, {"length": 2}, {"length": 3, "length_penalty": 0.5}):
        inspection = inspect(translator, TEXT, **options)
        words, links = explicit_graph(translator, inspection)
        says, last = words.max(-1).values, len(links) - 1
        by_length = {}
        for count in range(1, last):
            paths = []
            for path in combinations(range(1, last), count):
                steps = zip((0, *path), (*path, last), strict=True)
                paths.append((sum(links[a, b].item() for a, b in steps) + sum(says[n].item() for n in path), path))
            by_length[count] = max(paths)
        graph = inspection.graph
        assert graph.path == list(by_length[len(graph.path)][1])
        assert len(graph.path) == options.get("length", len(graph.path))
        for one in graph.lengths:
            assert one.log_probability == pytest.approx(by_length[one.length][0], abs=1e-4)
            penalty = ((5 + one.length) / 6) ** options.get("length_penalty", 1.2)
            assert one.score == pytest.approx(one.log_probability / penalty)
        assert len(graph.lengths) == last - 1
        if not options:
            assert max(graph.lengths, key=lambda one: one.score).length == len(graph.path)
        assert inspection.translation == translator(TEXT, **options)
        assert inspection.log_probability == pytest.approx(by_length[len(graph.path)][0], abs=1e-4)


def test_vertices_and_links_are_the_models(translators, found):
    inspection = found["graph"]
    words, links = explicit_graph(translators["graph"], inspection)
    graph, last = inspection.graph, len(inspection.graph.vertices) - 1
    assert [(one, other) for one, other in graph.steps][-1] == (graph.path[-1], last)
    for n, vertex in enumerate(graph.vertices):
        kept = {link.to: link.log_probability for link in vertex.links}
        for to, log_p in kept.items():
            assert log_p == pytest.approx(links[n, to].item(), abs=1e-5)
        there = links[n, n + 1 :].exp()
        assert vertex.covered == pytest.approx(sum(map(exp, kept.values())))
        assert vertex.covered >= there.topk(min(LINKS, len(there))).values.sum().item() - 1e-6
        assert LINKS <= len(kept) <= LINKS + 1 or len(kept) == last - n
        if 0 < n < last:
            assert vertex.id == int(words[n].argmax())
            assert vertex.log_probability == pytest.approx(words[n].max().item(), abs=1e-5)
        else:
            assert vertex.id is None
            assert vertex.log_probability is None
    for one, other in graph.steps:
        assert other in [link.to for link in graph.vertices[one].links]
    ids = [graph.vertices[n].id for n in graph.path]
    assert inspection.translation == inspection.tokenizers["target"].decode(ids)


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", WAYS)
def test_weights_are_those_of_the_pass_and_every_row_sums_to_one(writes):
    translator = make_parallel(writes, scale=1.0)
    inspection = inspect(translator, TEXT)
    source, read = inspection.read_ids()
    log_p = distributions(translator, source, read)
    explicit = inspection.allowed(inspection.trace.logits).double().log_softmax(-1)
    there = log_p.isfinite()
    assert (explicit - log_p)[there].abs().max() <= 1e-5
    for kind, layers in inspection.attention.items():
        queries, keys = inspection.looking(kind)[1], inspection.looked_at(kind)[1]
        for weights in layers:
            assert weights.shape == (4, len(queries), len(keys))
            assert (weights.sum(-1) - 1).abs().max() <= 1e-5
            assert (weights > 0).all(), "every place sees every other"


@pytest.mark.parametrize("writes", FILLING)
def test_another_iteration_is_another_pass(translators, writes):
    last = inspect(translators[writes], TEXT, iterations=3)
    first = inspect(translators[writes], TEXT, iterations=3, iteration=1)
    assert [one.iterations for one in first.tries] == [one.iterations for one in last.tries]
    assert set(first.read_ids()[1]) == {first.model.mask}
    assert all(piece.text.startswith(MASK) for piece in first.read.pieces)
    assert [piece.text for piece in first.target.pieces] == first.taken.iterations[0].pieces
    middle = inspect(translators[writes], TEXT, iterations=3, iteration=2)
    expected = [middle.model.mask if i is None else i for i in middle.taken.read(1)]
    direct = trace(middle.model, middle.ids("source"), expected)
    for one, other in zip(direct.decoder, middle.trace.decoder, strict=True):
        torch.testing.assert_close(one.weights, other.weights)


def test_a_plane_has_what_is_written_at_its_rows_and_what_is_read_at_its_columns(found):
    inspection = found["mask"]
    plane = choose_plane(inspection, "decoder", 0, 1, pieces=True)
    assert len(plane.rows) == len(plane.columns) == inspection.taken.length
    for n, written in enumerate(inspection.taken.iterations[-1].written):
        assert plane.columns[n] == (f"{MASK}{n + 1}" if written else plane.rows[n])
    words = choose_plane(inspection, "decoder", 0, 1)
    np.testing.assert_allclose(words.weights.sum(1), 1, atol=1e-5)
    assert words.weights.shape[0] == words.weights.shape[1] == len(inspection.target.words)


# ── heads, attributions ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", WAYS)
def test_heads_are_worth_what_is_less_likely_without_them(translators, found, writes):
    inspection, head = found[writes], Head("cross", 1, 2)
    changes = importance(inspection)
    with switched_off(inspection.model, [head]):
        source, read = inspection.read_ids()
        log_p, links = (
            explicit_graph(translators[writes], inspection)
            if inspection.graph
            else (distributions(translators[writes], source, read), None)
        )
    without = sum(log_p[n, inspection.words[n]].item() for n in inspection.asked)
    if links is not None:
        without += sum(links[one, other].item() for one, other in inspection.graph.steps)
    whole = inspection.log_probabilities(1)[0]
    assert changes[head] == pytest.approx(without - whole, abs=1e-4)
    if inspection.graph:
        assert whole == pytest.approx(inspection.log_probability, abs=1e-4)


@pytest.mark.parametrize("writes", WAYS)
def test_without_heads_it_writes_what_the_model_writes_without_them(translators, writes):
    off, translator = [Head("cross", 0, n) for n in range(4)], translators[writes]
    options = {"length": 5} if writes == "graph" else {"iterations": 3}
    inspection = inspect(translator, TEXT, off=off, **options)
    with switched_off(translator.model, off):
        expected = written_by(translator, **options)[0][0]
    assert inspection.hypothesis == expected != written_by(translator, **options)[0][0]
    by_mean = inspect(translator, TEXT, off=off, instead="mean", **options)
    assert by_mean.log_probability != inspection.log_probability
    assert by_mean.off_means() is not None


def test_gradients_are_owed_to_all_places_also_to_those_behind(found):
    for writes in WAYS:
        owed = found[writes].attribute("gradient-x-input")
        assert (np.abs(np.triu(owed.target, 1)) > 0).any()
        assert owed.target.shape == (len(found[writes].words),) * 2
    shares = found["mask"].attribute("value-zeroing")
    np.testing.assert_allclose(shares.target.sum(1), 1, atol=1e-4)
    assert (np.triu(shares.target, 1) > 0).any()


def test_leaving_out_a_place_is_a_pass_with_a_vector_of_zeros(translators, found):
    inspection = found["mask"]
    model, (source, read) = inspection.model, inspection.read_ids()
    place, place_of = 1, len(read) - 1
    whole = inspection.allowed(inspection.trace.logits).double().log_softmax(-1)

    def zero(_, args, output):
        if args[0].shape[1] != len(read):
            return output
        changed = output.clone()
        changed[:, place_of] = 0
        return changed

    hook = model.words.register_forward_hook(zero)
    without = distributions(translators["mask"], source, read)
    hook.remove()
    expected = whole[place, inspection.words[place]] - without[place, inspection.words[place]]
    owed = inspection.attribute("leave-one-out")
    assert owed.target[place, place_of] == pytest.approx(expected.item(), abs=1e-4)


# ── as data ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writes", WAYS)
def test_json_has_all_of_it(found, writes, tmp_path):
    inspection = found[writes]
    told = json.loads(inspection.save(tmp_path / "look.json").read_text())
    names = "schema source target translation score log_probability forced steps writes part parts read iteration"
    assert list(told) == [*names.split(), "graph" if writes == "graph" else "tries", "attention"]
    assert told["translation"] == inspection.translation
    assert set(told["attention"]) == {"encoder", "decoder", "cross"}
    assert len(told["steps"]) == len(told["target"]["pieces"]) == len(told["read"]["pieces"])
    for step in told["steps"]:
        assert [one["adds"] for one in step["candidates"]] == [None] * 10
        assert not {one["id"] for one in step["candidates"]} & {PADDING, BEGIN}
    if writes != "graph":
        assert [one["taken"] for one in told["tries"]].count(True) == 1
        first = told["tries"][0]["iterations"][0]
        assert set(first) == {"pieces", "ids", "log_probability", "written", "changed", "cut"}


@pytest.mark.parametrize("writes", WAYS)
def test_the_last_row_of_the_lens_is_what_the_pass_says(found, writes):
    inspection = found[writes]
    header = make_bundle(inspection).header
    for row, choice in zip(header["lens"]["layers"][-1], inspection.choices, strict=True):
        assert row["log_probability"] == pytest.approx(choice.log_probability, abs=1e-4)
        assert row["rank"] == choice.rank
    for n in inspection.asked:
        assert inspection.choices[n].rank == 0
    logits = inspection.trace.logits.double()
    for n, total in enumerate(header["flow"]["log_sums"]):
        best = inspection.choices[n].candidates[0]
        assert best.log_probability + total == pytest.approx(logits[n, best.id].item(), abs=1e-4)


def test_what_makes_no_sense_is_refused(translators):
    mask, end, graph = (translators[writes] for writes in WAYS)
    cases = [
        (mask, {"target": "A dog."}, "takes no target"),
        (mask, {"prefix": "A"}, "takes no prefix"),
        (mask, {"replay": True}, "takes no replay"),
        (mask, {"beam": 3}, "beam is for models that write token by token"),
        (mask, {"tokens": 3}, "'tokens' is not an option"),
        (mask, {"length_penalty": 2.0}, "applies only to graphs"),
        (end, {"length": 3}, "cannot be set for"),
        (graph, {"iterations": 3}, "read once"),
        (graph, {"iteration": 2}, "iteration must be from 1 to 1 for this text, got 2"),
        (mask, {"iterations": 3, "iteration": 4}, "iteration must be from 1 to 3 for this text, got 4"),
        (mask, {"iteration": 0}, "got 0"),
        (mask, {"part": 2}, "part must be from 1 to 1 for this text"),
        (mask, {"off": [Head("cross", 9, 0)]}, "must exist in the model"),
    ]
    for translator, options, rule in cases:
        with pytest.raises(OptionError, match=rule):
            inspect(translator, TEXT, **options)
    with pytest.raises(OptionError, match="no iterations"):
        _ = inspect(graph, TEXT).taken


def test_what_is_too_long_to_be_looked_at_is_not_written_first(translators, monkeypatch):
    written = []
    monkeypatch.setattr(in_masks, "fill_in", lambda *given: written.append(given))
    with pytest.raises(OptionError, match="length must be at most 512 in an inspection, got 513"):
        inspect(translators["mask"], TEXT, length=513)
    with pytest.raises(InputError, match="texts of up to 512 pieces, got one of"):
        inspect(translators["mask"], TEXT, stretch=100.0)
    assert written == []
    assert len(inspect(translators["graph"], TEXT, length=4096).graph.path) > 5  # as long as it can be


def test_an_inspection_is_not_said_to_be_of_what_it_is_not(found):
    changed = replace(found["mask"], iteration=1)
    assert len(changed.asked) == changed.taken.length
    assert changed.asked != found["mask"].asked
