"""Sequences on disk are the sequences that were written; rows of a batch are filled up as a loop would."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.text.shards import Sequences, sequence_writer

IDS = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=6), max_size=8)


def store(folder, sequences, vocabulary=2**16):
    with sequence_writer(Path(folder) / "train.source", vocabulary) as write:
        for start in range(0, len(sequences), 3):
            write(sequences[start : start + 3])
    return Sequences(Path(folder) / "train.source", vocabulary)


@given(IDS)
def test_what_was_written_is_read(tmp_path_factory, sequences):
    stored = store(tmp_path_factory.getbasetemp(), sequences)
    assert [list(stored[row]) for row in range(len(stored))] == sequences
    assert list(stored.lengths) == list(map(len, sequences))


def test_two_bytes_an_id_as_long_as_they_are_enough(tmp_path):
    small = store(tmp_path, [[0, 2**16 - 1]], vocabulary=2**16)
    assert (list(small[0]), small.ids.itemsize) == ([0, 2**16 - 1], 2)
    large = store(tmp_path, [[0, 2**16]], vocabulary=2**16 + 1)
    assert (list(large[0]), large.ids.itemsize) == ([0, 2**16], 4)
    with pytest.raises(OverflowError):
        store(tmp_path, [[2**16]], vocabulary=2**16)


@given(IDS, st.data(), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_padded_rows_against_a_loop(tmp_path_factory, sequences, data, before, after):
    stored = store(tmp_path_factory.getbasetemp(), sequences)
    rows = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=9)) if sequences else []
    around = [[before] * (before is not None) + sequences[row] + [after] * (after is not None) for row in rows]
    expected = [row + [0] * (max(map(len, around)) - len(row)) for row in around]
    found = stored.rows(np.array(rows, np.int64)).padded(before, after)
    assert found.tolist() == expected
    assert found.dtype == np.int64
