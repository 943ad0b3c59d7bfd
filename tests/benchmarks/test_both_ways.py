"""Pronouncers of both directions: which are trained, who searches and who judges, and what stands in the file."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from benchmarks.quality import Case

from benchmarks import both_ways

CASE = Case("pronounce", ["train.tsv"], ["dev.tsv"], ["test.tsv"])


@pytest.fixture
def options(tmp_path):
    return Namespace(
        runs=tmp_path, recipe="pronounce", set=["train.epochs=3"], beam=6, device="cpu", quick=False,
        each=1, pieces=0, precision="bf16",
    )  # fmt: skip


def test_directions_differ_in_nothing_else(options):
    forth, back = (" ".join(both_ways.to_train(name, CASE, options)) for name in ("forth2", "back2"))
    assert (
        f"--out {options.runs}/forth2 --resume --device cpu --set train.validate_every=100000 --set train.seed=2 "
        in forth
    )
    assert forth.endswith("--set train.epochs=3")
    assert back.replace("back2", "forth2").replace(" --set data.backwards=true", "") == forth


def test_who_reads_pieces_differs_in_that(options):
    one, other = (" ".join(both_ways.to_train(name, CASE, options)) for name in ("back2", "back-pieces2"))
    pieces = " --set data.tokenizer=bpe --set data.vocabulary=400"
    assert other.replace("back-pieces2", "back2").replace(pieces, "") == one
    options.each, options.pieces = 2, 1
    jobs = [job.name for job in both_ways.jobs_of(options)]
    assert jobs == ["forth1", "back1", "forth-pieces1", "back-pieces1", "forth2", "back2"]
    systems = {one.name: one for one in both_ways.systems_of(2, 1)}
    assert systems["forwards, reads pieces, seed 1"].writers == ("forth-pieces1",)
    both = systems["2 each way, 1 each way of pieces"]
    assert (both.writers, both.judges) == (("forth1", "forth2"), ("back1", "back2", "forth-pieces1", "back-pieces1"))
    assert systems["1 each way, 1 each way of pieces"].judges == ("back1", "forth-pieces1", "back-pieces1")


def test_what_is_kept_is_not_learnt_again(options, monkeypatch):
    (options.runs / "kept" / "forth1").mkdir(parents=True)
    asked = {}
    monkeypatch.setattr(both_ways, "work", lambda jobs, logs, **how: asked.update(how) or {"back1": "stopped"})
    options.seconds, options.most = 3.0, 2
    with pytest.raises(SystemExit, match="back1: stopped"):
        both_ways.learn(list(both_ways.jobs_of(options)), options)
    assert asked == {"seconds": 3.0, "most": 2, "done": {"forth1"}}


def test_as_many_judge_as_write():
    systems = {one.name: one for one in both_ways.systems_of(2)}
    assert systems["forwards, seed 2"].writers == ("forth2",)
    assert systems["2 backwards, as one"].writers == ("back1", "back2")
    assert (systems["1 each way"].writers, systems["1 each way"].judges) == (("forth1",), ("back1",))
    assert both_ways.all_of(systems["2 each way"]) == ("forth1", "forth2", "back1", "back2")
    assert [one.name for one in both_ways.systems_of(1)] == ["forwards, seed 1", "backwards, seed 1", "1 each way"]


def test_a_row_has_its_commands_and_what_all_its_models_took(options, monkeypatch):
    asked = []

    def manyheads(words):
        asked.append(words)
        return json.dumps({"wer": 20.0, "per": 5.0, "lines": 3, "seconds": 1.0, "bleu": 80.0})

    monkeypatch.setattr(both_ways, "manyheads", manyheads)
    for name in ("forth1", "forth2", "back1", "back2"):
        (options.runs / "kept" / name).mkdir(parents=True)
        (options.runs / "kept" / f"{name}.summary.json").write_text(json.dumps({"seconds": 10.5, "compile_seconds": 2}))
    (*_, both) = both_ways.systems_of(2)
    row = both_ways.measure(both, CASE, options)
    runs = Path(options.runs) / "kept"
    assert asked[1] == [
        "evaluate", f"{runs}/forth1", "--with", f"{runs}/forth2", "--judge", f"{runs}/back1", f"{runs}/back2",
        "--data", "test.tsv", "--beam", "6", "--json", "--device", "cpu", "--precision", "bf16",
    ]  # fmt: skip
    assert row["system"] == "2 each way"
    assert row["training"] == {"seconds": 42.0, "compile_seconds": 8}
    assert row["dev"] == row["test"] == {"wer": 20.0, "per": 5.0, "lines": 3, "seconds": 1.0}
    assert row["commands"]["test"].startswith("manyheads evaluate")
