"""A corpus made ready: the right pairs as ids, the rest counted, and a changed file noticed."""

import os
import re
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from manyheads.errors import InputError, SaveError, TrainingError
from manyheads.text.corpus import check_paths
from manyheads.text.encoding import run_all
from manyheads.text.parallel import (
    IDS,
    fingerprint,
    forget_ids,
    is_prepared,
    open_parallel,
    prepare_parallel,
    read_ready,
)
from manyheads.text.vocabulary import train_vocabulary
from noise import make_noisy, patience

learn_from = partial(train_vocabulary, ("characters", "symbols"), size=300, joint=False)
VOCABULARY = learn_from(lambda: ["wort"], lambda: ["word"])


def learn(spool):
    return learn_from(spool.sources, spool.targets)


def lines(count, start=0):
    return "".join(f"wort{n}\tword {n}\n" for n in range(start, start + count))


@pytest.fixture
def write(tmp_path):
    def write(text, name="train.tsv"):
        (tmp_path / name).write_text(text, newline="")
        return str(tmp_path / name)

    return write


def prepare(folder, train, dev=None, max_length=50):
    corpora = (check_paths(train, "--train"), dev and check_paths(dev, "--dev"))
    vocabulary = prepare_parallel(folder, *corpora, learn, max_length)
    data = open_parallel(folder, vocabulary)
    pairs = [
        (vocabulary.source.decode(data.sources[row]), vocabulary.target.decode(data.targets[row]))
        for row in range(len(data.sources))
    ]
    assert len(data.targets) == len(pairs)
    return data, pairs


def as_pairs(text):
    return [tuple(line.split("\t")) for line in text.splitlines()]


def test_with_a_development_set(tmp_path, write):
    folder = tmp_path / "run" / "data"
    data, pairs = prepare(folder, [write(lines(30))], [write(lines(3, 90) + "\tx\n", "dev.tsv")])
    assert pairs == as_pairs(lines(30))
    assert data.dev == as_pairs(lines(3, 90))
    assert (data.train_counts.pairs, data.dev_counts.pairs, data.dev_counts.blank) == (30, 3, 1)
    assert not data.held_out
    assert sorted(path.name for path in folder.iterdir()) == ["dev.source.txt", "dev.target.txt", "ready.json", *IDS]


@pytest.mark.parametrize(("count", "least", "most"), [(2, 1, 1), (20, 1, 4), (200, 4, 18), (25_000, 880, 1_120)])
def test_held_out_pairs_are_not_trained_on_and_counted(tmp_path, write, count, least, most):
    data, pairs = prepare(tmp_path / "data", [write(lines(count))])
    assert data.held_out
    assert least <= len(data.dev) == data.dev_counts.pairs <= most
    assert len(pairs) == data.train_counts.pairs == count - len(data.dev)
    assert sorted(pairs + data.dev) == sorted(as_pairs(lines(count)))


def test_pairs_of_the_development_set_in_the_training_set_are_counted_and_kept(tmp_path, write):
    train, dev = lines(20) + "wort3\tanother\n", lines(3, 5) + lines(1, 90)
    data, pairs = prepare(tmp_path / "data", [write(train)], [write(dev, "dev.tsv")])
    assert (len(pairs), data.train_counts.in_dev) == (21, 3)
    assert any("3 also in the development set" in sentence for sentence in data.train_counts.sentences())


def test_a_source_is_held_out_with_all_its_targets(tmp_path, write):
    twice = lines(200) + lines(200).replace("\t", "\tagain ")
    data, pairs = prepare(tmp_path / "data", [write(twice)])
    assert data.dev
    assert not {source for source, _ in data.dev} & {source for source, _ in pairs}
    assert len(data.dev) % 2 == 0


def test_nothing_can_be_held_out_of_one_pair(tmp_path, write):
    with pytest.raises(InputError, match="at least two pairs if some are to be held out, got 1") as error:
        prepare(tmp_path / "data", [write("a\tx\n\ty\n")])
    assert error.value.hint == "--dev names a development set"


def test_odd_characters_go_through_the_spool(tmp_path, write):
    text = "a\u2028b\r\tx\x85y\nc\x0bd\x1ce\t 12 \n7 f\tz\r\r\n"
    _, pairs = prepare(tmp_path / "data", [write(text)], [write(lines(1), "dev.tsv")])
    assert pairs == [("a\u2028b\r", "x\x85y"), ("c\x0bd\x1ce", " 12 "), ("7 f", "z\r")]
    data, _ = prepare(tmp_path / "data", [write(lines(1))], [write(text, "dev.tsv")])
    assert data.dev == [("a\u2028b\r", "x\x85y"), ("c\x0bd\x1ce", " 12 "), ("7 f", "z\r")]


def test_pairs_that_are_too_long_are_counted_with_the_line_of_the_first(tmp_path, write):
    text = "\t\nshort\ta\nmuch too long\ta\nshort\ta b c d e f g h i j k\ntenletters\tb\n"
    data, pairs = prepare(tmp_path / "data", [write(text)], [write(lines(1), "dev.tsv")], max_length=10)
    assert pairs == [("short", "a"), ("tenletters", "b")]
    assert (data.train_counts.pairs, data.train_counts.blank, data.train_counts.too_long) == (2, 1, 2)
    place = tmp_path / "train.tsv"
    assert data.train_counts.examples == {"blank": f"{place}, line 1", "too_long": f"{place}, line 3"}


def test_nothing_left_to_train_on(tmp_path, write):
    with pytest.raises(InputError) as error:
        prepare(tmp_path / "data", [write(lines(5))], [write(lines(1), "dev.tsv")], max_length=2)
    assert "there must be a pair to train on, got none in " in error.value.message
    assert re.search(r"5 too long, left out \(the first: .*train.tsv, line 1\)", error.value.message)
    assert not is_prepared(tmp_path / "data")


def test_what_fails_leaves_no_copy_of_the_corpus(tmp_path, write):
    for train, max_length in ((lines(5), 2), ("a\tb\n", 50)):
        with pytest.raises(InputError):
            prepare(tmp_path / "data", [write(train)], max_length=max_length)
        assert not any((tmp_path / "data").glob("spool*"))


def test_nothing_left_to_be_judged_by(tmp_path, write):
    with pytest.raises(InputError, match=r"there must be a pair to score, got none in .*dev.tsv: 1 blank on one side"):
        prepare(tmp_path / "data", [write(lines(5))], [write("\tx\n", "dev.tsv")])


def test_a_pipe_is_read_once(tmp_path, write):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    thread = threading.Thread(target=Path(pipe).write_text, args=[lines(40)])
    thread.start()
    data, pairs = prepare(tmp_path / "data", [pipe])
    thread.join()
    assert len(pairs) + len(data.dev) == 40
    assert read_ready(tmp_path / "data")["files"] == {"train": [None], "dev": []}


def test_every_pair_knows_its_line(tmp_path, write):
    """Though some before it are blank, too long, or held out; in two files, and one of them twice."""
    one = f"\t\n{lines(40)}{'long ' * 60}\tx\n{lines(5, 50)}a\t\n{lines(30, 60)}"
    train = [write(one), write(lines(9, 200), "b.tsv"), write(one)]
    data, texts_of = prepare(tmp_path / "data", train)
    texts = {path: Path(path).read_bytes().split(b"\n") for path in train}
    pairs = np.arange(len(data.sources))
    for pair, expected in zip(pairs, texts_of, strict=True):
        ((path, (line,)),) = data.places(pairs[[pair]]).items()
        assert tuple(texts[path][line - 1].decode().split("\t")) == expected
    found = data.places(np.random.default_rng(0).permutation(pairs))
    assert list(found) == [train[0], train[1]]
    assert all(numbers == sorted(set(numbers)) for numbers in found.values())
    assert found[train[1]] != []
    assert sum(map(len, found.values())) < len(pairs)  # the lines of a file that is there twice are the same
    assert data.places(pairs[:0]) == {}


def test_a_fingerprint_notices_a_new_line_and_a_changed_letter(tmp_path, write):
    path = write(lines(30))
    before = fingerprint({"train": check_paths(path, "--train")})
    for text, same in [(lines(30), True), (lines(31), False), (lines(30).replace("word 7\n", "word 8\n"), False)]:
        write(text)
        assert (fingerprint({"train": check_paths(path, "--train")}) == before) == same


def test_ids_can_be_made_again(tmp_path, write):
    folder, train = tmp_path / "data", [write(lines(30))]
    _, before = prepare(folder, train)
    assert is_prepared(folder)
    forget_ids(folder)
    assert not is_prepared(folder)
    assert read_ready(folder)["train"]["pairs"] == len(before)
    assert prepare(folder, train)[1] == before


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("call", range(27))
def test_ids_are_all_there_or_not_at_all(tmp_path, write, monkeypatch, call):
    """Killed at any rename, sync or removal, also while ids are made again: what says "prepared" is whole."""
    folder, train = tmp_path / "data", [write(lines(30))]
    for again in (False, True):
        with monkeypatch.context() as patch:
            left = [call]
            for name in ("replace", "fsync", "unlink"):
                patch.setattr(os, name, killing(getattr(os, name), left))
            with suppress(Killed):
                prepare_parallel(folder, check_paths(train, "--train"), None, learn, 50)
        assert read_ready(folder) or not again  # what the data was is known from the first time on
        if is_prepared(folder):
            assert len(open_parallel(folder, VOCABULARY).sources) == 28
        assert len(prepare(folder, train)[1]) == 28


def killing(function, left):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return function(*arguments, **options)

    return call


def test_a_disk_that_is_full_is_an_error_for_people(tmp_path, write, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match="data could not be saved: No space left on device") as error:
        prepare(tmp_path / "data", [write(lines(30))])
    assert "make room" in error.value.hint


@pytest.fixture
def many_processes(monkeypatch):
    monkeypatch.setattr("manyheads.text.spool.BLOCK", 3)
    monkeypatch.setattr("manyheads.text.encoding.WORTH_A_PROCESS", 2)
    monkeypatch.setattr("manyheads.text.encoding.cores", lambda: 3)


def test_several_processes_make_the_same_ids(tmp_path, write, many_processes, monkeypatch):
    files = [
        write(lines(40) + "much too long for this\tx\n" + lines(9, 40), "a.tsv"),
        write("x" * 99 + "\ty\n" + lines(12, 60), "b.tsv"),
    ]
    ran = []
    (tmp_path / "tokenizers.py").write_text("open('code-was-run', 'w')")  # where we happen to be
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manyheads.text.encoding.run_all", lambda work: ran.append(len(work)) or run_all(work))
    shared, pairs = prepare(tmp_path / "shared", files, max_length=12)
    assert ran == [3]
    monkeypatch.undo()
    assert not (tmp_path / "code-was-run").exists()
    alone, expected = prepare(tmp_path / "alone", files, max_length=12)
    assert pairs == expected
    assert shared.corpora == alone.corpora
    assert shared.train_counts == alone.train_counts
    assert (shared.train_counts.too_long, shared.train_counts.examples["too_long"][-7:]) == (2, "line 41")
    for name in IDS:
        assert (tmp_path / "shared" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_a_process_that_dies_or_finds_the_disk_full_fails_the_whole(tmp_path, write, many_processes, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(TrainingError, match="a process that cut sentences into pieces ended with 1"):
        prepare(tmp_path / "data", [write(lines(40))])
    full = tmp_path / "full"
    full.write_text("""#!/bin/sh\necho '{"errno": 28, "strerror": "No space left on device"}'\n""")
    full.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(full))
    with pytest.raises(SaveError, match="No space left on device"):
        prepare(tmp_path / "data", [write(lines(40))])
    monkeypatch.undo()
    assert prepare(tmp_path / "data", [write(lines(40))])[1]
    assert not any((tmp_path / "data").glob("spool*"))


def test_processes_that_say_much_are_not_stopped_by_it(tmp_path, write, many_processes, monkeypatch):
    _, expected = prepare(tmp_path / "quiet", [write(lines(40))])
    make_noisy(tmp_path, monkeypatch)
    with patience(60):
        assert prepare(tmp_path / "noisy", [write(lines(40))])[1] == expected
