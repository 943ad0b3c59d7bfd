"""What a run keeps to be looked at again: the right numbers, at no cost to the run."""

import json
import os
import signal
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import manyheads
from manyheads.inspection.api import inspect
from manyheads.inspection.comparison import open_model
from manyheads.inspection.moments import load_moment, name_of_moment, steps_in, thinned
from manyheads.tasks.translate import Task
from manyheads.training import replay as training_replay
from manyheads.training.replay import MOST, Moments
from training.corpus import TINY, write_pairs

HALF = 2**-11  # of a number, at most, is lost in 16 bits


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return [write_pairs(folder / "train.tsv", 300)], [write_pairs(folder / "dev.tsv", 20, seed=1)]


def train(data, out, resume=False, **changes):
    changes = {key.replace("__", "."): value for key, value in changes.items()}
    changes = {
        **TINY, "train.steps": 40, "train.validate_every": 10, "train.keep": 100, "train.ema": 0.9, "model.dropout": 0.2, **changes
    }  # fmt: skip
    return manyheads.train(
        "tiny", train=data[0], dev=data[1], out=out, changes=changes, resume=resume, device="cpu", quiet=True
    )


def moments(out):
    return {step: read(out, step) for step in steps_in(out / "replay")}


def read(out, step):
    path = out / "replay" / name_of_moment(step)
    return load_moment(path.read_bytes(), str(path))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("whole") / "run"
    train(data, out)
    return out


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_moment_is_what_inspecting_the_checkpoint_of_that_step_shows(whole):
    kept = moments(whole)
    assert list(kept) == [0, 1, 2, 5, 10, 20, 30, 40]
    for step in (10, 30, 40):
        moment, translator = kept[step], open_model(str(whole / "checkpoints" / f"step-{step}"), "cpu")
        source, target = (
            tokenizer.decode(ids)
            for tokenizer, ids in zip(
                (translator.vocabulary.source, translator.vocabulary.target), moment.pair, strict=True
            )
        )
        found = inspect(translator, source, target)
        assert tuple(piece.id for piece in found.source.pieces) == moment.pair.source
        assert tuple(piece.id for piece in found.target.pieces) == moment.pair.target
        for kind, layers in found.attention.items():
            for mine, theirs in zip(moment.weights[kind], layers, strict=True):
                assert mine.dtype == np.float16
                np.testing.assert_allclose(mine, theirs.numpy(), rtol=HALF, atol=1e-6)
        np.testing.assert_allclose(
            moment.log_probability, [choice.log_probability for choice in found.choices], rtol=1e-5, atol=1e-6
        )
        likeliest = [choice.candidates[0] for choice in found.choices]
        assert moment.best.tolist() == [candidate.id for candidate in likeliest]
        np.testing.assert_allclose(
            moment.best_log_probability, [one.log_probability for one in likeliest], rtol=1e-5, atol=1e-6
        )


def test_a_moment_has_the_scores_of_its_validation_and_those_before_have_none(whole):
    events = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    scores = {event["step"]: event for event in events if event["event"] == "validation"}
    kept = moments(whole)
    assert kept[0].metrics == kept[5].metrics == {}
    for step in (10, 20, 30, 40):
        assert kept[step].metrics["loss"] == scores[step]["loss"]
        assert kept[step].metrics["chrf"] == scores[step]["chrf"]


def test_the_pair_is_one_of_the_development_set_that_can_be_seen_at_once(tmp_path, whole, data):
    pairs = [line.split("\t") for line in Path(data[1][0]).read_text().splitlines()]
    translator = manyheads.Translator.load(whole, "cpu")
    pair = moments(whole)[0].pair
    assert [translator.vocabulary.source.decode(pair.source), translator.vocabulary.target.decode(pair.target)] in pairs
    assert len(pair.source) - 1 == max(len(source) for source, _ in pairs)  # they are all shorter than one wishes


def test_sides_that_are_too_long_to_be_seen_are_not_kept(tmp_path, data):
    dev = tmp_path / "dev.tsv"
    dev.write_text(f"{'ab' * 40}\t{'ba' * 40}\n")
    train((data[0], [str(dev)]), tmp_path / "run", train__steps=4, train__validate_every=4)
    assert not (tmp_path / "run" / "replay").exists()
    assert not (tmp_path / "run" / "inspect.html").exists()


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_the_same_run_without_it(tmp_path, whole, data):
    train(data, tmp_path / "run", train__replay=False)
    assert not (tmp_path / "run" / "replay").exists()
    assert not (tmp_path / "run" / "inspect.html").exists()
    assert "inspect.html" not in (tmp_path / "run" / "report.html").read_text()
    names = ["model.safetensors", *(f"checkpoints/step-{step}/weights.safetensors" for step in (10, 40))]
    names += [f"checkpoints/step-40/{name}.safetensors" for name in ("average", "optimizer")]
    for name in names:
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.parametrize("fault", ["a file is in its place", "no memory", "no room"])
def test_a_replay_that_cannot_be_kept_is_said_once_and_costs_nothing(tmp_path, whole, data, monkeypatch, capsys, fault):
    def short(*_):
        raise torch.OutOfMemoryError("not enough")

    if fault == "no memory":
        monkeypatch.setattr(training_replay, "see", short)
    if fault == "no room":
        monkeypatch.setattr(training_replay, "room_free", lambda _: 1_000)
    if fault == "a file is in its place":
        validate = Task.validate

        def blocked(self, *words, **more):
            if not (tmp_path / "run" / "replay").is_file():
                block(tmp_path / "run" / "replay")
            return validate(self, *words, **more)

        monkeypatch.setattr(Task, "validate", blocked)
    monkeypatch.setattr(manyheads.training.api, "Show", speaking(manyheads.training.api.Show))
    train(data, tmp_path / "run")
    said = capsys.readouterr().err
    assert said.count("/replay cannot be written (") == 1, said
    assert "training continues without it" in said
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not (tmp_path / "run" / "inspect.html").exists()


def block(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("mine")


def speaking(show):
    """It speaks, whoever asked it to be quiet."""
    return lambda quiet: show(False)


def test_of_what_is_no_encoder_decoder_and_of_no_pair_nothing_is_kept(tmp_path, whole):
    pair = moments(whole)[0].pair
    model = manyheads.Translator.load(whole, "cpu").single
    Moments(tmp_path / "replay", pair, print).keep(nn.Linear(1, 1), 5, {})
    Moments(tmp_path / "replay", None, print).keep(model, 5, {})
    with torch.no_grad():
        model.words.weight.fill_(float("nan"))
    Moments(tmp_path / "replay", pair, print).keep(model, 5, {})
    assert list(tmp_path.iterdir()) == []


# ── going on ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_goes_on_replaces_what_came_after_its_save(tmp_path, whole, data, monkeypatch):
    out, validate, calls = tmp_path / "run", Task.validate, []

    def stopping(self, *words, **more):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return validate(self, *words, **more)

    monkeypatch.setattr(Task, "validate", stopping)
    assert train(data, out).reason == "stopped"
    monkeypatch.undo()
    assert steps_in(out / "replay")[-1] <= 21
    (out / "replay" / name_of_moment(35)).write_bytes(b"of a future that did not come")
    train(data, out, resume=True)
    assert contents(out / "replay") == contents(whole / "replay")


# ── not too many ────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 10**9), unique=True), st.integers(0, 70))
def test_thinning_keeps_the_first_the_last_and_at_most_so_many(steps, most):
    kept = thinned(steps, most)
    assert set(kept) <= set(steps)
    assert kept == sorted(kept)
    assert len(kept) == min(len(steps), max(2, most))
    assert not steps or (kept[0], kept[-1]) == (min(steps), max(steps))


@given(st.integers(1, 5_000), st.integers(2, 400), st.integers(4, 30))
def test_as_they_come_moments_stay_few_and_evenly_spread(every, count, most):
    """No gap, by the root of the step, is much wider than an even one; no moment is lost for nothing."""
    kept: list[int] = []
    for n in range(count):
        kept = thinned([*kept, n * every], most)
        assert len(kept) == min(n + 1, most)
    gaps = np.diff(np.sqrt(kept))
    even = sqrt((count - 1) * every) / (len(kept) - 1)
    assert gaps.max() <= max(3 * even, sqrt(every) + 1e-9)


def test_a_folder_stays_small(tmp_path, whole):
    pair, model = moments(whole)[0].pair, manyheads.Translator.load(whole, "cpu").single
    film = Moments(tmp_path / "replay", pair, print)
    for step in range(0, 10 * (MOST + 20), 10):
        film.keep(model, step, {"loss": 1.0, "score": float("nan")})
    kept = steps_in(tmp_path / "replay")
    assert len(kept) == MOST
    assert (kept[0], kept[-1]) == (0, 10 * (MOST + 19))
    assert read(tmp_path, kept[-1]).metrics == {"loss": 1.0}
    film.begin(100)
    assert steps_in(tmp_path / "replay")[-1] == 100
