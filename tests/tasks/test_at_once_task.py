"""Writing all tokens at once: what is learnt from, held against explicit sums; that it learns; and that a resumed run is the same run."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cli.command import status
from manyheads import OptionError, load_recipe, train
from manyheads.decoding.loading import load_translator
from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.models.config import ParallelConfig
from manyheads.models.parallel import SPREAD, ParallelTransformer
from manyheads.nn import Padded
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PackedPairs, pack_pairs
from manyheads.tasks.parallel import LENGTH_WEIGHT, GraphLoss, PlacesBatch, PlacesLoss, Task, shown
from manyheads.text.dropout import one_after_the_other
from manyheads.text.packs import Room
from manyheads.text.places import asked_for, filled_up, hide_places, read_there
from manyheads.text.tokenizer import END, PADDING
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

MASK = 20
"""Behind all words."""
SOURCES = [[5, 6, 7, 8], [9], [12, 13, 14]]
TARGETS = [[5, 4, 3], [6, 7], [8, 9, 10, 11, 12]]
TINY = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64, "model.dropout": 0.1, "data.vocabulary": 300, "train.tokens": 600, "train.warmup": 5, "train.validate_lines": 20}  # fmt: skip


def rows(texts):
    return one_after_the_other([np.array(text, np.int64) for text in texts])


def model_that(writes, **options):
    torch.manual_seed(0)
    config = ParallelConfig(
        width=32, layers=2, heads=4, feedforward=48, dropout=0.0, norm="pre", writes=writes, **options
    )
    return ParallelTransformer(config, MASK).double()


def padded(ids):
    return torch.from_numpy(rows(ids).padded())


# ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────

sentences = st.lists(st.lists(st.integers(3, 19), min_size=1, max_size=9), min_size=1, max_size=6)


@given(sentences, st.integers(0, 5), st.integers(0, 99))
def test_what_is_read_and_what_is_asked_for_are_the_target(targets, epoch, seed):
    keys = np.arange(len(targets)) + 7
    hidden = hide_places(rows(targets), keys, epoch, seed, MASK)
    for n, target in enumerate(targets):
        ids = hidden.ids[hidden.starts[n] :][: hidden.lengths[n]]
        read, asked = read_there(ids, MASK), asked_for(ids, MASK)
        assert 1 <= (read == MASK).sum() <= len(target)
        assert ((read == MASK) == (asked != PADDING)).all()
        assert np.where(read == MASK, asked, read).tolist() == target
        alone = hide_places(rows([target]), keys[n : n + 1], epoch, seed, MASK)
        assert alone.ids.tolist() == ids.tolist(), "whatever else is in the batch"


def test_every_number_of_places_is_as_likely_and_every_place():
    target, epochs = list(range(3, 8)), 4_000
    drawn = [hide_places(rows([target]), np.array([3]), epoch, 1, MASK).ids >= MASK for epoch in range(epochs)]
    counts, places = Counter(int(one.sum()) for one in drawn), np.sum(drawn, 0) / epochs
    for count in range(1, 6):
        assert counts[count] == pytest.approx(epochs / 5, abs=5 * (epochs * 0.2 * 0.8) ** 0.5)
    assert places == pytest.approx(np.full(5, 0.6), abs=5 * (0.24 / epochs) ** 0.5)


def test_ends_fill_the_places_behind_a_target():
    filled = filled_up(rows(TARGETS), np.array([4, 2, 7]))
    found = [filled.ids[start:][:length].tolist() for start, length in zip(filled.starts, filled.lengths, strict=True)]
    assert found == [[5, 4, 3, END], [6, 7], [8, 9, 10, 11, 12, END, END]]


# ── losses ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def batches():
    """The same pairs, padded and packed; places 1 of each hidden, and all of the second."""
    hidden = rows([[5, 4 + MASK, 3], [6 + MASK, 7 + MASK], [8, 9 + MASK, 10, 11, 12]])
    ids = hidden.padded()
    source = torch.from_numpy(rows(SOURCES).padded(after=END))
    yield PlacesBatch(
        source, *(torch.from_numpy(one) for one in (read_there(ids, MASK), asked_for(ids, MASK))), count=4
    )
    packed = pack_pairs(rows(SOURCES), hidden, Room(16, 16, 4), 6, framed=False)
    ids = packed.labels.numpy()
    tensors = (torch.from_numpy(one) for one in (read_there(ids, MASK), asked_for(ids, MASK)))
    yield PackedPairs(packed.source, *tensors, packed.source_offsets, packed.target_offsets, packed.longest)


READ = [[5, MASK, 3], [MASK, MASK], [8, MASK, 10, 11, 12]]
ASKED = [{1: 4}, {0: 6, 1: 7}, {1: 9}]


def expected_loss(model, writes):
    """Pair by pair, place by place."""
    total = torch.zeros((), dtype=torch.float64)
    for source, read, asked in zip(SOURCES, READ, ASKED, strict=True):
        ids, target = torch.tensor([[*source, END]]), torch.tensor([read])
        memory = model.encode(ids)
        log_p = model.decode(target, memory, Padded.like(target))[0].log_softmax(-1)
        total = total - sum(log_p[place, word] for place, word in asked.items())
        if writes == "mask":
            total = total - LENGTH_WEIGHT * model.length(memory)[0, len(read) - len(source) - 1 + SPREAD]
    return total


@pytest.mark.parametrize("writes", ["mask", "end"])
def test_the_loss_is_that_of_hidden_places_and_of_the_length_padded_packed_or_in_halves(writes):
    model = model_that(writes)
    loss = PlacesLoss(choose_loss(load_recipe("parallel/mask", {"train.rdrop": 0.0, "train.smoothing": 0.0}).train))
    expected = expected_loss(model, writes)
    for batch in batches():
        # Lengths are compared in float32 at least.
        assert float(loss(model, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
        assert float(loss.fused(model, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
        halves = sum(float(loss(model, half).detach()) for half in batch.halves())
        assert halves == pytest.approx(float(expected.detach()), rel=1e-6)
    known = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    for batch in batches():
        found = torch.autograd.grad(loss(model, batch), list(model.parameters()), allow_unused=True)
        for one, other in zip(found, known, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_with_two_passes_that_agree_the_loss_is_the_same():
    model = model_that("mask")
    plain, twice = (
        PlacesLoss(choose_loss(load_recipe("parallel/mask", {"train.rdrop": weight}).train)) for weight in (0.0, 2.0)
    )
    for batch in batches():
        assert float(plain(model, batch).detach()) == pytest.approx(float(twice(model, batch).detach()), rel=1e-6)


def test_places_that_are_no_pair_learn_nothing():
    model, loss = model_that("mask"), PlacesLoss(choose_loss(load_recipe("parallel/mask").train))
    batch = next(batches())
    some = float(loss(model, batch.split(3)[0]).detach()) + float(loss(model, batch.split(3)[1]).detach())
    batch.labels[2:] = PADDING
    assert float(loss(model, batch).detach()) == pytest.approx(some, rel=1e-6)


def graph_batch():
    vertices = [7, 5, 7]
    canvas = padded([[MASK] * count for count in vertices])
    return PlacesBatch(torch.from_numpy(rows(SOURCES).padded(after=END)), canvas, padded(TARGETS)), vertices


GRAPH = GraphLoss()


@pytest.mark.parametrize("loss", [GRAPH, GRAPH.fused], ids=["of logits", "of states"])
def test_the_loss_of_a_graph_is_that_of_all_paths(loss):
    model = model_that("graph")
    batch, vertices = graph_batch()
    total = 0.0
    with torch.no_grad():
        for source, target, count in zip(SOURCES, TARGETS, vertices, strict=True):
            masks = torch.full((1, count), MASK)
            logits, links = model(torch.tensor([[*source, END]]), masks)
            log_p, paths = logits[0].log_softmax(-1), []
            for path in combinations(range(1, count - 1), len(target)):
                whole = (0, *path, count - 1)
                steps = sum(links[0, a, b] for a, b in pairwise(whole))
                paths.append(steps + sum(log_p[v, word] for v, word in zip(path, target, strict=True)))
            total -= torch.stack(paths).logsumexp(0).item()
        assert float(loss(model, batch)) == pytest.approx(total, rel=1e-6)
        halves = sum(float(loss(model, half)) for half in batch.halves())
        assert halves == pytest.approx(total, rel=1e-6)


def gradients(loss, model, batch):
    return torch.autograd.grad(loss(model, batch), list(model.parameters()), allow_unused=True)


def test_by_states_a_graph_has_the_gradient_that_it_has_by_logits():
    model, (batch, _) = model_that("graph"), graph_batch()
    for mine, other in zip(gradients(GRAPH.fused, model, batch), gradients(GRAPH, model, batch), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", [GRAPH, GRAPH.fused], ids=["of logits", "of states"])
def test_rows_and_places_more_change_nothing(loss):
    model, (batch, _) = model_that("graph"), graph_batch()
    batch = replace(batch, labels=padded([*TARGETS[:2], []]))  # a row that nothing is learnt from is nothing new
    wider = batch.rounded()
    assert [tuple(t.shape) for t in wider.tensors()] == [(4, 8), (4, 8), (4, 8)]
    assert loss(model, wider).item() == pytest.approx(loss(model, batch).item(), rel=1e-6)
    for mine, other in zip(gradients(loss, model, wider), gradients(loss, model, batch), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def glanced(batch, share):
    return replace(batch, glance=torch.full((len(batch.source),), share))


def test_a_glance_shows_words_of_the_target_on_its_best_path():
    model, (batch, vertices) = model_that("graph"), graph_batch()
    looked = *model.read(*batch.inputs), model.output_words
    seen = shown(batch, torch.ones(3), *looked)
    for row, (target, count) in enumerate(zip(TARGETS, vertices, strict=True)):
        inner = [word for word in seen[row].tolist() if word not in (MASK, PADDING)]
        assert inner, "an untrained model gets something wrong"
        it = iter(target)
        assert all(word in it for word in inner), "in the order of the target"
        assert seen[row, 0] == seen[row, count - 1] == MASK
    assert torch.equal(shown(batch, torch.zeros(3), *looked), batch.target)


@pytest.mark.parametrize("loss", [GRAPH, GRAPH.fused], ids=["of logits", "of states"])
def test_what_was_shown_is_read_in_the_second_look(loss):
    model, (batch, _) = model_that("graph"), graph_batch()
    torch.manual_seed(3)
    found = loss(model, glanced(batch, 0.5))
    found.backward()
    torch.manual_seed(3)
    seen = shown(batch, torch.full((3,), 0.5), *model.read(*batch.inputs), model.output_words)
    assert not torch.equal(seen, batch.target)
    wanted = loss(model, replace(batch, target=seen))
    assert found.item() == pytest.approx(wanted.item())
    ours = [weight.grad for weight in model.parameters()]
    theirs = torch.autograd.grad(wanted, list(model.parameters()), allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.plain
@pytest.mark.parametrize("loss", [GRAPH, GRAPH.fused], ids=["of logits", "of states"])
def test_rounded_to_half_precision_all_learns_from_the_second_look(loss, device):
    """What autocast keeps of a first look, which nothing is learnt from, is not for the second."""
    model = model_that("graph").float().to(device)
    with torch.autocast(device.type, torch.bfloat16):
        value = loss(model, glanced(graph_batch()[0], 0.5).to(device))
    value.backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None]


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def copies(folder, count=60):
    """Pairs of a sentence and itself in capitals: something that can be learnt in no time."""
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(["ab", "cd", "ef", "gh", "ij"], draw.integers(1, 6))) for _ in range(count)]
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_it_learns_and_translates_at_once(tmp_path, writes):
    file = copies(tmp_path)
    changes = TINY | {"train.steps": 500, "train.rate": 5e-3, "model.dropout": 0.0, "train.ema": 0.9} | ({"train.rdrop": 0.0} if writes != "graph" else {})  # fmt: skip
    train(f"parallel/{writes}", train=[file], dev=[file], out=tmp_path / "run", changes=changes)
    translator = load_translator(tmp_path / "run", "cpu")
    sources, targets = zip(*(line.split("\t") for line in file.read_text().splitlines()), strict=True)
    assert translator(["", *sources]) == ["", *targets]
    with pytest.raises(OptionError, match="token by token"):
        translator("ab", beam=3)


def test_a_glance_falls_to_a_fifth_by_the_end(tmp_path, monkeypatch):
    file, loss, seen = copies(tmp_path), Task.loss, []
    monkeypatch.setattr(
        Task, "loss", lambda self, model, batch: seen.extend(batch.glance.unique()) or loss(self, model, batch)
    )
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    train("parallel/graph", train=[file], dev=[file], out=tmp_path / "run", changes=TINY | {"train.steps": 5})
    assert [float(share) for share in seen] == pytest.approx([0.5, 0.42, 0.34, 0.26, 0.18])


@pytest.mark.parametrize("writes", ["mask", "graph"])
def test_a_run_that_broke_off_and_goes_on_ends_with_the_same_bytes(tmp_path, monkeypatch, writes):
    file, seen = copies(tmp_path), []
    changes = TINY | {"train.steps": 8, "train.save_every": 3}

    def run(out, **more):
        train(f"parallel/{writes}", train=[file], dev=[file], out=tmp_path / out, changes=changes, device="cpu", **more)

    def breaking_off(task, whole=Task.fused_loss):
        def loss(model, batch):
            seen.append(batch)
            if len(seen) == 5:
                raise KeyboardInterrupt
            return whole(task)(model, batch)

        return loss

    run("whole")
    with monkeypatch.context() as patch:
        patch.setattr(Task, "fused_loss", breaking_off)
        with pytest.raises(KeyboardInterrupt):
            run("broken")
    run("broken", resume=True)
    whole, again = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "broken"))
    assert whole == again


@pytest.mark.parametrize(
    ("recipe", "changes", "rule"),
    [
        ("parallel/graph", {"train.rdrop": 1.0}, "place by place"),
        ("parallel/graph", {"refine.iterations": 4}, "read once"),
        ("parallel/mask", {"train.glance": 0.3}, "for graphs"),
        ("parallel/mask", {"train.rdrop": 0.0, "train.simcut": 1.0}, "simcut does nothing"),
        ("parallel/end", {"model.positions": "learned", "model.max_length": 300}, "last place"),
        ("small", {"train.glance": 0.3}, "glance does nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(recipe, changes, rule):
    with pytest.raises(OptionError, match=rule):
        load_recipe(recipe, changes)


def translator_that(writes, **more):
    recipe = load_recipe(f"parallel/{writes}", {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.feedforward": 32, "data.tokenizer": "characters", **more})  # fmt: skip
    vocabulary = Vocabulary(train_tokenizer("characters", ["abc def"], 300))
    torch.manual_seed(0)
    return ParallelTranslator(ParallelTransformer(recipe.parallel, vocabulary.sizes).eval(), vocabulary, recipe)


@pytest.mark.parametrize("writes", ["mask", "end", "graph"])
def test_a_pair_is_scored_alike_alone_and_among_others_also_if_nothing_is_written(writes):
    translator = translator_that(writes)
    pairs = [("abc", "fed cb"), ("a b", ""), ("fed", "a")]
    together = [one.log_probability for one in translator.score(pairs)]
    assert together == pytest.approx([translator.score([pair])[0].log_probability for pair in pairs], abs=1e-4)
    assert all(log_p < 0 for log_p in together)


@pytest.mark.parametrize("writes", ["end", "graph"])
def test_what_learned_positions_allow_is_scored_and_written(writes):
    longest = ParallelConfig(writes=writes, places=1.5).places_for(51, 50)
    with pytest.raises(OptionError, match="last place"):
        load_recipe(f"parallel/{writes}", {"model.positions": "learned", "model.places": 1.5, "data.max_length": 50, "model.max_length": longest - 1})  # fmt: skip
    translator = translator_that(writes, **{"model.positions": "learned", "model.places": 1.5, "data.max_length": 50, "model.max_length": longest})  # fmt: skip
    assert len(translator.score([("a" * 300, "b" * 300), ("a" * 50, "b"), ("a", "b" * 50)])) == 3
    assert len(translator(["a" * 50, "a" * 300])) == 2


def test_of_pairs_that_are_too_long_for_a_graph_the_beginning_is_scored():
    """Paths take the cube of the length."""
    translator = translator_that("graph")
    translator.recipe = replace(translator.recipe, data=replace(translator.recipe.data, max_length=12))
    short, long = translator.score([("abab", "abab"), ("ab" * 200, "ba" * 200)])
    assert (short.truncated, long.truncated) == (False, True)
    assert long.tokens == 13


@pytest.mark.parametrize(
    ("writes", "options", "why"),
    [
        ("mask", {"beam": 4}, "token by token"),
        ("mask", {"length_penalty": 2.0}, "only to graphs"),
        ("end", {"length": 4}, "up to an end"),
        ("graph", {"iterations": 1}, "read once"),
        ("graph", {"lengths": 2}, "a judge chooses among"),
        ("mask", {"iterations": "4"}, "iterations must be"),
        ("mask", {"length": 100_000}, "length must be between"),
        ("mask", {"bream": 4}, "not an option of a search"),
    ],
)
def test_options_that_mean_nothing_are_refused(writes, options, why):
    with pytest.raises(OptionError, match=why):
        translator_that(writes)("abc", **options)


def test_the_command_line(tmp_path):
    file, out = copies(tmp_path, 20), tmp_path / "run"
    sets = [word for key, value in (TINY | {"train.steps": 3}).items() for word in ("--set", f"{key}={value}")]
    assert status("train", "parallel/mask", "--train", str(file), "--dev", str(file), "--out", str(out), *sets) == 0
    assert status("translate", str(out), "--input", str(file), "--output", str(tmp_path / "o.txt"), "--iterations", "2", "--length", "4") == 0  # fmt: skip
    assert len((tmp_path / "o.txt").read_text().splitlines()) == 20
    assert status("evaluate", str(out), "--data", str(file), "--json") == 0
    ParallelTranslator.load(out, "cpu", "bf16").save(tmp_path / "copy")  # from the weights before they were rounded
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    assert json.loads((out / "summary.json").read_text())["step"] == 3
