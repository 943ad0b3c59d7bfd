"""A corpus is refused for what makes it unusable, all of it at once; single bad lines are counted."""

from pathlib import Path

import pytest

from manyheads.errors import InputError, OptionError
from manyheads.text.corpus import Corpus, Counts, check_paths, read_every_pair, read_pairs
from manyheads.text.lines import MAX_LINE


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, content in files.items():
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(files)

    return write


def read(paths, reader=read_pairs):
    counts = Counts()
    return list(reader(Corpus(tuple(paths)), counts)), counts


def refusal(paths):
    with pytest.raises(InputError) as error:
        read(paths)
    return error.value


@pytest.mark.parametrize(
    "files",
    [
        {"tsv": "a\tx\nb\ty\n"},
        {"tsv": "a\tx\r\nb\ty"},
        {"de": "a\nb\n", "en": "x\ny\n"},
        {"de": "a\nb", "en": "x\r\ny\r\n"},
        {"de": "\ufeffa\nb\n", "en": "x\ny"},
    ],
)
def test_pairs(write, files):
    pairs, counts = read(write(**files))
    assert pairs == [(1, ("a", "x")), (2, ("b", "y"))]
    assert counts == Counts(pairs=2)
    assert counts.sentences() == []


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_a_separator_of_another_kind_shifts_nothing(write, separator):
    pairs, _ = read(write(de=f"a{separator}a\nb\n", en="x\ny\n"))
    assert pairs == [(1, (f"a{separator}a", "x")), (2, ("b", "y"))]


@pytest.mark.parametrize(
    ("de", "en", "counts"),
    [("a\nb\n", "x\n", "2 in de and 1 in en"), ("a\n", "x\ny", "1 in de and 2 in en"), ("", "x", "0 in de and 1 in en"),
     ("a\n" * 1234, "x\n" * 1233 + "\n\n", "1,234 in de and 1,235 in en")],
)  # fmt: skip
def test_files_of_unequal_length_are_refused_with_both_counts(write, de, en, counts):
    error = refusal(write(de=de, en=en))
    assert error.message == f"source and target must have the same number of lines, got {counts}"
    assert "find it before you cut" in error.hint


def test_a_line_that_is_not_utf8(write):
    error = refusal(write(de="a\nb\n", en=b"x\nabc\xe9\n"))
    assert error.message == "a text must be UTF-8, got en, line 2: byte 0xe9 at column 4"
    assert "WINDOWS-1252" in error.hint
    assert refusal(write(tsv=b"a\tx\nb\t\xff\n")).message.endswith("tsv, line 2: byte 0xff at column 3")


def test_all_faults_at_once_and_five_of_them_by_name(write):
    error = refusal(write(tsv="a\tx\n" + "one\n" + "a\tb\tc\n" * 6 + "a\tx\n"))
    first, *listed = error.message.splitlines()
    assert first == "tsv: 7 faults"
    assert listed[0] == "  - a line of a TSV file must be source TAB target, got tsv, line 2: 1 column"
    assert [line.rpartition("line ")[2] for line in listed[1:5]] == [f"{n}: 3 columns" for n in (3, 4, 5, 6)]
    assert listed[5:] == ["  - and 2 more"]
    assert "source-file target-file" in error.hint
    assert (
        refusal(write(tsv="a\tb\tc\n")).hint == "to keep only the first two columns: cut -f 1,2 tsv > two-columns.tsv"
    )


def test_faults_of_both_files_and_of_their_lengths(write):
    message = refusal(write(de=b"\xff\nb\nc\n", en=b"x\n\xfe\n")).message
    assert message.startswith("de and en: 3 faults\n")
    for part in ("de, line 1: byte 0xff", "en, line 2: byte 0xfe", "got 3 in de and 2 in en"):
        assert part in message


def test_pairs_with_a_blank_side_are_counted_and_left_out(write):
    pairs, counts = read(write(de="a\n\n \u3000\nd\n\n", en="x\ny\nz\n\t\n\n"))
    assert pairs == [(1, ("a", "x"))]
    assert (counts.pairs, counts.blank) == (1, 4)
    assert counts.sentences() == ["4 blank on one side, left out (the first: de and en, line 2)"]
    pairs, counts = read(write(tsv="\n\t\na\t\n\tx\na\tx"))
    assert (pairs, counts.blank) == ([(5, ("a", "x"))], 4)


def test_who_scores_gets_every_line(write):
    long = "x" * (2 * MAX_LINE + 1)
    pairs, counts = read(write(tsv=f"a\tx\n \ty\n\n{long}\tx\nb\t\u3000\n"), read_every_pair)
    assert [pair for _, pair in pairs] == [("a", "x"), ("", "y"), ("", ""), None, ("b", "")]
    assert (counts.pairs, counts.blank, counts.too_long) == (1, 3, 1)


def test_lines_beyond_a_megabyte_are_counted_and_left_out(write):
    long = "x" * (MAX_LINE + 1)
    pairs, counts = read(write(de=f"a\n{long}\nc\nd\n", en=f"x\ny\nz\n{long}"))
    assert pairs == [(1, ("a", "x")), (3, ("c", "z"))]
    assert counts.sentences() == ["2 too long, left out (the first: de and en, line 2)"]


def test_control_characters_are_counted_and_kept(write):
    odd = ["\x00", "\x07", "\x1b[0m", "\x7f", "\x85", "\x9f"]
    fine = ["\u00a0", "\u200b", "\u202e", "\ue000", "\ufffe", "\U0010ffff"]
    pairs, counts = read(write(de="".join(f"{c}a\n" for c in fine + odd), en="x\n" * 12))
    assert [pair[0] for _, pair in pairs] == [f"{c}a" for c in fine + odd]
    assert (counts.pairs, counts.control) == (12, 6)
    assert counts.sentences() == ["6 with control characters, kept (the first: de and en, line 7)"]


def test_training_pairs_that_are_in_the_development_set_are_said(write):
    known, counts = {("a", "x"), ("b", "y")}, Counts()
    corpus = Corpus(tuple(write(tsv="a\ty\na\tx\nb\ty\n")))
    for line, pair in read_pairs(corpus, counts):
        if pair in known:
            counts.note("in_dev", corpus, line)
    assert counts.sentences() == [
        "2 also in the development set, kept: its scores will flatter (the first: tsv, line 2)"
    ]


@pytest.mark.parametrize("files", [{"tsv": ""}, {"de": "", "en": ""}, {"tsv": "\ufeff"}])
def test_an_empty_corpus_is_refused(write, files):
    paths = write(**files)
    assert refusal(paths).message.endswith(f"got {' and '.join(paths)}: nothing in it")


def corpora(*names):
    return [(corpus.paths, corpus.weight) for corpus in check_paths(names, "--train")]


def test_which_files_a_corpus_can_be():
    assert check_paths("a", "--train") == check_paths(Path("a"), "--train") == (Corpus(("a",)),)
    assert corpora("a") == [(("a",), 1)]
    assert corpora(Path("a"), "b") == [(("a", "b"), 1)]
    assert corpora("a.tsv", "b.tsv.gz") == [(("a.tsv",), 1), (("b.tsv.gz",), 1)]
    assert corpora("a.TSV.zst:2", "b", "c:0.5", "d.tsv:1", "e", "f") == [
        (("a.TSV.zst",), 2), (("b", "c"), 0.5), (("d.tsv",), 1), (("e", "f"), 1),
    ]  # fmt: skip


def test_a_file_that_is_called_so_has_no_weight(write):
    write(**{"odd:2": "a\tx\n"})
    assert corpora("odd:2") == [(("odd:2",), 1)]
    assert corpora("odd:2:3") == [(("odd:2",), 3)]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "--train takes at least one file, got none"),
        (["a", "./a"], "--train takes a source file and a target file, got a twice"),
        (
            ["a", "b", "c"],
            "--train takes files of pairs, and source files each followed by its target file, got c alone",
        ),
        (
            ["a", "b.tsv"],
            "--train takes files of pairs, and source files each followed by its target file, got a alone",
        ),
        (["a:2", "b"], "a weight must come after the target file, got it after a"),
        (["a.tsv:0"], "the weight of a file must be above 0 and at most 1,000, got 'a.tsv:0'"),
        (["a.tsv:1001"], "the weight of a file must be above 0 and at most 1,000, got 'a.tsv:1001'"),
    ],
)
def test_files_that_are_no_corpus(names, complaint):
    with pytest.raises(OptionError) as error:
        check_paths(names, "--train")
    assert error.value.message == complaint
