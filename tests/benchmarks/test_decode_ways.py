"""Of the ways to be compared with, the fastest counts, and one that fails is named."""

import pytest
from benchmarks.decode_gpu import OURS, figures, measure

from benchmarks import decode_gpu


def test_the_faster_way_counts_and_the_other_is_given_too():
    seconds = {OURS: [1.0, 1.0, 2.0], "eager generate": [9.0, 8.0, 7.0], "static cache": [4.0, 5.0, 3.0]}
    outputs = {OURS: [[3, 4], [5]], "eager generate": [[3], [5]], "static cache": [[3, 4], [6]]}
    row = figures(seconds, outputs, dict.fromkeys(seconds, 10.0))
    assert (row["theirs"], row["theirs_s"], row["ratio"], row["worst_ratio"]) == ("static cache", 4.0, 4.0, 1.5)
    assert (row["identical"], row["ours_tokens_s"]) == (0.5, 5.0)
    assert row["all_theirs_s"] == {"eager generate": 8.0, "static cache": 4.0}


def test_a_way_that_fails_is_named_and_ours_may_not():
    def fails(source, limit):
        raise RuntimeError("no graph")

    def works(source, limit):
        return [[3]]

    row = measure(works, {"eager generate": works, "static cache": fails}, [([[4]], 5)], rounds=2)
    assert row["theirs"] == "eager generate"
    assert row["faults"] == {"static cache": "RuntimeError: no graph"}
    with pytest.raises(RuntimeError, match="no graph"):
        measure(fails, {"eager generate": works}, [([[4]], 5)], rounds=2)


def test_a_table_has_a_line_for_each_row(capsys):
    row = figures(
        {OURS: [1.0], "eager generate": [9.0]}, {OURS: [[3]], "eager generate": [[3]]}, {OURS: 1, "eager generate": 2}
    )
    decode_gpu.show([{"precision": "fp32", "batch": 1, "beam": 5, **row}])
    head, line = capsys.readouterr().out.splitlines()
    assert len(head) == len(line)
    assert "eager generate" in line
