"""Sequences on disk are the sequences that were written; rows of a batch are filled up as a loop would."""

from array import array
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyheads.text.shards import Sequences, join_sequences, sequence_writer

IDS = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=6), max_size=8)


def store(folder, sequences, vocabulary=2**16):
    with sequence_writer(Path(folder) / "train.source", vocabulary) as write:
        for start in range(0, len(sequences), 3):
            write([array("i", ids).tobytes() for ids in sequences[start : start + 3]])
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


@given(IDS, st.data(), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_padded_rows_against_a_loop(tmp_path_factory, sequences, data, before, after):
    stored = store(tmp_path_factory.getbasetemp(), sequences)
    rows = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=9)) if sequences else []
    around = [[before] * (before is not None) + sequences[row] + [after] * (after is not None) for row in rows]
    expected = [row + [0] * (max(map(len, around)) - len(row)) for row in around]
    found = stored.rows(np.array(rows, np.int64)).padded(before, after)
    assert found.tolist() == expected
    assert found.dtype == np.int64


@given(st.lists(IDS, min_size=1, max_size=4))
def test_joined_parts_are_as_if_written_at_once(tmp_path_factory, parts):
    folder = tmp_path_factory.getbasetemp()
    names = [folder / f"{n}.train" for n in range(len(parts))]
    for name, sequences in zip(names, parts, strict=True):
        with sequence_writer(name, 2**16) as write:
            write([array("i", ids).tobytes() for ids in sequences])
    join_sequences(folder / "joined", names)
    joined = Sequences(folder / "joined", 2**16)
    assert [list(joined[row]) for row in range(len(joined))] == [ids for sequences in parts for ids in sequences]
    assert not any(folder.glob("*.train.*"))
