"""Students of models that are there: their vocabulary, what they learn, that a run that goes on is the same run, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli.command import status
from manyheads import OptionError, Translator, load_recipe, train
from manyheads.errors import InputError
from manyheads.modelfolder import load_model
from manyheads.tasks.losses import divergence, log_probabilities
from manyheads.tasks.pairs import pad_pairs
from manyheads.text.dropout import one_after_the_other
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


def test_what_they_say_is_learnt(data, teachers, tmp_path):
    """The larger their share, the nearer a student comes to what its teacher says."""
    teacher, vocabulary, _ = load_model(teachers[0])
    sources, targets = zip(*(line.split("\t") for line in Path(data["dev"]).read_text().splitlines()), strict=True)
    batch = pad_pairs(
        *(one_after_the_other([np.array(ids) for ids in vocabulary.source.encode(side)]) for side in (sources, targets))
    )
    apart = []
    for share in (0.0, 0.5, 1.0):
        out = tmp_path / f"{share}"
        changes = {**STUDENT, "model.width": 32, "train.taught": share, "train.seed": 5, "train.rate": 3e-3}
        train("tiny", **data, teachers=teachers[:1], out=out, changes=changes)
        said = [log_probabilities(model(*batch.inputs)) for model in (teacher, load_model(out)[0])]
        apart.append(divergence(*said, batch.labels).item() / batch.count)
    assert apart[2] < apart[1] < apart[0]
    assert apart[2] < 0.5 * apart[0]


@pytest.mark.parametrize(
    "way", [{}, {"train.rdrop": 3.0, "model.dropout": 0.2}, {"train.accumulate": 2}, {"train.precision": "bf16"}]
)
def test_going_on_it_is_the_same_run(data, teachers, tmp_path, way):
    changes = STUDENT | way | {"train.schedule": "inverse-sqrt", "train.warmup": 1}
    train("tiny", **data, teachers=teachers, out=tmp_path / "whole", changes=changes)
    train("tiny", **data, teachers=teachers, out=tmp_path / "halves", changes=changes | {"train.steps": 30})
    train(**data, out=tmp_path / "halves", changes={"train.steps": 60}, resume=True)  # whose they are, the run knows
    whole, halves = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "halves"))
    assert whole == halves


def test_other_teachers_are_noticed(data, teachers, tmp_path):
    mine, out = tmp_path / "teacher", tmp_path / "student"
    shutil.copytree(teachers[0], mine)
    train("tiny", **data, teachers=[mine], out=out, changes=STUDENT | {"train.steps": 30})
    shutil.rmtree(mine)
    shutil.copytree(teachers[1], mine)
    more = {**data, "out": out, "changes": {"train.steps": 40}, "resume": True}
    with pytest.raises(InputError, match="other teachers than at step 30"):
        train(**more)
    with pytest.raises(OptionError, match=r"train.teachers: .* then, .* now"):
        train("tiny", **(more | {"changes": STUDENT | {"train.steps": 40}}), teachers=teachers)
    assert train(**more, data_changed=True).steps == 40


def test_what_does_not_go_together_is_refused_before_anything_is_made(data, teachers, tmp_path):
    out = tmp_path / "student"
    other = tmp_path / "other"
    train("tiny", **data, out=other, changes=QUICK | {"data.tokenizer": "bpe", "train.steps": 2})
    two_sided = tmp_path / "two_sided"
    train("tiny", **data, out=two_sided, changes=QUICK | {"model.tie": "target", "train.steps": 2})
    few = tmp_path / "few"
    learned = {"model.positions": "learned", "model.max_length": 20, "data.max_length": 12, "train.steps": 2}
    train("tiny", **data, out=few, changes=QUICK | learned)
    cases = [
        ({"teachers": [teachers[0], other]}, {}, f"one vocabulary, got another in {other} than in {teachers[0]}"),
        ({"teachers": [other], "base": teachers[0]}, {}, "got another in"),
        (
            {"teachers": teachers},
            {"data.vocabulary": 500},
            "has the vocabulary of its teachers, with data.vocabulary = 300, got --set data.vocabulary=500",
        ),
        ({"teachers": [two_sided]}, {}, "model.tie = 'all' is for one vocabulary on both sides"),
        ({"teachers": [few]}, {}, "the teacher .*few: learned positions must reach"),
        ({"teachers": ["nowhere"]}, {}, "a model must be a run folder"),
        ({"teachers": teachers}, {"train.taught": 1.5}, "train.taught must be between 0 and 1"),
    ]
    for given, changes, complaint in cases:
        recipe = None if "base" in given else "tiny"
        with pytest.raises((OptionError, InputError), match=complaint):
            train(recipe, **data, **given, out=out, changes=changes)
        assert not out.exists()
    with pytest.raises(OptionError, match=r"teachers of its own task, 'generate', got .*, for 'translate'"):
        train("lm/tiny", **data, teachers=teachers, out=out)
    with pytest.raises(OptionError, match=r"train.teachers does nothing for the task 'parallel'"):
        train("parallel/mask", **data, teachers=teachers, out=out)


def test_a_list_of_teachers_is_a_list_of_texts():
    assert load_recipe("tiny", {"train.teachers": ["a", "b"]}).train.teachers == ("a", "b")
    for wrong in ("a", ["a", 3], 5):
        with pytest.raises(OptionError, match=r"train.teachers must be a list, each text"):
            load_recipe("tiny", {"train.teachers": wrong})


@pytest.mark.parametrize("recipe", ["lm/tiny", "bert/tiny"])
def test_language_models_and_encoders_have_teachers_too(recipe, data, tmp_path):
    (tmp_path / "texts.txt").write_text(
        "".join(f"{line.split()[0]} is it\n" for line in Path(data["train"]).read_text().splitlines())
    )
    small = {"model.width": 32, "model.layers": 1, "model.feedforward": 64, "data.vocabulary": 300, "train.tokens": 256}
    quick = {"train.steps": 30, "train.validate_every": 30, "train.warmup": 5}
    texts = {"train": str(tmp_path / "texts.txt"), "device": "cpu", "quiet": True}
    train(recipe, **texts, out=tmp_path / "teacher", changes=small | quick)
    changes = {key: value for key, value in (small | quick).items() if not key.startswith("data.")}
    losses = []
    for share in (0.0, 1.0):
        out = tmp_path / f"{share}"
        train(recipe, **texts, teachers=[tmp_path / "teacher"], out=out, changes=changes | {"train.taught": share})
        assert (out / "tokenizer.json").read_bytes() == (tmp_path / "teacher" / "tokenizer.json").read_bytes()
        losses.append(loss_of(out))
    assert losses[0] != losses[1]


def test_at_the_command_line(data, teachers, tmp_path, capsys):
    sets = [part for key, value in STUDENT.items() for part in ("--set", f"{key}={value}")]
    command = ["train", "tiny", "--train", data["train"], "--dev", data["dev"], "--device", "cpu", *sets]
    assert status(*command, "--teacher", *map(str, teachers), "--out", str(tmp_path / "student")) == 0
    assert load_model(tmp_path / "student")[2].train.teachers == tuple(map(str, teachers))
    assert "teachers: 2, 50% of what is learnt is theirs" in capsys.readouterr().err
