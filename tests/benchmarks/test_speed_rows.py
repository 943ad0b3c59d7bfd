"""What the benchmark of training prints and stores, and that all systems have the same work."""

import argparse
import json
import math
from dataclasses import asdict

import pytest
import torch
from benchmarks.train_child import MARIAN, OURS, SIZES, TORCH, Job, build, every_shape, make_work, prepare
from benchmarks.train_gpu import fastest, jobs_of, make_row, table

SYSTEMS = [(OURS, "graphed", ""), (OURS, "eager", ""), (TORCH, "eager", ""), (MARIAN, "eager", "")]


def job(system=OURS, mode="graphed", way="", budgets=(300,), device="cpu"):
    return Job(system, mode, way, "quick", budgets, device, batches=3, shapes=2, lock="")


def measured(seconds):
    return {
        "seconds": seconds, "steps": 10, "tokens": 4_000, "multiply_adds": 2e12, "loss": 9.21034, "peak_memory_gib": 1.5,
    }  # fmt: skip


def test_a_row_is_the_median_round():
    row = make_row(job(device="cuda"), 300, {"compile_seconds": 20.0}, [measured(s) for s in (2.0, 1.0, 1.5)])
    assert row == {
        "system": "manyheads", "mode": "graphed", "size": "quick", "batch_tokens": 300, "target_tokens_per_s": 2667,
        "share_of_peak": round(6 * 2e12 / 1.5 / 790e12, 4), "ms_per_step": 150.0, "tokens_per_step": 400,
        "compile_seconds": 20.0, "peak_memory_gib": 1.5, "loss": 9.2103, "rounds": 3, "spread": 2.0,
    }  # fmt: skip
    json.dumps(row)


def test_of_two_ways_of_compiling_the_faster_counts():
    rows = [
        make_row(job(TORCH, "compiled", way), 300, {}, [measured(seconds)])
        for way, seconds in (("dynamic", 2.0), ("static", 1.0))
    ]
    rows.append(make_row(job(device="cuda"), 300, {}, [measured(0.5)]))
    kept, slower = fastest(rows)
    assert [row.get("way") for row in kept] == ["static", None]
    assert [row.get("way") for row in slower] == ["dynamic"]
    text = list(table(kept))
    assert text[1].endswith("2.00×")
    assert text[2].endswith("1.00×")


def test_what_is_no_graph_is_not_called_one():
    assert make_row(job(), 300, {}, [measured(1.0)])["mode"] == "packed"


def test_a_table_without_ours_has_no_ratios():
    lines = list(table([make_row(job(TORCH, "eager"), 300, {}, [measured(1.0)])]))
    assert lines[1].endswith("–")


def test_what_has_fixed_shapes_has_a_process_for_each_batch_size():
    options = argparse.Namespace(
        tokens=[100, 200], device="cpu", batches=3, shapes=2, ways=["dynamic", "static"]
    )  # fmt: skip
    jobs = list(jobs_of("base", options, "lock"))
    fixed = [one for one in jobs if one.mode == "graphed" or one.way == "static"]
    assert len(jobs) == 11
    assert all(len(one.budgets) == (1 if one in fixed else 2) for one in jobs)
    assert len({one.name for one in jobs}) == len(jobs)
    for one in jobs:
        again = Job(**json.loads(json.dumps(asdict(one))))
        assert again.name == one.name


def test_graphs_that_would_fill_the_memory_are_left_out():
    options = argparse.Namespace(
        tokens=[12_500, 50_000], device="cuda", batches=3, shapes=2, ways=["dynamic", "static"]
    )
    for size, kept in (("base", [12_500, 50_000]), ("big", [12_500])):
        static = [one for one in jobs_of(size, options, "lock") if one.way == "static" and one.system == TORCH]
        assert [one.budgets for one in static] == [(budget,) for budget in kept]


@pytest.mark.parametrize("size", ["quick", "tiny"])
def test_ours_and_pytorchs_have_the_same_parameters_and_marian_two_norms_less(size):
    count = {
        system: sum(p.numel() for p in build(system, SIZES[size]).parameters() if p.requires_grad)
        for system in (OURS, TORCH, MARIAN)
    }
    assert count[OURS] == count[TORCH]
    assert count[MARIAN] == count[OURS] - 2 * 2 * SIZES[size].width


def test_marian_attends_by_sdpa_and_looks_neither_ahead_nor_at_padding():
    model = build(MARIAN, SIZES["quick"]).eval()
    assert model.body.config._attn_implementation == "sdpa"
    source, target = torch.randint(3, 200, (2, 2, 6)).unbind()
    longer = torch.cat([source, torch.zeros(2, 3, dtype=torch.long)], 1)
    other = target.clone()
    other[:, 4:] = 7
    torch.testing.assert_close(model(source, target), model(longer, target))
    torch.testing.assert_close(model(source, target)[:, :4], model(source, other)[:, :4])


def test_marian_in_one_graph_still_trains_its_layers():
    model = build(MARIAN, SIZES["quick"]).train().whole_graph()
    stacks = model.body.model.encoder, model.body.model.decoder
    assert not any(stack.training for stack in stacks)
    assert all(layer.training for stack in stacks for layer in stack.layers)


@pytest.mark.parametrize(("system", "mode", "way"), [*SYSTEMS, (TORCH, "compiled", "static")])
def test_every_system_gets_batches_of_about_the_size_that_was_asked_for(system, mode, way):
    work = make_work(job(system, mode, way), 300, torch.device("cpu"))
    assert 1 <= len(work.batches) <= 4
    assert 0.7 * 300 <= work.tokens / len(work.batches) <= 1.3 * 300
    assert sum(batch.count for batch in work.batches) == work.tokens


@pytest.mark.parametrize(("system", "mode", "way"), SYSTEMS)
def test_a_system_gets_ready_and_is_measured(system, mode, way, tmp_path):
    given = job(system, mode, way)
    ready, measure = prepare(Job(**{**asdict(given), "lock": str(tmp_path / "lock")}))
    first, second = measure("measure 300"), measure("measure 300")
    assert ready["compile_seconds"] == 0
    assert first["tokens"] == second["tokens"] > 300
    assert first["loss"] == pytest.approx(math.log(SIZES["quick"].words), abs=1)  # all words are random
    assert first["loss"] != second["loss"]  # it learns


def test_warming_up_meets_every_shape_and_begins_with_sides_of_two_lengths():
    work = make_work(job(TORCH, "compiled", "dynamic"), 300, torch.device("cpu"))
    batches = every_shape(work.batches, times=2)
    shapes = {(*batch.source.shape, *batch.target.shape) for batch in work.batches}
    assert len(batches) == 2 * len(shapes)
    assert batches[0] is batches[1]
