"""What the comparison of models that write at once counts, joins, times and draws."""

import argparse
import json
from xml.etree import ElementTree as ET

import pytest
import torch
from benchmarks.at_once import (
    System,
    draw_results,
    in_turns,
    joined,
    measure_times,
    quality,
    ratios,
    repetitions,
    spread,
    table,
)

from benchmarks import at_once


class Echo:
    """A translator that says what it hears, and remembers how it was asked."""

    class Said:
        def __init__(self, text):
            self.text = text

    def __init__(self):
        self.asked = []
        self.device = torch.device("cpu")
        self.single = torch.nn.Module()

    def search(self, **options):
        return options

    def translate(self, lines, search):
        self.asked.append((list(lines), search))
        return map(Echo.Said, lines)


def test_a_repetition_is_a_word_that_was_the_word_before():
    assert repetitions(["a a b a", "c", "b b b b b"]) == pytest.approx(100 * (1 + 4) / 10)
    assert repetitions(["a", "a"]) == 0
    assert repetitions([""]) == 0


def test_sentences_are_joined_until_they_have_thirty_words():
    lines = ["w " * 10 + "x", "y " * 29, "z"] * 4
    long = joined(lines, 3)
    assert len(long) == 3
    assert all(len(line.split()) == 40 for line in long[:1])
    assert all(len(line.split()) >= 30 for line in long)


def test_sentences_are_taken_from_all_over_the_set():
    assert spread(list("abcdefghi"), 3) == ["a", "d", "g"]
    assert spread(list("ab"), 3) == ["a", "b"]


def test_all_have_turns_and_are_timed_from_the_third_on(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(at_once.time, "perf_counter", lambda: next(clock) ** 2)
    turns = []
    seconds = in_turns(["a", "b"], turns.append, 3, before=2)
    assert turns == ["a", "b"] * 5
    # The clock is asked once by each of the four works before; then twice by each. In the middle of three turns it says 8, 9 and 10, 11.
    assert seconds == [9**2 - 8**2, 11**2 - 10**2]


def test_a_row_has_scores_times_and_ratios(tmp_path):
    translator = Echo()
    systems = [System("token by token", "greedy", translator, {"beam": 1}), System("masks", "2 iterations", translator, {"iterations": 2})]  # fmt: skip
    pairs = [(f"one two three four five six seven eight nine ten {n}",) * 2 for n in range(9)]
    rows = [quality(system, pairs) for system in systems]
    assert rows[0]["bleu"] == pytest.approx(100)
    assert translator.asked[-1][1] == {"iterations": 2, "batch": 64}
    options = argparse.Namespace(sentences=3, rounds=1, batched=4)
    for row, times in zip(rows, measure_times(systems, [source for source, _ in pairs], options), strict=True):
        row |= times
    assert len(translator.asked[-1][0]) == 4
    assert all(row[key] > 0 for row in rows for key in ("latency_ms", "long_latency_ms", "sentences_s"))
    assert ([pairs[0][0]], {"iterations": 2, "batch": 1}) in translator.asked
    rows[0] |= {"long_latency_ms": 30.0, "latency_ms": 6.0, "sentences_s": 5.0}
    rows[1] |= {"long_latency_ms": 10.0, "latency_ms": 12.0, "sentences_s": 20.0}
    assert ratios(rows[1], rows) == {
        "latency_against_greedy": 0.5, "long_latency_against_greedy": 3.0, "throughput_against_greedy": 4.0
    }  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps({"corpus": "C", "machine": "M", "rows": rows}))
    draw_results(tmp_path / "x.json")
    root = ET.fromstring((tmp_path / "x.svg").read_text())
    assert len([one for one in root.iter() if one.tag.endswith("circle")]) == 2
    words = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert "greedy" in words
    assert "2" in words


def test_a_table_of_two_machines(tmp_path):
    def wrote(name, *rows):
        keys = ("system", "how", "bleu", "repetitions", "long_latency_ms", "sentences_s")
        (tmp_path / name).write_text(json.dumps({"rows": [dict(zip(keys, row, strict=True)) for row in rows]}))
        return tmp_path / name

    slow = wrote(
        "cpu.json",
        ("graph, from the teacher", "1 pass", 40.25, 0.31, 1234.5, 12.3),
        ("end", "2 iterations", 3, 0, 7, 8),
    )
    fast = wrote("gpu.json", ("graph, from the teacher", "1 pass", 40.9, 0.3, 4.84, 10_167.2))
    assert table(slow, fast) == [
        "| graph, 1 pass | 40.2 | 0.3 | 1,234 | 12 | 4.8 | 10,167 |",
        "| end, 2 iterations | 3.0 | 0.0 | 7.0 | 8 | – | – |",
    ]
