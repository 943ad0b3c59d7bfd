"""Students of models that are there: their vocabulary, what they learn, that a run that goes on is the same run, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cli.command import status
from manyheads import OptionError, TransformerConfig, Translator, load_recipe, train
from manyheads.errors import InputError
from manyheads.modelfolder import load_by_task, load_model, save_model
from manyheads.tasks.losses import divergence, log_probabilities
from manyheads.tasks.masked import pad_masked
from manyheads.tasks.pairs import pad_pairs
from manyheads.tasks.texts import pad_texts
from manyheads.text.dropout import one_after_the_other
from manyheads.text.masking import Masking
from manyheads.training.beginning import reads_packs_well
from training.corpus import TINY, write_pairs

QUICK = {**TINY, "train.steps": 60, "train.validate_every": 30, "train.ema": 0.0}
STUDENT = {**QUICK, "model.width": 16}
STUDENT = {key: value for key, value in STUDENT.items() if not key.startswith("data.")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return {
        "train": write_pairs(folder / "train.tsv", 300),
        "dev": write_pairs(folder / "dev.tsv", 20, seed=1),
        "device": "cpu",
        "quiet": True,
    }


@pytest.fixture(scope="module")
def teachers(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teachers")
    for seed in (1, 2):
        train("tiny", **data, out=folder / str(seed), changes={**QUICK, "train.seed": seed})
    return [folder / "1", folder / "2"]


def loss_of(run):
    return json.loads((run / "summary.json").read_text())["metrics"]["loss"]


def test_a_student_has_their_pieces_and_its_own_shape(data, teachers, tmp_path):
    train("tiny", **data, teachers=teachers, out=tmp_path / "student", changes=STUDENT)
    model, vocabulary, recipe = load_model(tmp_path / "student")
    assert vocabulary.dumps() == (teachers[0] / "tokenizer.json").read_text()
    assert (recipe.data.tokenizer, recipe.data.vocabulary) == ("characters", 300)  # not what "tiny" says
    assert recipe.train.teachers == tuple(map(str, teachers))
    assert model.config.width == 16
    assert len(Translator.load(tmp_path / "student", "cpu")(["abc", "ha"])) == 2


def apart(teacher, student, batch):
    """KL of what they say, for each token."""
    with torch.no_grad():
        said = [log_probabilities(model(*batch.inputs)) for model in (teacher, student)]
    return divergence(*said, batch.labels).item() / batch.count


def test_what_they_say_is_learnt(data, teachers, tmp_path):
    """The larger their share, the nearer a student comes to what its teacher says."""
    teacher, vocabulary, _ = load_model(teachers[0])
    sides = zip(*(line.split("\t") for line in Path(data["dev"]).read_text().splitlines()), strict=True)
    batch = pad_pairs(*(rows(vocabulary.source, side) for side in sides))
    found = []
    for share in (None, 0.5, 1.0):
        out = tmp_path / f"{share}"
        changes = {**QUICK, "train.seed": 5, "train.rate": 3e-3} | ({"train.taught": share} if share else {})
        train("tiny", **data, teachers=teachers[:1] if share else (), out=out, changes=changes)
        found.append(apart(teacher, load_model(out)[0], batch))
    assert found[2] < found[1] < found[0]
    assert found[2] < 0.5 * found[0]


def rows(tokenizer, texts):
    return one_after_the_other([np.array(ids) for ids in tokenizer.encode(texts)])


@pytest.mark.parametrize(
    "way", [{}, {"train.rdrop": 3.0, "model.dropout": 0.2}, {"train.accumulate": 2}, {"train.precision": "bf16"}]
)
def test_going_on_it_is_the_same_run(data, teachers, tmp_path, way):
    changes = STUDENT | way | {"train.schedule": "inverse-sqrt", "train.warmup": 1}
    train("tiny", **data, teachers=teachers, out=tmp_path / "whole", changes=changes)
    train("tiny", **data, teachers=teachers, out=tmp_path / "halves", changes=changes | {"train.steps": 30})
    # Whose student it is, the run knows, also if it is told its recipe again.
    train(**data, out=tmp_path / "halves", changes={"train.steps": 40}, resume=True)
    train("tiny", **data, out=tmp_path / "halves", changes=changes, resume=True)
    whole, halves = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "halves"))
    assert whole == halves


def with_other_heads(folder, out):
    """The same weights, with which something else is computed."""
    model, vocabulary, recipe = load_model(folder)
    other = replace(recipe, model=replace(recipe.transformer, heads=recipe.transformer.heads * 2))
    save_model(out, model, vocabulary, other)
    return out


def test_other_teachers_are_noticed_and_moved_ones_are_not_others(data, teachers, tmp_path):
    mine, out = tmp_path / "teacher", tmp_path / "student"
    shutil.copytree(teachers[0], mine)
    train("tiny", **data, teachers=mine, out=out, changes=STUDENT | {"train.steps": 30})
    before = {name: (out / name).read_bytes() for name in ("recipe.toml", "summary.json", "manifest.json")}
    more = {**data, "out": out, "changes": {"train.steps": 40}, "resume": True}
    shutil.rmtree(mine)
    with pytest.raises(InputError, match=r"train.teachers: a model must be a run folder .* got .*teacher"):
        train(**more)
    shutil.copytree(teachers[1], mine)
    with pytest.raises(InputError, match="other teachers than at step 30: number 1 has other weights"):
        train(**more)
    with pytest.raises(InputError, match="other teachers than at step 30: 2 instead of 1"):
        train(**more, teachers=teachers)
    with pytest.raises(InputError, match="other teachers than at step 30: 0 instead of 1"):
        train(**{**more, "changes": {"train.steps": 40, "train.teachers": []}})
    with pytest.raises(OptionError, match="a teacher must be another model than its student"):
        train(**more, teachers=out)
    with pytest.raises(InputError, match="number 1 has other weights or another configuration"):
        train(**more, teachers=with_other_heads(teachers[0], tmp_path / "heads"))
    assert {name: (out / name).read_bytes() for name in before} == before  # what is refused leaves all as it was
    assert train(**more, teachers=teachers[:1]).steps == 40  # the same, elsewhere
    more["changes"] = {"train.steps": 50}
    assert train(**more, teachers=mine, data_changed=True).steps == 50


def test_a_finished_student_needs_no_teachers(data, teachers, tmp_path):
    mine, out = tmp_path / "teacher", tmp_path / "student"
    shutil.copytree(teachers[0], mine)
    train("tiny", **data, teachers=[mine], out=out, changes=STUDENT)
    shutil.rmtree(mine)
    before = (out / "summary.json").read_bytes()
    assert train(**data, out=out, resume=True).steps == 60
    assert train("tiny", **data, teachers=[mine], out=out, changes=STUDENT, resume=True).steps == 60
    assert (out / "summary.json").read_bytes() == before
    assert Translator.load(out, "cpu")("abc") is not None


def test_none_are_added_on_the_way(data, teachers, tmp_path):
    out = tmp_path / "student"
    train("tiny", **data, out=out, changes=QUICK | {"train.steps": 10})
    with pytest.raises(InputError, match="other teachers than at step 10: 1 instead of 0"):
        train(**data, out=out, teachers=teachers[:1], changes={"train.steps": 20}, resume=True)


def test_a_recipe_in_python_has_teachers_too(data, teachers, tmp_path):
    recipe = load_recipe("tiny", STUDENT | {"train.steps": 2})
    train(recipe, **data, teachers=teachers[0], out=tmp_path / "student")
    assert load_model(tmp_path / "student")[2].train.teachers == (str(teachers[0]),)


def test_what_does_not_go_together_is_refused_before_anything_is_made(data, teachers, tmp_path):
    out = tmp_path / "student"
    other = tmp_path / "other"
    train("tiny", **data, out=other, changes=QUICK | {"data.tokenizer": "bpe", "train.steps": 2})
    two_sided = tmp_path / "two_sided"
    train("tiny", **data, out=two_sided, changes=QUICK | {"model.tie": "target", "train.steps": 2})
    damaged, empty = tmp_path / "damaged", tmp_path / "empty"
    for place in (damaged, empty):
        shutil.copytree(teachers[0], place)
    weights = bytearray((damaged / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (damaged / "model.safetensors").write_bytes(weights)
    (empty / "model.safetensors").unlink()
    few = tmp_path / "few"
    learned = {"model.positions": "learned", "model.max_length": 20, "data.max_length": 12, "train.steps": 2}
    train("tiny", **data, out=few, changes=QUICK | learned)
    cases = [
        ({"teachers": [teachers[0], other]}, {}, f"one vocabulary, got another in {other} than in {teachers[0]}"),
        ({"teachers": [other], "base": teachers[0]}, {}, "got another in"),
        (
            {"teachers": teachers},
            {"data.vocabulary": 500},
            "must have the vocabulary of its teachers, with data.vocabulary = 300, got --set data.vocabulary=500",
        ),
        (
            {"teachers": teachers},
            {"data.tokenizer": "bpe"},
            "with data.tokenizer = 'characters', got --set data.tokenizer=bpe",
        ),
        ({"teachers": teachers}, {"train.teachers": ["x"]}, "teachers must be named in one place, got --teacher"),
        ({"teachers": [teachers[0]] * 2}, {}, "each teacher must be named once"),
        ({"teachers": [""]}, {}, "a teacher must have a name, got one without"),
        ({"teachers": teachers}, {"train.taught": 0.0}, "teachers need a share of the loss"),
        ({}, {"train.taught": 0.7}, "taught is the share of teachers, got taught = 0.7 and no teachers"),
        ({"teachers": [damaged]}, {}, "train.teachers: .*damaged"),
        ({"teachers": [empty]}, {}, "train.teachers: a model folder must have a model.safetensors, got .*empty"),
        ({"teachers": [two_sided]}, {}, "model.tie = 'all' needs one vocabulary for both sides"),
        ({"teachers": [few]}, {}, "the teacher .*few: learned positions must reach"),
        ({"teachers": "nowhere"}, {}, "train.teachers: a model must be a run folder .*, got 'nowhere'"),
        ({"teachers": teachers}, {"train.taught": 1.5}, "train.taught must be between 0 and 1"),
    ]
    for given, changes, complaint in cases:
        recipe = None if "base" in given else "tiny"
        with pytest.raises((OptionError, InputError), match=complaint):
            train(recipe, **data, **given, out=out, changes=changes)
        assert not out.exists()
    with pytest.raises(
        OptionError, match=r"teachers must be for the student's task, 'generate', got .*, for 'translate'"
    ):
        train("lm/tiny", **data, teachers=teachers, out=out)
    with pytest.raises(
        OptionError,
        match=r"must be distilled from translations that a teacher has written \(manyheads data distill\), got train.teachers",
    ):
        train("parallel/mask", **data, teachers=teachers, out=out)


def test_a_list_of_teachers_is_a_list_of_texts():
    assert load_recipe("tiny", {"train.teachers": ["a", "b"]}).train.teachers == ("a", "b")
    for wrong in ("a", ["a", 3], 5):
        with pytest.raises(OptionError, match=r"train.teachers must be a list, each text"):
            load_recipe("tiny", {"train.teachers": wrong})


@pytest.mark.parametrize("recipe", ["lm/tiny", "bert/tiny"])
def test_language_models_and_encoders_have_teachers_too(recipe, data, tmp_path):
    lines = [f"{line.split()[0]} is it" for line in Path(data["train"]).read_text().splitlines()]
    (tmp_path / "texts.txt").write_text("".join(f"{line}\n" for line in lines))
    small = {"model.width": 32, "model.layers": 1, "model.feedforward": 64, "data.vocabulary": 300, "train.tokens": 256}
    quick = {"train.steps": 40, "train.validate_every": 40, "train.warmup": 5, "train.rate": 3e-3, "train.ema": 0.0}
    texts = {"train": str(tmp_path / "texts.txt"), "device": "cpu", "quiet": True}
    train(recipe, **texts, out=tmp_path / "teacher", changes=small | quick)
    teacher, vocabulary, known = load_by_task(tmp_path / "teacher")
    ids = rows(vocabulary.source, lines[:40])
    batch = (
        pad_texts(ids)
        if recipe == "lm/tiny"
        else pad_masked(*Masking(vocabulary.source, known.mask, 0)(ids, np.arange(40), 0))
    )
    found = []
    for share in (None, 1.0):
        out = tmp_path / f"{share}"
        changes = small | quick | {"train.seed": 5} | ({"train.taught": share} if share else {})
        train(recipe, **texts, teachers=[tmp_path / "teacher"] if share else (), out=out, changes=changes)
        assert (out / "tokenizer.json").read_bytes() == (tmp_path / "teacher" / "tokenizer.json").read_bytes()
        found.append(apart(teacher, load_by_task(out)[0], batch))
    assert found[1] < 0.8 * found[0]


def test_teachers_read_packs_if_their_attention_can():
    for options, can in (({"attention_dropout": 0.3}, True), ({"score": "additive"}, False)):
        config = TransformerConfig(**{"width": 32, "heads": 2, "layers": 1, **options})
        assert reads_packs_well(SimpleNamespace(config=config)) == can


def test_at_the_command_line(data, teachers, tmp_path, capsys):
    sets = [part for key, value in STUDENT.items() for part in ("--set", f"{key}={value}")]
    command = ["train", "tiny", "--train", data["train"], "--dev", data["dev"], "--device", "cpu", *sets]
    assert status(*command, "--teacher", *map(str, teachers), "--out", str(tmp_path / "student")) == 0
    assert load_model(tmp_path / "student")[2].train.teachers == tuple(map(str, teachers))
    assert "teachers: 2, 50% of the loss comes from them" in capsys.readouterr().err


def test_a_teacher_is_asked_once_whatever_it_is_called(data, teachers, tmp_path):
    twice = [str(teachers[0]), f"{teachers[0]}/."]
    with pytest.raises(OptionError, match="each teacher must be named once, got the same model as"):
        train("tiny", **data, teachers=twice, out=tmp_path / "student", changes=STUDENT)
