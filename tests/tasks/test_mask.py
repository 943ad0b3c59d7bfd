"""Pre-training on masked words: what is learnt from, held against explicit sums; that it learns; and that a resumed run is the same run."""

import gzip
import json
import math
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from cli.command import status
from interop.bert import make_bert
from manyheads import Embedder, EncoderConfig, MaskedModel, OptionError, TextEncoder, import_model, load_recipe, train
from manyheads.evaluation.masked import Prober, evaluate_masked
from manyheads.modelfolder import bundled, load_encoder, load_masked_model
from manyheads.nn import Padded
from manyheads.tasks import consistency
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.mask import Task
from manyheads.tasks.masked import pack_masked, pad_masked
from manyheads.team import Team
from manyheads.text.dropout import one_after_the_other
from manyheads.text.packs import PackPlan, Room
from manyheads.text.tokenizer import PADDING

with gzip.open(bundled("tatoeba/dev.tsv.gz"), "rt", encoding="utf-8") as file:
    LINES = [line.rstrip("\n").split("\t")[1] for line in file][:400]

OPTIONS = {"width": 32, "layers": 2, "heads": 4, "feedforward": 48, "dropout": 0.0, "max_length": 32, "norm_eps": 1e-5}
MODERN = {"activation": "swiglu", "normaliser": "rms", "positions": "rotary", "norm": "pre", "segments": 0, "embed_norm": False}  # fmt: skip
TINY = {"model.width": 32, "model.layers": 1, "model.feedforward": 64, "data.vocabulary": 400, "train.tokens": 512, "train.warmup": 5, "train.validate_every": 10}  # fmt: skip
WORDS = 21
"""20 of them, and the mask."""


def rows(texts):
    return one_after_the_other([np.array(text, np.int64) for text in texts])


def model_of(more=(), **options):
    torch.manual_seed(0)
    model = MaskedModel(EncoderConfig(**{**OPTIONS, **dict(more), **options}), WORDS)
    torch.nn.init.normal_(model.output_bias)  # 0 at first: it would not be missed
    return model


READ = [[1, 3, 20, 5, 2], [1, 20, 2], [1, 7, 8, 20, 6, 20, 9, 2]]
ASKED = [[0, 0, 4, 0, 0], [0, 6, 0], [0, 0, 8, 9, 0, 3, 0, 0]]
TRAIN = load_recipe("bert/tiny").train


def batches():
    room = Room(24, 1, 4)
    return pad_masked(rows(READ), rows(ASKED)), pack_masked(rows(READ), rows(ASKED), room, 8, 9)


@pytest.mark.parametrize("more", [{}, MODERN], ids=["BERT", "modern"])
def test_the_loss_is_the_sum_over_what_is_asked_for_padded_packed_or_in_halves(more):
    model = model_of(more).double()
    expected = torch.zeros((), dtype=torch.float64)
    for read, asked in zip(READ, ASKED, strict=True):
        logits, labels = model(torch.tensor([read]))[0], torch.tensor(asked)
        expected -= logits.log_softmax(-1)[labels > 0, labels[labels > 0]].sum()
    loss, known = choose_loss(TRAIN), float(expected.detach())
    for batch in batches():
        assert float(loss(model, batch).detach()) == pytest.approx(known, rel=1e-9)
        for some in (batch.halves(), [half for part in batch.halves() for half in part.halves()]):
            assert sum(float(loss(model, part).detach()) for part in some) == pytest.approx(known, rel=1e-9)
    gradients = [torch.autograd.grad(loss(model, batch), list(model.parameters()), allow_unused=True) for batch in batches()]  # fmt: skip
    explicit = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    for wanted, *found in zip(explicit, *gradients, strict=True):
        for one in found:
            torch.testing.assert_close(one, wanted)


def test_the_gradient_of_logits_is_exactly_0_where_nothing_is_asked():
    model = model_of()
    for batch in batches():
        ids, layout, places = batch.inputs
        logits = model(ids, layout)  # of every token
        logits.retain_grad()
        chosen = logits.flatten(0, -2)[places]
        torch.testing.assert_close(chosen, model(*batch.inputs))
        choose_loss(TRAIN).judged(chosen, batch).backward()
        learnt = logits.grad.flatten(0, -2).abs().sum(-1) > 0
        assert learnt.nonzero()[:, 0].tolist() == places[batch.labels != PADDING].tolist()
        assert int(learnt.sum()) == sum(label > 0 for asked in ASKED for label in asked)


@pytest.mark.plain
@pytest.mark.parametrize("rdrop", [0.0, 2.0])
def test_the_fused_loss_is_the_same_and_has_the_gradient_of_the_bias(task, monkeypatch, rdrop):
    """Its kernel is interpreted where there is no GPU."""
    pytest.importorskip("triton")
    monkeypatch.setattr(consistency, "vocabulary_loss_applies", lambda states: True)
    monkeypatch.setattr(task, "summed_loss", choose_loss(replace(TRAIN, rdrop=rdrop)))
    model = model_of()
    for batch in batches():
        plain, fused = (loss(model, batch) for loss in (task.loss, task.fused_loss()))
        torch.testing.assert_close(fused, plain)
        for one, other in zip(*(torch.autograd.grad(loss, list(model.parameters())) for loss in (fused, plain)), strict=True):  # fmt: skip
            torch.testing.assert_close(one, other)


def test_twice_is_the_batch_and_the_batch_again():
    """What R-Drop compares; without dropout both are the same."""
    model, recipe = model_of().double(), replace(TRAIN, rdrop=2.0)
    for batch in batches():
        once = model(*batch.inputs)
        torch.testing.assert_close(model(*batch.twice().inputs), torch.cat([once, once]))
        assert float(choose_loss(recipe)(model, batch).detach()) == pytest.approx(
            float(choose_loss(TRAIN)(model, batch).detach())
        )


texts = st.lists(st.lists(st.tuples(st.integers(3, 20), st.booleans()), min_size=1, max_size=9), min_size=1, max_size=5)


@given(texts)
def test_padded_and_packed_ask_for_the_same(some):
    read = rows([[i for i, _ in text] for text in some])
    asked = rows([[i if wanted else PADDING for i, wanted in text] for text in some])
    padded, packed = pad_masked(read, asked), pack_masked(read, asked, Room(64, 1, 6), 10, 50)
    expected = [i for text in some for i, wanted in text if wanted]
    assert padded.labels.tolist() == packed.labels[packed.labels > 0].tolist() == expected
    assert padded.ids.flatten()[padded.places].tolist() == expected
    assert packed.ids[packed.places][: len(expected)].tolist() == expected
    assert packed.places.shape == (50,)
    assert len(set(packed.places.tolist())) == 50
    assert padded.count == len(expected)
    lengths = [len(text) for text in some]
    assert (padded.keep is None) == (min(lengths) == max(lengths))
    assert int(packed.offsets[-1]) == 64
    parts = padded.split(3)
    assert [i for part in parts for i in part.ids.flatten()[part.places].tolist()] == expected


def test_a_process_without_a_line_of_its_own_learns_nothing_from_the_one_it_is_given(task):
    batch, _ = batches()
    task.silence(batch, 1)
    assert batch.labels[batch.labels > 0].tolist() == [4]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "texts.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    recipe = load_recipe("bert/tiny", {"data.vocabulary": 400, "train.tokens": 512, "data.bpe_dropout": 0.1})
    data = {"train": str(folder / "texts.txt"), "dev": str(folder / "texts.txt")}
    return Task.prepare(recipe, folder / "data", data, {}, lambda text: None)


@pytest.mark.parametrize("packs", [0, 2])
def test_batches_follow_from_the_step_and_every_epoch_asks_for_others(task, packs):
    task.arrange(packs)
    make = task.packs if packs else task.batch
    steps = task.batches_per_epoch

    def seen(step):
        parts = make(step).split(1)
        return [tensor.tolist() for part in parts for tensor in part.tensors()]

    assert all(seen(step) == seen(step) for step in (0, steps - 1, steps + 1))
    asked = [{}, {}]
    for epoch, found in enumerate(asked):
        for step in range(epoch * steps, (epoch + 1) * steps):
            for row, (read, wanted) in zip(rows_of(task, step), each(task, step), strict=True):
                found[int(row)] = (read, wanted)
    assert asked[0].keys() == asked[1].keys() == set(range(len(LINES)))
    assert sum(asked[0][row] == asked[1][row] for row in asked[0]) < len(LINES) / 10


def rows_of(task, step):
    rows = task.plan.rows(step)
    return np.concatenate(rows) if isinstance(task.plan, PackPlan) else rows


def each(task, step):
    """What is read and asked for of each text of a step."""
    numbers = rows_of(task, step)
    read, asked = task.rows(numbers, step // task.batches_per_epoch)
    for start, length in zip(read.starts, read.lengths, strict=True):
        yield tuple(read.ids[start : start + length]), tuple(asked.ids[start : start + length])


def test_packs_have_one_shape_and_hold_what_padded_batches_hold(task):
    task.arrange(2)
    shapes = set()
    for step in range(task.batches_per_epoch):
        packs, padded = task.packs(step), task.batch(step)
        shapes |= {tuple(tuple(tensor.shape) for tensor in part.tensors()) for part in packs.split(2)}
        labels = [sorted(int(i) for part in one.split(2) for i in part.labels if i) for one in (packs, padded)]
        assert labels[0] == labels[1]
        assert packs.count == padded.count == len(labels[0])
    assert len(shapes) == 1
    assert 0.1 < task.most / task.plan.room.source < 0.6


def test_packs_have_places_for_what_texts_of_much_weight_ask_for(tmp_path):
    """Short texts have a larger share of their words asked for; here they are nearly all that is learnt from."""
    (tmp_path / "long.txt").write_text(
        "\n".join(f"{a} {b} {a} {b}" for a, b in pairwise(LINES[:60])) + "\n", encoding="utf-8"
    )
    (tmp_path / "short.txt").write_text("".join(f"w{n}\n" for n in range(40)))
    recipe = load_recipe("bert/tiny", {"data.vocabulary": 400, "train.tokens": 512})
    data = {"train": [str(tmp_path / "long.txt"), f"{tmp_path / 'short.txt'}:60"], "dev": str(tmp_path / "long.txt")}
    task = Task.prepare(recipe, tmp_path / "data", data, {}, lambda text: None)
    task.arrange(1)
    for step in range(task.batches_per_epoch):
        assert task.packs(step).count == task.count(*task.rows(rows_of(task, step), 0))


def test_what_a_pack_has_no_places_for_is_not_asked_for_and_not_counted(task, monkeypatch):
    task.arrange(2)
    monkeypatch.setattr(task, "most", 7)
    packs = task.packs(0)
    assert [part.labels.tolist().count(0) for part in packs.split(2)] == [0, 0]
    assert packs.count == task.batch(0).count == 14


@pytest.mark.parametrize("size", [2, 3])
def test_shares_of_a_batch_have_its_loss(task, size):
    """Also where one process has a line less than the others."""
    task.arrange(0)
    torch.manual_seed(0)
    model = task.build().double().eval()
    step = next(step for step in range(task.batches_per_epoch) if len(task.batch(step).ids) % size)
    whole, total = task.batch(step), 0.0
    for rank in range(size):
        team = Team()
        team.rank, team.size = rank, size
        share = task.batch(step, team)
        assert (share.count, len(share.ids)) == (whole.count, -(-len(whole.ids) // size))
        total += float(task.loss(model, share).detach())
    assert total == pytest.approx(float(task.loss(model, whole).detach()), rel=1e-9)


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def run(folder, **more):
    (folder / "train.txt").write_text("\n".join(LINES[:300]) + "\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n".join(LINES[300:]) + "\n", encoding="utf-8")
    files = {"train": folder / "train.txt", "dev": folder / "dev.txt", "quiet": True, "device": "cpu"}
    return train("bert/tiny", **{**files, **more, "changes": {**TINY, **more.get("changes", {})}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return run(folder, out=folder / "run", changes={"train.steps": 20})


def test_a_run_that_broke_off_and_goes_on_ends_with_the_same_bytes(trained, tmp_path, monkeypatch):
    loss, seen = Task.loss, []

    def break_off(self, model, batch):
        seen.append(batch)
        if len(seen) == 14:
            raise KeyboardInterrupt
        return loss(self, model, batch)

    changes = {"train.steps": 20, "train.save_every": 4}
    with monkeypatch.context() as patch:
        patch.setattr(Task, "loss", break_off)
        patch.setattr(Task, "fused_loss", lambda self: self.loss)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, out=tmp_path / "run", changes=changes)
    assert len(seen) == 14
    run(tmp_path, out=tmp_path / "run", changes=changes, resume=True)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (trained.folder / name).read_bytes()


def test_it_is_judged_by_the_same_words_each_time(trained, tmp_path, capsys):
    prober, dev = Prober.load(trained.folder, "cpu"), LINES[300:]
    once = list(prober.score(dev))
    for one, other in zip(once[::-1], prober.score(dev[::-1]), strict=True):
        assert (one.tokens, one.right) == (other.tokens, other.right)
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-4)
    (tmp_path / "dev.txt").write_text("\n".join([*dev, ""]) + "\n", encoding="utf-8")
    found = evaluate_masked(prober, tmp_path / "dev.txt")
    for name, value in trained.metrics.items():
        assert found[name] == pytest.approx(value, rel=1e-6)
    assert (found["lines"], found["left_out"], found["truncated"]) == (100, 1, 0)
    assert found["tokens"] == sum(one.tokens for one in once)
    assert status("evaluate", str(trained.folder), "--data", str(tmp_path / "dev.txt"), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["accuracy"] == pytest.approx(found["accuracy"])
    assert said.keys() == found.keys()


@torch.no_grad()
def test_scores_are_explicit_sums(trained):
    prober = Prober.load(trained.folder, "cpu")
    for text, one in zip(LINES[:20], prober.score(LINES[:20]), strict=True):
        ids = rows(prober.tokenizer.encode([text]))
        read, asked = prober.masking(ids, np.array([zlib.crc32(text.encode())]))
        labels = torch.from_numpy(asked.ids)
        log_p = prober.model(torch.from_numpy(read.ids)[None])[0].log_softmax(-1)
        chosen = log_p[labels > 0]
        assert one.log_probability == pytest.approx(-float(F.nll_loss(chosen, labels[labels > 0], reduction="sum")), rel=1e-4)  # fmt: skip
        assert (one.tokens, one.right) == (len(chosen), int((chosen.argmax(-1) == labels[labels > 0]).sum()))


def test_a_sample_is_a_text_without_a_word(trained):
    prober = Prober.load(trained.folder, "cpu")
    for text in LINES[:30]:
        source, word, guess = prober.sample(text)
        assert source.replace("[MASK]", word) == text
        assert " " not in word
        assert isinstance(guess, str)


@torch.no_grad()
def test_the_encoder_makes_vectors_without_its_head(trained):
    encoder, vocabulary, recipe = load_encoder(trained.folder)
    model, _, _ = load_masked_model(trained.folder)
    assert isinstance(encoder, TextEncoder)
    assert recipe.task == "mask"
    assert len(encoder.words.weight) == vocabulary.source.size == len(model.output_words) - 1
    fresh = TextEncoder(recipe.encoder, vocabulary.source.size)
    fresh.load_state_dict(encoder.state_dict())  # as who gives it another head does
    ids = torch.tensor([[1, *vocabulary.source.encode(["We know."])[0], 2]])
    torch.testing.assert_close(fresh.eval()(ids), model.body(ids))
    vector = Embedder.load(trained.folder, "cpu")("We know.")
    mean = model.body(ids)[0].mean(0)
    assert np.abs(vector - (mean / mean.norm()).numpy()).max() <= 1e-5


@pytest.mark.slow
def test_it_learns_to_fill_gaps(tmp_path):
    """Which word is missing follows from the others."""
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    (tmp_path / "texts.txt").write_text("\n".join(" ".join((days * 2)[n : n + 7]) for n in range(7) for _ in range(9)))
    changes = {**TINY, "train.steps": 120, "train.validate_every": 60, "model.dropout": 0.0, "train.ema": 0.9, "mask.words": 0.3, "mask.hidden": 1.0, "mask.replaced": 0.0}  # fmt: skip
    files = {"train": tmp_path / "texts.txt", "dev": tmp_path / "texts.txt", "quiet": True, "device": "cpu"}
    found = train("bert/tiny", **files, out=tmp_path / "run", changes=changes)
    assert found.metrics["accuracy"] > 95
    assert found.metrics["perplexity"] == pytest.approx(math.exp(found.metrics["loss"]))
    assert found.metrics["perplexity"] < 2  # 7 by chance
    report = (tmp_path / "run" / "report.html").read_text()
    assert "[MASK]" in report
    assert "Attention" not in report


def test_an_imported_bert_is_pretrained_further(tmp_path):
    make_bert(tmp_path / "theirs", masked=True, max_position_embeddings=40)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "texts.txt").write_text("\n".join(["a dog is asleep", "dogs bark", "z " * 50] * 5) + "\n")
    files = {"train": tmp_path / "texts.txt", "dev": tmp_path / "texts.txt", "quiet": True, "device": "cpu"}
    changes = {"train.steps": 8, "train.validate_every": 8, "train.tokens": 64, "train.ema": 0.0, "train.rate": 1e-2}
    found = train("mask/finetune", **files, base=tmp_path / "ours", out=tmp_path / "more", changes=changes)
    summary = json.loads((tmp_path / "more" / "summary.json").read_text())
    assert found.metrics["loss"] < summary["before"]["dev"]["loss"]
    before = evaluate_masked(Prober.load(tmp_path / "ours", "cpu"), tmp_path / "texts.txt")
    assert summary["before"]["dev"]["loss"] == pytest.approx(before["loss"], rel=1e-5)
    assert before["truncated"] == 5
    _, vocabulary, recipe = load_masked_model(tmp_path / "more")
    assert (recipe.task, recipe.train.smoothing, vocabulary.source.kind) == ("mask", 0.0, "huggingface")
    assert Embedder.load(tmp_path / "more", "cpu")(["a dog"]).shape == (1, 24)


def test_parts_can_be_frozen(trained, tmp_path):
    frozen = {"train.freeze": "embeddings", "train.steps": 2, "train.ema": 0.0, "train.tokens": 512}
    files = {"train": trained.folder.parent / "train.txt", "quiet": True, "device": "cpu"}
    train("mask/finetune", **files, base=trained.folder, out=tmp_path / "more", changes=frozen)
    before, after = (load_masked_model(place)[0].state_dict() for place in (trained.folder, tmp_path / "more"))
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert "body.words.weight" in same
    assert "body.encoder.blocks.0.attention.input.weight" not in same
    assert not any(name.startswith("prediction.") for name in same)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_makes_no_sense_is_refused(trained, tmp_path, capsys):
    with pytest.raises(OptionError, match=r"train\.simcut does nothing"):
        load_recipe("bert/tiny", {"train.simcut": 3.0})
    with pytest.raises(OptionError, match="must reach to the end of the longest sentence"):
        load_recipe("bert/tiny", {"model.positions": "learned", "model.max_length": 256})
    with pytest.raises(OptionError, match="must reach to the end of the longest text"):
        load_recipe("bert/tiny", {"model.positions": "learned", "model.max_length": 257})
    (tmp_path / "texts.txt").write_text("a\n")
    for words in (["translate", str(trained.folder), "--input", str(tmp_path / "texts.txt")], ["generate", str(trained.folder), "--prompt", "a"]):  # fmt: skip
        assert status(*words) == 2
        said = capsys.readouterr().err
        assert "its task is 'mask'" in said
        assert "use it with `manyheads embed`, `evaluate` or `train --from`" in said
    assert status("evaluate", str(trained.folder), "--data", str(tmp_path / "texts.txt"), "--beam", "7") == 2
    assert "is scored on texts as they are, got beam 7" in capsys.readouterr().err


def test_a_batch_without_padding_has_no_mask_and_the_same_states():
    model = model_of()
    batch = pad_masked(rows(READ[:1] * 2), rows(ASKED[:1] * 2))
    assert batch.keep is None
    full = model(batch.ids, Padded.from_lengths([5, 5]), batch.places)
    torch.testing.assert_close(model(*batch.inputs), full)
