"""Similarity: the loss within a batch against its formula, pair by pair; ranks against sorting; and that it is learnt."""

import math
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from manyheads import Embedder, EncoderConfig, OptionError, TextEncoder, load_recipe, train
from manyheads.embedding.evaluate import evaluate_pairs
from manyheads.embedding.retrieval import partner_ranks, retrieval_metrics
from manyheads.modelfolder import load_encoder
from manyheads.nn.pooling import mean_token
from manyheads.tasks.embed import Task, nearest_partners
from manyheads.tasks.similarity import in_batch_loss, pair_up, same_texts
from manyheads.team import Team
from manyheads.text.corpus import ReadOptions
from manyheads.text.listed import Characters

TINY = {
    "model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64, "model.dropout": 0.0,
    "data.tokenizer": "characters", "data.vocabulary": 300, "train.tokens": 400, "train.warmup": 5, "train.ema": 0.0,
}  # fmt: skip
names = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6)


@given(names)
def test_the_loss_is_that_of_the_formula_and_equal_texts_are_no_wrong_answers(pairs):
    texts, partners = zip(*pairs, strict=True)
    torch.manual_seed(len(pairs))
    table = torch.randn(5, 7, dtype=torch.float64)
    a, b = table[list(texts)], torch.randn(5, 7, dtype=torch.float64)[list(partners)]
    expected = 0.0
    for n in range(len(pairs)):
        own = math.exp(20 * float(F.cosine_similarity(a[n], b[n], dim=0)))
        right, left = own, own
        for m in range(len(pairs)):
            if m == n or texts[m] == texts[n] or partners[m] == partners[n]:
                continue
            if partners[m] != texts[n]:
                right += math.exp(20 * float(F.cosine_similarity(a[n], b[m], dim=0)))
            if texts[m] != partners[n]:
                left += math.exp(20 * float(F.cosine_similarity(a[m], b[n], dim=0)))
        expected -= (math.log(own / right) + math.log(own / left)) / 2
    found = in_batch_loss(a, b, same_texts(texts, partners))
    assert float(found) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_parts_of_a_batch_are_put_back_in_their_order():
    """The loss and its gradient are those of texts that are computed one by one."""
    torch.manual_seed(0)
    model = TextEncoder(EncoderConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, positions="rotary"), 20)
    draw = random.Random(1)
    texts, partners = ([[1, *draw.choices(range(3, 20), k=draw.randint(1, 9)), 2] for _ in range(12)] for _ in range(2))
    batch = pair_up(texts, partners, tokens=30)
    assert len(batch.parts) > 5
    assert (batch.count, batch.tokens) == (12, sum(map(len, texts + partners)))
    assert batch.split(3) == batch.halves() == [batch]
    task = Task.__new__(Task)
    task.pool = mean_token
    alone = [torch.stack([model(torch.tensor([row]))[0].mean(0) for row in side]) for side in (texts, partners)]
    losses = task.loss(model, batch), in_batch_loss(*alone, same_texts(list(map(tuple, texts)), list(map(tuple, partners))))  # fmt: skip
    assert float(losses[0].detach()) == pytest.approx(float(losses[1].detach()), rel=1e-5)
    for one, other in zip(*(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) for loss in losses), strict=True):  # fmt: skip
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


words = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdefgh")), min_size=1, max_size=9)


@given(words, st.integers(0, 9))
def test_ranks_are_those_of_a_list_that_is_sorted(pairs, seed):
    vectors = {letter: np.random.default_rng([seed, n]).normal(size=4) for n, letter in enumerate("abcdefgh")}
    found = partner_ranks(pairs, lambda texts: np.stack([vectors[text] for text in texts]).astype(np.float32))
    cosine = lambda x, y: vectors[x] @ vectors[y] / np.linalg.norm(vectors[x]) / np.linalg.norm(vectors[y])  # noqa: E731
    for (text, partner), rank in zip(pairs, found, strict=True):
        mine = {other for one, other in pairs if one == text} | {text}
        others = {other for _, other in pairs} - mine
        order = sorted([*others, partner], key=lambda other: -cosine(text, other))
        assert rank == order.index(partner) + 1
    metrics = retrieval_metrics(found)
    assert metrics["mrr"] == pytest.approx(100 * np.mean([1 / rank for rank in found]))
    assert metrics["accuracy_at_1"] == pytest.approx(100 * np.mean([rank == 1 for rank in found]))


@pytest.mark.parametrize("value", [1.0, float("nan"), 0.0])
def test_vectors_that_are_all_the_same_find_nothing(value):
    pairs = [(f"a{n}", f"b{n}") for n in range(5)]
    assert partner_ranks(pairs, lambda texts: np.full((len(texts), 3), value, np.float32)) == [5] * 5


def write_pairs(path, count, seed=0):
    """A word, and the same letters as capitals, in another order: nothing of it is known before it is learnt."""
    draw = random.Random(seed)
    lines = [draw.choices("abcdefghijklmnop", k=draw.randint(3, 8)) for _ in range(count)]
    path.write_text("".join(f"{''.join(line)}\t{''.join(draw.sample(line, len(line))).upper()}\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similar")
    files = {"train": write_pairs(folder / "train.tsv", 400), "dev": write_pairs(folder / "dev.tsv", 80, 1)}
    return {**files, "device": "cpu", "quiet": True}


def test_it_learns_what_belongs_together(data, tmp_path):
    changes = {**TINY, "train.validate_every": 20, "train.rate": 0.005}
    before = train("embed/small", **data, out=tmp_path / "begun", changes={**changes, "train.steps": 1})
    found = train("embed/small", **data, out=tmp_path / "run", changes={**changes, "train.steps": 80})
    assert before.metrics["accuracy_at_1"] < 20
    assert found.metrics["accuracy_at_1"] > 60
    assert found.metrics["loss"] < before.metrics["loss"] / 2
    embedder = Embedder.load(tmp_path / "run", "cpu")
    vectors = embedder(["abcd", "DCBA", "MNOP"])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    tokenizer = embedder.tokenizer
    few = {"train.steps": 1, "train.tokens": 256}
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("x\tabc\ny\tdef\n")
    more = {"train": labelled, "dev": labelled, "device": "cpu", "quiet": True, "changes": few}
    train("classify/finetune", base=tmp_path / "run", **more, out=tmp_path / "labels")
    train("embed/finetune", base=tmp_path / "labels", **data, out=tmp_path / "back", changes=few)
    assert load_encoder(tmp_path / "back")[1].source.as_json() == tokenizer.as_json()
    assert load_encoder(tmp_path / "back")[1].joint


def test_a_batch_is_a_fair_sample_of_lengths(data, tmp_path):
    recipe = load_recipe("embed/small", TINY)
    task = Task.prepare(recipe, tmp_path / "data", {"train": data["train"], "dev": data["dev"]}, {}, lambda text: None)
    batch = task.batch(0)
    lengths = task.sources.lengths[batch.pairs]
    assert len(set(lengths.tolist())) > 3
    assert batch.count == len(lengths) > 30
    seen = np.concatenate([task.batch(step).pairs for step in range(task.batches_per_epoch)])
    assert sorted(seen.tolist()) == list(range(400))


def test_a_run_that_was_stopped_goes_on_bit_for_bit(data, tmp_path):
    changes = {**TINY, "model.dropout": 0.1, "train.validate_every": 4, "train.schedule": "inverse-sqrt", "train.warmup": 0}  # fmt: skip
    for out, ends in (("whole", (10,)), ("twice", (4, 10))):
        for steps in ends:
            train("embed/small", **data, out=tmp_path / out, changes={**changes, "train.steps": steps}, resume=True)
    whole, twice = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "twice"))
    assert whole == twice


def test_what_would_split_a_batch_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"compared with all others, .*got train.accumulate = 2"):
        load_recipe("embed/small", {"train.accumulate": 2})
    several = Team()
    several.size = 2
    monkeypatch.setattr("manyheads.training.api.gathered", lambda: nullcontext(several))
    with pytest.raises(OptionError, match=r"which needs one process, got 2"):
        train("embed/small", train="not there.tsv", out=tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_nearest_partner_is_the_one_with_the_largest_cosine():
    vectors = {"a": [1.0, 0.0], "A": [1.0, 0.01], "b": [0.0, 1.0], "B": [9.0, 9.0]}
    found = nearest_partners([("a", "A"), ("b", "B")], lambda texts: np.array([vectors[text] for text in texts]))
    assert [one.output for one in found] == ["A", "B"]


def test_every_text_of_the_development_set_is_embedded_once(data, tmp_path, monkeypatch):
    recipe = load_recipe("embed/small", TINY)
    task = Task.prepare(recipe, tmp_path / "data", {"train": data["train"], "dev": data["dev"]}, {}, lambda text: None)
    seen, embed_block = [], Embedder.embed_block
    monkeypatch.setattr(Embedder, "embed_block", lambda self, texts: (seen.extend(texts), embed_block(self, texts))[1])
    model = task.build()
    validation = task.validate(model)
    pairs = task.held_out["dev"]
    assert sorted(seen) == sorted({text for pair in pairs for text in pair})
    embedder = Embedder(model, task.vocabulary.source, recipe.embed)
    texts, partners = (embedder([pair[side] for pair in pairs]) for side in (0, 1))
    expected = in_batch_loss(torch.from_numpy(texts), torch.from_numpy(partners), same_texts(*zip(*pairs, strict=True)))
    assert validation.metrics["loss"] == pytest.approx(float(expected) / len(pairs), rel=1e-4)
    assert validation.metrics["mrr"] == pytest.approx(retrieval_metrics(partner_ranks(pairs, embedder))["mrr"])


def test_evaluating_counts_what_is_cut_and_what_has_no_numbers(tmp_path):
    tokenizer = Characters.train(["abcdefgh"], 300)
    recipe = load_recipe("embed/small", {"model.width": 32, "model.heads": 2, "embed.max_length": 8})
    embedder = Embedder(TextEncoder(recipe.encoder, tokenizer.size), tokenizer, recipe.embed)
    with torch.no_grad():
        embedder.model.words.weight[tokenizer.encode(["h"])[0]] = torch.nan
    lines = ["abc\tcba", "abcabcabc\tcbacbacba", "ab\tcbacbacba", "ah\tb", "b\tc"]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    found = evaluate_pairs(embedder, tmp_path / "pairs.tsv", ReadOptions())
    assert (found["lines"], found["truncated"], found["not_finite"]) == (5, 2, 1)
