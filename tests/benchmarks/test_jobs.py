"""Commands that need what others make: in order, several at a time, until time is up."""

import sys

import pytest
from benchmarks.jobs import Job, work

from benchmarks import jobs as module

PROGRAM = """
import pathlib, sys, time
*_, place, seconds, status = sys.argv
with open(place, "a") as file: file.write(f"{sys.argv[-4]} begins\\n")
print("at work", flush=True)
time.sleep(float(seconds))
with open(place, "a") as file: file.write(f"{sys.argv[-4]} ends\\n")
sys.exit(int(status))
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Makes jobs that take so many seconds and end with such a status; what they do stands in `story`."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    start = module.subprocess.Popen
    monkeypatch.setattr(
        module.subprocess, "Popen", lambda words, **how: start([sys.executable, program, *words[3:]], **how)
    )

    def make(name, seconds=0.0, status=0, **more):
        return Job(name, [name, str(tmp_path / "story"), str(seconds), str(status)], **more)

    return make


def story(tmp_path):
    return (tmp_path / "story").read_text().splitlines()


def test_who_needs_something_waits_for_it(job, tmp_path, capsys):
    ready = []
    jobs = [job("b", needs=("a",)), job("a", 0.5, ready=lambda: ready.append("a"))]
    assert work(jobs, tmp_path / "logs") == {"a": "done", "b": "done"}
    assert story(tmp_path) == ["a begins", "a ends", "b begins", "b ends"]
    assert ready == ["a"]
    assert "a: ended with 0\n    at work" in capsys.readouterr().out


def test_no_more_than_are_allowed_work_at_a_time(job, tmp_path):
    assert set(work([job(name, 0.2) for name in "abc"], tmp_path / "logs", most=1).values()) == {"done"}
    assert story(tmp_path) == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


def test_who_fails_stops_only_who_needs_it(job, tmp_path):
    jobs = [job("a", status=3), job("b", needs=("a",)), job("c", 0.5)]
    assert work(jobs, tmp_path / "logs") == {"a": "failed", "b": "left", "c": "done"}


def test_what_is_done_is_not_done_again(job, tmp_path):
    assert work([job("a"), job("b", needs=("a",))], tmp_path / "logs", done={"a"}) == {"a": "done", "b": "done"}
    assert story(tmp_path) == ["b begins", "b ends"]


def test_when_time_is_up_all_are_told_to_stop(job, tmp_path):
    jobs = [job("a", 600), job("b", 600, needs=("a",))]
    assert work(jobs, tmp_path / "logs", seconds=3.0) == {"a": "stopped", "b": "left"}
    assert story(tmp_path) == ["a begins"]
    assert (tmp_path / "logs" / "a.log").read_text() == "at work\n"
