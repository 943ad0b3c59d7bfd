"""The mean of models and of checkpoints, held against the mean of the numbers in their files."""

import gzip
import json
import subprocess
import sys
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import manyheads
from cli.command import status
from manyheads import Translator, average_models
from manyheads.modelfolder import bundled, load_model, save_model
from manyheads.storage import is_whole
from manyheads.training.soup import Part, greedy_soup
from manyheads.training.state import read_tensors
from training.corpus import TINY, write_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs with three checkpoints each, one with a moving average; models made of them; one built otherwise."""
    folder = tmp_path_factory.mktemp("soup")
    data = write_pairs(folder / "train.tsv", 120)
    changes = {**TINY, "train.steps": 6, "train.validate_every": 2, "train.keep": 3}
    train = partial(manyheads.train, "tiny", train=[data], dev=[data], device="cpu", quiet=True)
    train(out=folder / "run", changes=changes)
    train(out=folder / "raw", changes={**changes, "train.ema": 0.0, "model.dropout": 0.3})
    train(out=folder / "heads", changes={**changes, "model.heads": 4})
    other = write_pairs(folder / "other.tsv", 1)
    train(out=folder / "words", train=[data, other], changes=changes | {"data.tokenizer": "bpe"})
    return folder


@pytest.fixture(autouse=True)
def _here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def weights_of(place):
    return load_model(place)[0].state_dict()


def assert_mean(place, all_weights, shares):
    found = weights_of(place)
    for name, tensor in found.items():
        numbers = torch.stack(
            [weights[name].double() * share for weights, share in zip(all_weights, shares, strict=True)]
        )
        assert torch.equal(tensor, (numbers.sum(0) / sum(shares)).float()), name
    assert is_whole(place)


def test_the_mean_of_models_is_that_of_their_weights(folder, tmp_path):
    made = average_models(tmp_path / "mean", ["run", "raw"], quiet=True)
    assert made.parts == ("run", "raw")
    assert made.score is None
    assert_mean(made.folder, [weights_of("run"), weights_of("raw")], [1.0, 1.0])
    before, after = ((place / "recipe.toml").read_bytes() for place in (folder / "run", made.folder))
    assert before == after
    assert sorted(path.name for path in made.folder.iterdir()) == [
        "manifest.json", "model.safetensors", "recipe.toml", "tokenizer.json",
    ]  # fmt: skip


def test_models_count_as_they_are_weighted(tmp_path):
    made = average_models(tmp_path / "mean", ["run", "raw", "run"], weights=[2, 1, 0.5], quiet=True)
    assert_mean(made.folder, [weights_of(name) for name in ("run", "raw", "run")], [2.0, 1.0, 0.5])


@pytest.mark.parametrize(("run", "file"), [("run", "average.safetensors"), ("raw", "weights.safetensors")])
def test_checkpoints_count_as_what_would_have_been_the_model(folder, tmp_path, run, file):
    made = average_models(tmp_path / "mean", run, checkpoints=2, quiet=True)
    places = [folder / run / "checkpoints" / f"step-{step}" for step in (6, 4)]
    assert made.parts == tuple(f"{run}/checkpoints/{place.name}" for place in places)
    assert_mean(made.folder, [read_tensors(place, file) for place in places], [1.0, 1.0])


def test_a_damaged_checkpoint_is_passed_over(folder, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", folder / "run", copy], check=True)
    (copy / "checkpoints" / "step-6" / "state.json").write_text("{}")
    made = average_models(tmp_path / "mean", copy, checkpoints=2, quiet=True)
    assert [part.rsplit("/")[-1] for part in made.parts] == ["step-4", "step-2"]


scales = st.floats(-4, 4)


@given(st.lists(scales, min_size=2, max_size=6), scales)
def test_a_greedy_soup_is_never_worse_than_the_best_of_its_parts(places, goal):
    """Models that are one number, judged by how far it is from a goal."""
    judged = []

    def score(weights):
        judged.append(weights["w"].item())
        return -abs(weights["w"].item() - goal)

    parts = [Part(str(n), lambda x=x: {"w": torch.tensor(x)}) for n, x in enumerate(places)]
    taken, best = greedy_soup(parts, score, lambda _: None)
    alone = [score(part.weights()) for part in parts]
    assert best >= max(alone)
    assert taken[0] is parts[alone.index(max(alone))]
    mean = sum(part.weights()["w"].item() for part in taken) / len(taken)
    assert best == pytest.approx(-abs(mean - goal), abs=1e-5)
    left = [part for part in parts if part not in taken]
    assert len(taken) + len(left) == len(parts)
    assert len(judged) == 3 * len(parts) - 1  # each alone (twice, here), and each but the best with those before it


@pytest.mark.slow
def test_a_greedy_soup_leaves_out_what_makes_it_worse(tmp_path, capsys):
    """The bundled model; it again, trembling a little; and one that has lost its words."""
    model, vocabulary, recipe = load_model("de-en")
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for name, noise in (("trembling", 0.01), ("lost", 3.0)):
        model.load_state_dict(
            {key: t + noise * t.std() * torch.randn_like(t) if t.ndim == 2 else t for key, t in start.items()}
        )
        save_model(tmp_path / name, model, vocabulary, recipe)
    lines = gzip.decompress(bundled("tatoeba/dev.tsv.gz").read_bytes()).decode().split("\n")
    (tmp_path / "dev.tsv").write_text("\n".join([*lines[:6], "\tnothing", ""]))
    made = average_models(
        tmp_path / "soup", [tmp_path / "lost", "de-en", tmp_path / "trembling"], greedy=True,
        data=[tmp_path / "dev.tsv"], device="cpu",
    )  # fmt: skip
    said = capsys.readouterr().err
    assert "1 blank on one side, left out" in said
    assert f"with {tmp_path / 'lost'}: left out" in said
    assert str(tmp_path / "lost") not in made.parts
    assert "de-en" in made.parts
    assert_mean(made.folder, [weights_of(part) for part in made.parts], [1.0] * len(made.parts))
    assert made.score == pytest.approx(manyheads.evaluate(made.folder, [tmp_path / "dev.tsv"], device="cpu").chrf)


REFUSED = {
    "one model": (["run"], "a mean needs at least two models, got 1"),
    "no model": ([], "a mean needs at least two models, got 0"),
    "one checkpoint": (["run", "--checkpoints", "1"], "needs at least 2 checkpoints of one run, got 1 of 1 runs"),
    "two runs": (["run", "raw", "--checkpoints", "2"], "needs at least 2 checkpoints of one run, got 2 of 2 runs"),
    "few checkpoints": (["run", "--checkpoints", "9"], "got 3 of 9 in run/checkpoints"),
    "no checkpoints": (["de-en", "--checkpoints", "2"], "got 0 of 2 in"),
    "other heads": (["run", "heads"], "models must be built alike, got model.heads = 2 in run and 4 in heads"),
    "other words": (["run", "words"], "models must share one vocabulary, got different ones in run and words"),
    "no folder": (["run", "nowhere"], "got 'nowhere': there is no such folder"),
    "one weight": (["run", "raw", "--weights", "2"], "--weights must be one number per model, got 1 for 2"),
    "nothing": (["run", "raw", "--weights", "0", "1"], "--weights must be numbers above 0, got 0.0"),
    "no number": (["run", "raw", "--weights", "nan", "1"], "--weights must be numbers above 0, got nan"),
    "blind": (["run", "raw", "--greedy"], "--greedy and --data must be given together, got --greedy alone"),
    "why": (["run", "raw", "--data", "train.tsv"], "--greedy and --data must be given together, got --data alone"),
    "both": (["run", "raw", "--greedy", "--data", "train.tsv", "--weights", "1", "1"], "got --weights too"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_mean_is_refused(tmp_path, capsys, case):
    words, message = REFUSED[case]
    assert status("average", str(tmp_path / "out"), *words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_over(folder, capsys):
    before = (folder / "raw" / "model.safetensors").read_bytes()
    assert status("average", "raw", "run", "run") == 2
    assert "a model must be saved to a new folder, got raw: it already exists" in capsys.readouterr().err
    assert (folder / "raw" / "model.safetensors").read_bytes() == before


@pytest.mark.slow
def test_what_comes_out_is_a_model_like_any_other(tmp_path):
    out = str(tmp_path / "mean")
    command = [sys.executable, "-m", "manyheads"]
    made = subprocess.run(
        [*command, "average", out, "run", "raw", "--weights", "3", "1"], capture_output=True, text=True, timeout=60
    )
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr == f"{out}: the mean of 3 × run, 1 × raw\n"
    scored = subprocess.run(
        [*command, "evaluate", out, "--data", "train.tsv", "--json"], capture_output=True, text=True, timeout=60
    )
    assert json.loads(scored.stdout)["lines"] == 120
    assert isinstance(Translator.load(out, "cpu")("abc"), str)
