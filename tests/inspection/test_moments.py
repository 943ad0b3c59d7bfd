"""Moments of a training as files, and what a page is told of them."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import status
from manyheads.decoding.translator import Translator
from manyheads.errors import InputError, OptionError
from manyheads.inspection.api import inspect
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.moments import Pair, dump_moment, load_moment, name_of_moment, read_moments, steps_in
from manyheads.inspection.replay import replay_header, replay_planes
from manyheads.inspection.summaries import summaries


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from film import shoot

    return shoot(tmp_path_factory.mktemp("film") / "run")


@pytest.fixture(scope="module")
def seen(run):
    return inspect(run, replay=True)


@pytest.fixture(scope="module")
def content(run):
    return (run / "replay" / name_of_moment(200)).read_bytes()


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_is_read_and_equal_moments_are_equal_files(content):
    moment = load_moment(content, "a file")
    assert dump_moment(moment) == content
    assert moment.step == 200
    for layers in moment.weights.values():
        for layer in layers:
            np.testing.assert_allclose(layer.astype("float64").sum(-1), 1, atol=2e-3)
    assert np.triu(moment.weights["decoder"][0][0], 1).max() == 0


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_in_a_file_it_is_a_moment_or_refused(content, data):
    broken = bytearray(content[: data.draw(st.integers(0, len(content)), label="cut")])
    for _ in range(data.draw(st.integers(0, 4))):
        if broken:
            broken[data.draw(st.integers(0, min(len(broken), 3_000) - 1))] = data.draw(st.integers(0, 255))
    try:
        said = str(load_moment(bytes(broken), "a file").shape)
    except InputError as error:
        said = error.message
    assert said.startswith(("a file is not a recorded moment of training: ", "{'encoder': "))


@pytest.mark.parametrize(
    "change",
    [
        {"pair": Pair((5, 2), (1, 6, 2))},
        {"step": -1},
        {"log_probability": np.array([0.5])},
        {"best_log_probability": np.full(3, np.nan)},
        {"weights": {"encoder": [], "decoder": [], "cross": []}},
    ],
)
def test_what_does_not_fit_together_is_refused(content, change):
    moment = replace(load_moment(content, "a file"), **change)
    with pytest.raises(InputError, match="a file is not a recorded moment of training"):
        load_moment(dump_moment(moment), "a file")


def test_damaged_moments_links_and_those_of_another_pair_are_left_out_and_counted(tmp_path, run):
    folder = tmp_path / "replay"
    shutil.copytree(run / "replay", folder)
    moment = load_moment((folder / name_of_moment(100)).read_bytes(), "")
    other = replace(moment, step=50, pair=Pair((*moment.pair.source[:-2], 9, 2), moment.pair.target))
    (folder / name_of_moment(50)).write_bytes(dump_moment(other))
    (folder / name_of_moment(60)).write_bytes(b"damaged")
    (folder / name_of_moment(70)).symlink_to(folder / name_of_moment(100))
    (folder / "step-1e3.safetensors").write_bytes(b"no step")
    assert steps_in(folder) == [0, 50, 60, 70, 100, 200]
    found, lost = read_moments(folder, steps_in(folder))
    assert ([one.step for one in found], lost) == ([0, 100, 200], 3)


# ── looking at it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_pair_goes_through_the_model_as_it_is_now(seen):
    last = seen.replay.moments[-1]
    assert seen.forced
    assert seen.translation == "The dog is sleeping under the table."
    for kind, layers in seen.attention.items():
        for now, then in zip(layers, last.weights[kind], strict=True):
            np.testing.assert_allclose(now.numpy(), then, atol=6e-4)
    assert seen.log_probability == pytest.approx(float(last.log_probability.sum()), abs=1e-4)


def test_the_page_is_told_every_moment(seen):
    bundle = make_bundle(seen)
    told, moments = bundle.header["replay"], seen.replay.moments
    assert told["steps"] == [0, 100, 200]
    assert told["metrics"][1] == {"loss": 3.0, "bleu": 10.0}
    assert told["chosen"] == 200
    assert [curve["name"] for curve in told["curves"]["loss"]] == ["training", "dev"]
    assert told["curves"]["score"] == [{"name": "BLEU", "points": [(100, 10.0), (200, 30.0)]}]
    assert told["log_probability"][0] == moments[0].log_probability.tolist()
    plane = bundle.planes["replay/cross/3"]
    assert plane.shape == (3, 4, len(seen.target.pieces) - 1, len(seen.source.pieces))
    assert (plane[1] == moments[1].weights["cross"][3]).all()
    assert bundle.header["planes"]["replay/cross/3"]["type"] == "f16"


def test_numbers_of_heads_are_those_of_the_model_map_and_how_far_they_have_formed(seen):
    planes, told = (
        replay_planes(seen.replay, 1 << 30),
        replay_header(seen.replay, seen.translator.vocabulary.target, 1 << 30),
    )
    of_last = summaries(seen)
    for kind, names in told["measures"].items():
        numbers = planes[f"replay/numbers/{kind}"]
        assert names == ["formed", *of_last[kind][0]]
        for layer, known in enumerate(of_last[kind]):
            for at, name in enumerate(names[1:], 1):
                np.testing.assert_allclose(
                    numbers[-1, layer, at], known[name], atol=2e-2 if name == "distance" else 4e-3
                )
        first, last = (seen.replay.moments[n].weights[kind] for n in (0, -1))
        shared = [
            (np.minimum(a.astype(float), b.astype(float)).sum(2) / b.astype(float).sum(2)).mean(1)
            for a, b in zip(first, last, strict=True)
        ]
        np.testing.assert_allclose(numbers[0, :, 0], shared, atol=1e-6)
        np.testing.assert_allclose(numbers[-1, :, 0], 1, atol=1e-6)
        assert (numbers[0, :, 0] < 0.9).all()


def test_what_there_is_no_room_for_is_left_out_but_the_first_and_the_last(seen):
    told = replay_header(seen.replay, seen.translator.vocabulary.target, 1)
    assert told["steps"] == [0, 200]
    assert told["left_out"] == 1
    assert replay_planes(seen.replay, 1)["replay/encoder/0"].shape[0] == 2


def test_refusals(run, tmp_path):
    with pytest.raises(InputError, match=r"got none in .*de-en/replay"):
        inspect("de-en", replay=True)
    with pytest.raises(OptionError, match=r"its own text and target, got 'Hallo\.'"):
        inspect(run, "Hallo.", replay=True)
    with pytest.raises(InputError, match="needs a text to read"):
        inspect(run)
    other = tmp_path / "other"
    shutil.copytree(run, other)
    moment = load_moment((other / "replay" / name_of_moment(200)).read_bytes(), "")
    fewer = replace(moment, weights=moment.weights | {"encoder": moment.weights["encoder"][:1]})
    (other / "replay" / name_of_moment(200)).write_bytes(dump_moment(fewer))
    with pytest.raises(InputError, match="from the model it is shown with"):
        inspect(Translator.load(other, "cpu", "fp32"), replay=True)


def test_the_command_makes_a_page_of_it(run, tmp_path, capfd):
    assert status("inspect", str(run), "--replay", "--html", str(tmp_path / "replay.html")) == 0
    assert b'"replay": {"steps": [0, 100, 200]' in (tmp_path / "replay.html").read_bytes()
    assert status("inspect", str(run), "--replay", "--text", "Hallo.", "--html", str(tmp_path / "no.html")) == 2
    assert "it goes without --text" in capfd.readouterr().err
    assert status("inspect", "de-en", "--replay", "--html", str(tmp_path / "no.html")) == 2
    assert "hint: train.replay=true" in capfd.readouterr().err
    assert not (tmp_path / "no.html").exists()
