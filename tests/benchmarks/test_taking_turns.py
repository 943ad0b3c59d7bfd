"""Processes that get ready together and are measured one at a time: with children that only pretend."""

import os
import signal
import sys
import time
from itertools import pairwise

from benchmarks.turns import Child, warm_up

CHILD = """
import os, sys, time
from benchmarks.turns import serve
def prepare():
    print("what libraries print")
    {before}
    return {{"compile_seconds": 1.5}}, measure
def measure(words):
    print("and print again", flush=True)
    {during}
    return {{"words": words, "began": time.monotonic(), "ended": time.monotonic()}}
serve(prepare)
"""


def start(folder, before="pass", during="pass", name="child"):
    return Child([sys.executable, "-c", CHILD.format(before=before, during=during)], folder / f"{name}.log")


def finish(*children):
    for child in children:
        child.end()
        assert child.process.poll() is not None


def test_a_child_says_that_it_is_ready_and_answers_what_it_is_asked(tmp_path):
    child = start(tmp_path)
    assert warm_up([child], 30) == [{"event": "ready", "compile_seconds": 1.5}]
    answers = [child.ask(f"measure {n}", 30) for n in (12_500, 50_000)]
    assert [answer["words"] for answer in answers if answer] == ["measure 12500", "measure 50000"]
    assert child.fault is None
    finish(child)
    assert "what libraries print" in child.log.read_text()


def test_only_one_measures_at_a_time(tmp_path):
    children = [start(tmp_path, name=str(n)) for n in range(2)]
    warm_up(children, 30)
    answers = [child.ask("measure", 30) for _ in range(2) for child in children]
    finish(*children)
    spans = [(answer["began"], answer["ended"]) for answer in answers if answer]
    assert len(spans) == 4
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_one_that_fails_or_dies_or_is_late_is_out_and_the_others_go_on(tmp_path):
    failing = start(tmp_path, before="raise RuntimeError('no kernel\\nfor this')", name="failing")
    dying = start(tmp_path, before="sys.stderr.write('killed by me\\n'); sys.stderr.flush(); os._exit(9)", name="dying")
    late = start(tmp_path, before="time.sleep(60)", name="late")
    well = start(tmp_path, name="well")
    ready = warm_up([failing, dying, well], 30)
    assert [answer is None for answer in ready] == [True, True, False]
    assert failing.fault == "warm-up: RuntimeError: no kernel"
    assert dying.fault == "warm-up: it ended with 9: killed by me"
    assert warm_up([late], 0.1) == [None]
    assert late.fault == "warm-up: no answer within its time"
    assert [child.ask("measure", 30) for child in (failing, dying, late)] == [None] * 3
    assert well.ask("measure", 30)
    finish(failing, dying, late, well)


def test_one_that_fails_while_it_measures_is_out(tmp_path):
    child = start(tmp_path, during="raise ValueError(words)")
    assert warm_up([child], 30)[0]
    assert child.ask("measure 3", 30) is None
    assert child.fault == "measure 3: ValueError: measure 3"
    finish(child)


def test_what_a_child_started_ends_with_it(tmp_path):
    note = tmp_path / "pid"
    begin = f"import subprocess; open({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    child = start(tmp_path, before=begin)
    assert warm_up([child], 30)[0]
    pid = int(note.read_text())
    child.end()
    assert not alive(pid)


def test_a_child_ends_when_its_parent_closes_the_pipe(tmp_path):
    child = start(tmp_path)
    assert warm_up([child], 30)[0]
    assert child.process.stdin
    child.process.stdin.close()
    assert child.process.wait(30) == 0
    finish(child)


def alive(pid):
    """A process that was killed may be there for a moment, until someone has asked how it ended."""
    for _ in range(50):
        try:
            os.kill(pid, signal.SIG_DFL)
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return False
        except (ProcessLookupError, FileNotFoundError):
            return False
        time.sleep(0.1)
    return True
