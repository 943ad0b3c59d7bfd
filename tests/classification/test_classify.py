"""Classifiers: their loss against explicit sums, that padding has no say, that they learn, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from classification.labelled import EVEN, ODD, TINY, write_labelled, write_labelled_twos
from manyheads import Classifier, Embedder, EncoderConfig, InputError, OptionError, load_recipe, train
from manyheads.classification.evaluate import evaluate_labels
from manyheads.modelfolder import TOKENIZER, load_classifier, save_model
from manyheads.models.classifier import TextClassifier
from manyheads.nn import Packed
from manyheads.tasks.classify import LabelledBatch, Task, class_loss
from manyheads.tasks.encoder import pad_rows
from manyheads.text.corpus import ReadOptions
from manyheads.text.labels import Labels
from manyheads.text.listed import Characters
from manyheads.text.tokenizer import BEGIN, END, FIRST, PADDING
from manyheads.text.vocabulary import Vocabulary

CONFIG = EncoderConfig(width=32, layers=2, heads=4, feedforward=48, dropout=0.0, positions="rotary")
ROWS = [[BEGIN, 5, 6, END], [BEGIN, 7, END, 8, 9, END], [BEGIN, 4, END]]
KINDS = [[0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0]]
LABELS = torch.tensor([FIRST + 2, FIRST, FIRST + 1])


def classifier(pooling="mean", classes=3):
    torch.manual_seed(0)
    model = TextClassifier(CONFIG, 20, classes, pooling).double()
    nn.init.normal_(model.classes.weight)
    nn.init.normal_(model.classes.bias)
    return model


def batch_of(rows, kinds, labels):
    ids, lengths = pad_rows(rows)
    return LabelledBatch(ids=ids, lengths=lengths, segments=pad_rows(kinds)[0], labels=labels, count=len(rows))


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_the_loss_and_its_gradient_are_the_sum_over_texts_one_by_one(pooling):
    model, smoothing = classifier(pooling), 0.1
    expected = torch.zeros((), dtype=torch.float64)
    for row, kinds, label in zip(ROWS, KINDS, LABELS.tolist(), strict=True):
        states = model.body(torch.tensor([row]), None, torch.tensor([kinds]))[0]
        pooled = {"mean": states.mean(0), "first": states[0], "max": states.amax(0)}[pooling]
        log_p = torch.log_softmax(model.classes.weight @ pooled + model.classes.bias, 0)
        target = torch.full((3,), smoothing / 3, dtype=torch.float64)
        target[label - FIRST] += 1 - smoothing
        expected -= (target * log_p).sum()
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    batch = batch_of(ROWS, KINDS, LABELS)
    for parts in ([batch], batch.split(3), batch.halves()):
        loss = sum(class_loss(model(*part.inputs), part.labels, smoothing) for part in parts)
        assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
        for one, other in zip(torch.autograd.grad(loss, list(model.parameters())), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_packed_texts_have_the_logits_of_padded_ones():
    model = classifier().eval()
    packed = Packed.from_lengths([len(row) for row in ROWS])
    flat = [torch.tensor([i for row in rows for i in row]) for rows in (ROWS, KINDS)]
    torch.testing.assert_close(
        model(flat[0], packed, flat[1]), model(*batch_of(ROWS, KINDS, LABELS).inputs), rtol=1e-6, atol=1e-6
    )


def test_nothing_is_learnt_where_the_label_is_padding():
    model = classifier()
    batch = batch_of(ROWS, KINDS, LABELS.clone())
    batch.labels[1:] = PADDING
    alone = batch_of(ROWS[:1], KINDS[:1], LABELS[:1])
    losses = [float(class_loss(model(*one.inputs), one.labels, 0.1).detach()) for one in (batch, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_give_about_the_same_logits(dtype):
    inputs = batch_of(ROWS, KINDS, LABELS).inputs
    exact, rounded = (classifier().to(kind)(*inputs).double() for kind in (torch.float64, dtype))
    torch.testing.assert_close(rounded, exact, rtol=0.1, atol=0.1)


def test_a_head_begins_undecided():
    model = TextClassifier(CONFIG, 20, 3)
    assert float(class_loss(model(torch.tensor([ROWS[0]])), LABELS[:1], 0.0).detach()) == pytest.approx(math.log(3))


@torch.no_grad()
def test_labels_do_not_depend_on_what_is_beside_a_text(tmp_path):
    vocabulary = Vocabulary(Characters.train(["abcdefgh "], 300), Labels(["x", "y", "z"]))
    recipe = load_recipe("classify/small", {"model.width": 32, "model.heads": 4, "embed.max_length": 12})
    model = TextClassifier(recipe.encoder, vocabulary.source.size, 3)
    nn.init.normal_(model.classes.weight)
    save_model(tmp_path / "model", model, vocabulary, recipe)
    found = Classifier.load(tmp_path / "model", "cpu")
    texts = ["abc", "", "h" * 30, "abc\tdef", "a" * 30 + "\t" + "b", " \t ", "abc\t", "ab"]
    all_at_once = list(found.classify(texts))
    for text, one in zip(texts, all_at_once, strict=True):
        (alone,) = found.classify([text])
        np.testing.assert_allclose(alone.log_probabilities, one.log_probabilities, atol=1e-5)
        assert one.label == found(text)
        assert one.label == (one.ranked(1)[0][0] if one.finite else "")
        assert sum(p for _, p in one.ranked()) == pytest.approx(0 if one.blank else 1, abs=1e-5)
    assert [one.blank for one in all_at_once] == [False, True, False, False, False, True, True, False]
    assert [one.truncated for one in all_at_once] == [False, False, True, False, True, False, False, False]
    assert all_at_once[2].tokens == all_at_once[4].tokens == 12
    ids = vocabulary.source.encode(["abc", "def"])
    row = [BEGIN, *ids[0], END, *ids[1], END]
    kinds = [0] * 5 + [1] * 4
    logits = model.eval()(torch.tensor([row]), None, torch.tensor([kinds]))[0]
    np.testing.assert_allclose(all_at_once[3].log_probabilities, logits.log_softmax(-1), atol=1e-5)
    with pytest.raises(OptionError, match="takes a text or a list of texts, got 5"):
        found(5)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classify")
    data = {"train": write_labelled(folder / "train.tsv", 300), "dev": write_labelled(folder / "dev.tsv", 60, 1)}
    changes = {**TINY, "train.steps": 150, "train.validate_every": 50, "train.rate": 0.01}
    found = train("classify/small", **data, out=folder / "run", changes=changes, device="cpu", quiet=True)
    return folder, found


def test_it_learns_and_says_how_well(run):
    folder, trained = run
    assert trained.metrics["accuracy"] > 95
    found = Classifier.load(folder / "run", "cpu")
    assert found(["abc", "bca"]) == [ODD, EVEN]
    scores = evaluate_labels(found, folder / "dev.tsv", ReadOptions(labels=True))
    for name in ("loss", "accuracy", "macro_f1"):
        assert scores[name] == pytest.approx(trained.metrics[name], rel=1e-5)
    assert sum(one["count"] for one in scores["classes"].values()) == scores["lines"] == 60
    assert load_classifier(folder / "run")[1].labels.names == sorted([ODD, EVEN])
    events = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    lines = (folder / "train.tsv").read_text().splitlines()
    pieces = sum(len(line.split("\t")[1]) + 2 for line in lines)
    epoch = next(event["batches_per_epoch"] for event in events if event["event"] == "start")
    assert steps[-1]["tokens"] == pytest.approx(150 / epoch * pieces, rel=0.1)  # of texts, not of labels


@pytest.mark.slow
def test_it_learns_from_two_texts(tmp_path):
    files = {"train": write_labelled_twos(tmp_path / "train.tsv", 600), "dev": write_labelled_twos(tmp_path / "dev.tsv", 60, 1)}  # fmt: skip
    changes = {**TINY, "model.segments": 2, "model.dropout": 0.0, "train.steps": 200, "train.validate_every": 100, "train.rate": 0.01}  # fmt: skip
    found = train("classify/small", **files, out=tmp_path / "run", changes=changes, device="cpu", quiet=True)
    assert found.metrics["accuracy"] > 90
    told = Classifier.load(tmp_path / "run", "cpu")
    assert told(["ab\ta", "ab\tba", "bb\tba", "ba\tab"]) == ["same", "other", "same", "other"]


def test_what_has_no_numbers_has_no_class_and_is_never_right(run):
    folder, _ = run
    found, texts = Classifier.load(folder / "run", "cpu"), [line.split("\t") for line in (folder / "dev.tsv").read_text().splitlines()]  # fmt: skip
    with torch.no_grad():
        found.model.body.words.weight[found.tokenizer.encode(["h"])[0]] = torch.nan
    scores = evaluate_labels(found, folder / "dev.tsv", ReadOptions(labels=True))
    lost = [(label, text) for label, text in texts if "h" in text]
    assert 0 < len(lost) == scores["not_finite"] < len(texts)
    assert scores["accuracy"] <= 100 * (1 - len(lost) / len(texts))
    assert math.isnan(scores["loss"])
    task = Task.prepare(
        load_recipe("classify/small", TINY), folder / "data", {"train": folder / "train.tsv", "dev": folder / "dev.tsv"},
        {TOKENIZER: load_classifier(folder / "run")[1].dumps().encode()}, lambda text: None,
    )  # fmt: skip
    validation = task.validate(found.model)
    assert validation.metrics["accuracy"] == scores["accuracy"]
    assert [one.output for one in validation.samples] == found([text for _, text in texts[:5]])
    assert "" in [one.output for one in validation.samples]


def test_a_classifier_is_an_encoder_too_and_may_be_trained_further(run, tmp_path):
    folder, _ = run
    model, _, _ = load_classifier(folder / "run")
    embedder = Embedder.load(folder / "run", "cpu")
    for name, tensor in model.body.state_dict().items():
        assert torch.equal(tensor, embedder.model.state_dict()[name])
    few = {"train.steps": 2, "train.validate_every": 2, "train.tokens": 256, "train.freeze": "body"}
    more = {"dev": str(folder / "dev.tsv"), "device": "cpu", "quiet": True, "changes": few}
    train("classify/finetune", base=folder / "run", train=str(folder / "dev.tsv"), out=tmp_path / "more", **more)
    after = load_classifier(tmp_path / "more")[0].state_dict()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, after[name])}
    assert changed == {"classes.weight", "classes.bias"}
    before = json.loads((tmp_path / "more" / "summary.json").read_text())["before"]
    assert before.keys() == {"dev", "old"}
    with pytest.raises(OptionError, match=r"got .*run, for 'classify', and a recipe for 'generate'"):
        train("lm/tiny", base=folder / "run", train=str(folder / "dev.tsv"), out=tmp_path / "o", **more)


def test_other_labels_are_told_by_a_new_head_and_that_is_said(run, tmp_path, capsys):
    folder, _ = run
    (tmp_path / "other.tsv").write_text(f"sad\tabc\nglad\tb\n{ODD}\tac\n", encoding="utf-8")
    few = {"train.steps": 2, "train.validate_every": 2, "train.tokens": 256, "train.freeze": "body"}
    more = {"base": folder / "run", "dev": tmp_path / "other.tsv", "device": "cpu", "changes": few}
    train("classify/finetune", **more, train=tmp_path / "other.tsv", out=tmp_path / "other")
    said = "".join(capsys.readouterr().err.split())
    assert (
        "".join(f"head: new, because the labels differ from those of {folder / 'run'} ({ODD!r}, {EVEN!r})".split())
        in said
    )
    assert "theolddevelopmentsetisnotscored:alabelmustbeoneofthe3learntlabels" in said
    before, (after, vocabulary, _) = load_classifier(folder / "run")[0], load_classifier(tmp_path / "other")
    assert vocabulary.labels.names == sorted(["sad", "glad", ODD])
    for name, tensor in before.body.state_dict().items():
        assert torch.equal(tensor, after.body.state_dict()[name])
    assert not json.loads((tmp_path / "other" / "summary.json").read_text()).get("before")
    (tmp_path / "other.tsv").write_text(f"sad\tabc\nstrange\tb\n{ODD}\tac\n", encoding="utf-8")
    longer = {**more, "changes": {**few, "train.steps": 3}, "resume": True, "data_changed": True}
    with pytest.raises(InputError, match=r"must be one of the 3 learnt labels .*, got 'strange', .*other.tsv, line 2"):
        train("classify/finetune", **longer, train=tmp_path / "other.tsv", out=tmp_path / "other")


def test_some_of_the_labels_that_a_classifier_knows_are_enough_to_train_it_further(run, tmp_path):
    folder, _ = run
    (tmp_path / "odd.tsv").write_text(f"{ODD}\tabc\n{ODD}\tacb\n", encoding="utf-8")
    few = {"train.steps": 1, "train.validate_every": 1, "train.tokens": 256}
    train("classify/finetune", base=folder / "run", train=tmp_path / "odd.tsv", dev=folder / "dev.tsv", out=tmp_path / "more", changes=few, device="cpu", quiet=True)  # fmt: skip
    assert load_classifier(tmp_path / "more")[1].labels.names == sorted([ODD, EVEN])
    assert json.loads((tmp_path / "more" / "summary.json").read_text())["before"]["dev"]["accuracy"] > 95


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path):
    data = {"train": write_labelled(tmp_path / "train.tsv", 100), "dev": write_labelled(tmp_path / "dev.tsv", 20, 1)}
    changes = {**TINY, "train.validate_every": 4}
    for out, ends in (("whole", (12,)), ("twice", (4, 12))):
        for steps in ends:
            train("classify/small", **data, out=tmp_path / out, changes={**changes, "train.steps": steps, "train.schedule": "inverse-sqrt", "train.warmup": 0}, resume=True, device="cpu", quiet=True)  # fmt: skip
    whole, twice = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "twice"))
    assert whole == twice


@pytest.mark.parametrize(
    ("text", "dev", "complaint"),
    [
        ("yes\ta\nyes\tb\n", "yes\ta\n", r"at least two labels, all different, got \['yes'\]"),
        ("yes\ta\nno\tb\n", "yes\ta\nno\tx\nmaybe\tc\n", r"got 'maybe', .*dev.tsv, line 3"),
        ("yes\ta\nno tab\n", "yes\ta\n", r"line 2: 1 column"),
        ("yes\t\nno\t \n", "yes\ta\n", r"at least two labels|there must be a pair to train on"),
    ],
)
def test_what_cannot_be_learnt_is_refused(tmp_path, text, dev, complaint):
    (tmp_path / "train.tsv").write_text(text)
    (tmp_path / "dev.tsv").write_text(dev)
    with pytest.raises(InputError, match=complaint):
        train("classify/small", train=tmp_path / "train.tsv", dev=tmp_path / "dev.tsv", out=tmp_path / "run", changes=TINY, device="cpu", quiet=True)  # fmt: skip


@pytest.mark.parametrize("change", [{"train.rdrop": 1.0}, {"train.simcut": 1.0}, {"data.bpe_dropout": 0.1}])
def test_what_is_not_for_encoders_is_refused(change):
    with pytest.raises(OptionError, match="does nothing for the task"):
        load_recipe("classify/small", change)


def test_long_texts_are_cut_and_counted(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a\t" + "x" * 40 + "\nb\t" + "y" * 9 + "\t" + "z" * 30 + "\nb\tshort\n")
    changes = {**TINY, "embed.max_length": 12, "train.steps": 1}
    files = {"train": tmp_path / "train.tsv", "dev": tmp_path / "train.tsv"}
    train("classify/small", **files, out=tmp_path / "run", changes=changes, device="cpu")
    said = " ".join(capsys.readouterr().err.split())
    assert "train: 3 texts, 25 pieces 2 longer than the limit, kept and cut (the first:" in said
    assert "labels: 2 (b 2, a 1)" in said


def test_weights_of_several_files_are_said(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("x\tab\ny\tcd\n")
    (tmp_path / "b.tsv").write_text("x\tef\n")
    files = {"train": [tmp_path / "a.tsv", f"{tmp_path / 'b.tsv'}:3"], "dev": tmp_path / "a.tsv"}
    for recipe in ("classify/small", "embed/small"):
        train(recipe, **files, out=tmp_path / recipe, changes={**TINY, "train.steps": 1}, device="cpu")
        said = "".join(capsys.readouterr().err.split())
        what = "text" if recipe == "classify/small" else "pair"
        assert f"a.tsv:2{what}s×1" in said
        assert f"b.tsv:1{what}×3" in said


def test_a_pooling_that_is_not_there_is_refused():
    with pytest.raises(OptionError, match=r"embed.pooling must be one of 'mean', 'first', 'max', got 'middle'"):
        TextClassifier(CONFIG, 20, 2, "middle")


def test_a_folder_whose_labels_are_not_those_of_its_weights_is_refused(tmp_path):
    pieces, recipe = Characters.train(["ab"], 300), load_recipe("classify/small", {"model.width": 32, "model.heads": 4})
    model = TextClassifier(recipe.encoder, pieces.size, 3)
    for name, vocabulary, complaint in (
        ("more", Vocabulary(pieces, Labels(["a", "b", "c", "d"])), r"classes.bias must be \(4,\), as the recipe says, got \(3,\)"),
        ("none", Vocabulary(pieces), r"do not belong together: a classifier must have labels, got a vocabulary with 'characters'"),
    ):  # fmt: skip
        save_model(tmp_path / name, model, vocabulary, recipe)
        with pytest.raises(InputError, match=complaint):
            Classifier.load(tmp_path / name, "cpu")
