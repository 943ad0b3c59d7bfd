"""Exponents that are fitted, curves that are compared, runs that are averaged, and what is drawn of them."""

import json
import math
import xml.etree.ElementTree as ET
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.plots import Line, draw
from benchmarks.quality import Case
from benchmarks.setting import setting, write_json
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import same_curve, scaling, time_to_quality

# ── scaling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.floats(-2, 4), st.floats(1e-3, 1e3), st.integers(3, 9))
def test_a_power_law_is_found(exponent, factor, points):
    x = [2.0**n for n in range(4, 4 + points)]
    assert scaling.fit_exponent(x, [factor * v**exponent for v in x]) == pytest.approx(exponent, abs=1e-6)


def test_the_lower_half_of_the_points_does_not_count():
    x = [1, 2, 4, 8, 16, 32]
    flat, steep = [50.0, 3.0], [v**2 for v in x[2:]]
    assert scaling.fit_exponent(x, flat + steep) == pytest.approx(2)


def test_multiply_adds_by_length_at_constant_tokens_are_linear_in_the_end():
    base = scaling.Point(tokens=2**24)
    x = [2**n for n in range(16, 24)]
    y = [replace(base, length=length).multiply_adds() for length in x]
    assert scaling.fit_exponent(x, y) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("path", scaling.PATHS)
def test_every_path_of_attention_gives_the_same_logits(path):
    point = scaling.Point(width=32, layers=1, words=50, length=8, tokens=24)
    model = scaling.Transformer(replace(point.config, dropout=0.0), point.words)
    ids = torch.randint(1, 50, (3, 8))
    expected = model(ids, ids)
    found = scaling.forwards(model, ids, path)()
    torch.testing.assert_close(found.reshape(expected.shape), expected, atol=1e-5, rtol=1e-4)


def test_a_row_of_a_sweep():
    sweep = scaling.Sweep("width", "width", (1, 2, 4, 8), 2, scaling.Point())
    points = [{"value": v, "ms": 3.0 * v**2, "multiply_adds": v} for v in (1, 2, 4)]
    row = scaling.make_row(sweep, "fused", points, [8])
    assert (row["exponent"], row["exponent_of_multiply_adds"], row["exponent_in_the_limit"]) == (2, 1, 2)
    assert (row["fitted_from"], row["out_of_memory"]) == (2, [8])
    assert "exponent" not in scaling.make_row(sweep, "fused", points[:2], [4, 8])
    ET.fromstring(scaling.plot(sweep, [row]))


# ── the same curve ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_smoothing_is_the_mean_of_the_last_steps():
    curve = np.random.default_rng(0).random(25)
    expected = [curve[n : n + 10].mean() for n in range(16)]
    assert same_curve.smooth(curve) == pytest.approx(expected)
    assert same_curve.smooth([1.0, 3.0]) == pytest.approx([2.0])


def curves(graphed, most=0.004):
    """What is drawn twice differs by at most so much from bf16."""
    steps = np.linspace(9, 4, 100)
    drawn = {"rounded 2": steps + most / 2, "rounded 3": steps - most}
    return {"fp32": steps + 0.05, "bf16": steps, "graphed": steps + graphed, **drawn, "seed": steps + 0.1}


@pytest.mark.parametrize(
    ("graphed", "most", "same"),
    [(0.0079, 0.004, True), (0.009, 0.004, False), (0.009, 0.005, True), (-0.011, 0.005, False), (0.0049, 0.0, True),
     (0.0051, 0.0, False), (math.nan, 0.004, False)],
)  # fmt: skip
def test_a_curve_may_differ_by_twice_the_most_that_rounding_or_other_masks_make(graphed, most, same):
    row = same_curve.judge(curves(graphed, most))
    assert row["same"] is same
    assert row["measured_by"] == ["rounded 2", "rounded 3"]
    assert row["allowed"]["mean"] == pytest.approx(max(0.005, 2 * most))
    assert row["difference_from_bf16"]["seed"] == {"mean": 0.1, "largest": 0.1}


def test_a_single_bump_is_seen_too():
    bump = np.zeros(100)
    bump[40] = 0.3  # smoothed over ten steps it is 0.03, and 0.003 on average
    row = same_curve.judge(curves(bump))
    assert row["difference_from_bf16"]["graphed"]["mean"] < row["allowed"]["mean"]
    assert not row["same"]


def test_masks_are_drawn_where_there_are_some_and_rounding_elsewhere():
    with_masks, without = same_curve.ways(0.1), same_curve.ways(0.0)
    for drawn, ways in (("masks", with_masks), ("rounding", without)):
        plain, others = ways["bf16"], [way for name, way in ways.items() if " " in name]
        seeds = {getattr(way, drawn) for way in others}
        assert len(seeds - {getattr(plain, drawn)}) == same_curve.DRAWS
        assert {replace(way, **{drawn: getattr(plain, drawn)}) for way in others} == {plain}
    assert with_masks["graphed"] == replace(with_masks["bf16"], graphed=True)


def test_rounded_weights_are_neighbours_in_half_precision_and_right_on_average():
    model = torch.nn.Linear(300, 300)
    exact = model.weight.detach().clone()
    same_curve.round_weights(model, 2)
    rounded = model.weight.detach()
    assert torch.equal(rounded, rounded.bfloat16().float())
    step = torch.maximum(exact.abs(), rounded.abs()) * 2**-7
    assert ((rounded - exact).abs() <= step).all()
    assert (rounded - exact).mean().abs() < 4 * step.mean() / exact.numel() ** 0.5


# ── time to quality ─────────────────────────────────────────────────────────────────────────────────────────────────

SUMMARY = {"metrics": {"bleu": 41.0}, "step": 900, "best_step": 800, "seconds": 29.4, "compile_seconds": 41.2}
TEST = {"bleu": 39.5, "chrf": 63.1, "signature": "nrefs:1|…", "lines": 1_000}


def test_a_run_is_marked_if_it_took_too_long():
    assert time_to_quality.figures(SUMMARY, TEST, 30) == {
        "seconds": 29.4, "within_budget": True, "compile_seconds": 41.2, "steps": 900, "best_step": 800,
        "dev": {"bleu": 41.0}, "bleu": 39.5, "chrf": 63.1, "signature": "nrefs:1|…",
    }  # fmt: skip
    late = {"budget_s": 30, "seed": 1, **time_to_quality.figures({**SUMMARY, "seconds": 30.1}, TEST, 30)}
    assert not late["within_budget"]
    assert time_to_quality.line(late).endswith("over its time")


def test_means_say_what_failed_and_what_was_late():
    row = {"budget_s": 30, **time_to_quality.figures(SUMMARY, TEST, 30)}
    rows = [row, {**row, "bleu": 40.5, "seconds": 31.0, "within_budget": False}, {"budget_s": 30, "fault": "no memory"}]
    assert list(time_to_quality.means([*rows, {"budget_s": 300, "fault": "no memory"}])) == [
        {
            "budget_s": 30, "runs": 2, "failed": 1, "over_budget": 1, "bleu": 40.0, "bleu_within_budget": 39.5, "lowest": 39.5, "highest": 40.5,
            "seconds": 30.2, "compile_seconds": 41.2,
        }
    ]  # fmt: skip
    (late,) = time_to_quality.means(rows[1:])
    assert late["bleu_within_budget"] is None


CASE = Case("small", ["a.en", "a.de"], ["b.en", "b.de"], ["c.en", "c.de"])


def asked(teachers=0, judges=0):
    return Namespace(
        teachers=teachers, judges=judges, teacher_recipe="small", teacher_set=["train.epochs=9"],
        judge_recipe="small", judge_set=["train.epochs=8"], device="cuda",
    )  # fmt: skip


def trainings(teachers, judges=0):
    options = asked(teachers, judges)
    how = time_to_quality.trainings(CASE, "fast", ["model.dropout=0.2"], 3, options, Path("runs/x"))
    return {str(place): " ".join(words) for place, words in how.items()}


def test_commands_train_with_a_seed_and_evaluate_with_beam_5():
    files = "--train a.en a.de --dev b.en b.de --out"
    student = f"train fast {files} runs/x --set train.seed=3 --set model.dropout=0.2 --device cuda"
    assert trainings(0) == {"runs/x": student}
    assert trainings(2) == {
        "runs/x-teacher1": f"train small {files} runs/x-teacher1 --set train.seed=301 --set train.epochs=9 --device cuda",
        "runs/x-teacher2": f"train small {files} runs/x-teacher2 --set train.seed=302 --set train.epochs=9 --device cuda",
        "runs/x": f"{student} --teacher runs/x-teacher1 runs/x-teacher2",
    }
    evaluate = time_to_quality.to_evaluate(CASE, asked(), Path("runs/x"))
    assert " ".join(evaluate) == "evaluate runs/x --data c.en c.de --beam 5 --json --device cuda"


def test_a_judge_is_trained_backwards_and_asked_in_the_end():
    how = trainings(0, judges=1)
    settings = "--set train.seed=31 --set train.epochs=8 --set data.backwards=true"
    files = "--train a.en a.de --dev b.en b.de --out runs/x-judge1"
    assert how.pop("runs/x-judge1") == f"train small {files} {settings} --device cuda"
    assert how == trainings(0)
    evaluate = time_to_quality.to_evaluate(CASE, asked(judges=1), Path("runs/x"), [Path("runs/x-judge1")])
    assert evaluate[:4] == ["evaluate", "runs/x", "--judge", "runs/x-judge1"]


def test_what_is_judged_is_also_measured_alone(monkeypatch, tmp_path):
    def manyheads(words):
        return json.dumps(TEST if "--judge" in words else {**TEST, "bleu": 38.0})

    def trained(words, place):
        return {**SUMMARY, "seconds": 10.0 if "judge" in place.name else 25.0}

    monkeypatch.setattr(time_to_quality, "manyheads", manyheads)
    monkeypatch.setattr(time_to_quality, "trained", trained)
    options = Namespace(**vars(asked(judges=1)), runs=tmp_path, parallel=1)
    row = time_to_quality.run(CASE, 30, "small", [], 1, options)
    assert (row["bleu"], row["seconds"], row["within_budget"]) == (39.5, 35.0, False)
    assert (row["alone"]["bleu"], row["alone"]["seconds"], row["alone"]["within_budget"]) == (38.0, 25.0, True)
    (mean,) = time_to_quality.means([row, {**row, "alone": {**row["alone"], "bleu": 37.0}}])
    assert (mean["bleu"], mean["bleu_alone"], mean["seconds_alone"]) == (39.5, 37.5, 25.0)


def test_the_time_of_teachers_is_their_students():
    teacher = {**SUMMARY, "seconds": 10.0, "compile_seconds": 1.0, "step": 5}
    assert time_to_quality.together([teacher, SUMMARY]) == {**SUMMARY, "seconds": 39.4, "compile_seconds": 42.2}


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("log", ["xy", "x", ""])
def test_a_plot_is_an_image_with_all_points_within_it(log):
    lines = [Line("a & b", [(64, 1.5), (128, 2.0), (4096, 900.0)]), Line("flat", [(64, 1.5), (128, 1.5)])]
    root = ET.fromstring(draw("cost < time", "length", "ms", lines, log=log))
    circles = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(circles) == 5
    assert all(64 <= float(one.attrib["cx"]) <= 620 and 44 <= float(one.attrib["cy"]) <= 352 for one in circles)
    words = "".join(one.text or "" for one in root.iter() if one.tag.endswith("text"))
    assert "a & b" in words
    assert "cost < time" in words


def test_one_point_can_be_drawn():
    ET.fromstring(draw("one", "x", "y", [Line("one", [(5, 5)])], log="xy"))


def test_a_file_of_results_says_what_it_was_taken_on(tmp_path):
    write_json(tmp_path / "new" / "x.json", setting(torch.device("cpu")))
    text = (tmp_path / "new" / "x.json").read_text()
    assert f'"torch": "{torch.__version__.partition("+")[0]}' in text
    assert all(f'"{key}"' in text for key in ("command", "machine", "date", "versions", "python"))
