"""Texts with labels: how they are read, what is refused, and that labels come back as they were."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads import InputError, OptionError
from manyheads.text.corpus import Counts, ReadOptions, check_paths, read_pairs
from manyheads.text.labels import Labels
from manyheads.text.listed import Characters
from manyheads.text.spool import Spool
from manyheads.text.tokenizer import FIRST
from manyheads.text.vocabulary import Vocabulary

LABELLED = ReadOptions(labels=True)


def read(path, text, reading=LABELLED):
    path.write_text(text, encoding="utf-8")
    counts = Counts()
    (corpus,) = check_paths(path, "--train", reading)
    return [pair for _, pair in read_pairs(corpus, counts)], counts


def test_tsv_has_the_label_first_and_one_text_or_two(tmp_path):
    found, counts = read(tmp_path / "a.tsv", "yes\ta b\tc\nno\td\n\nno\t \nno\ta\t\n \tx\n")
    assert found == [("a b\tc", "yes"), ("d", "no")]
    assert (counts.pairs, counts.blank) == (2, 4)  # an empty line, no text, half a pair, no label


def test_every_line_without_its_columns_is_named(tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path / "a.tsv", "yes\ta\nno tab\na\tb\tc\td\n")
    assert "line 2: 1 column" in error.value.message
    assert "line 3: 4 columns" in error.value.message


def test_jsonl_names_its_keys_and_numbers_may_be_labels(tmp_path):
    lines = [{"label": "ä", "text": "a\tb"}, {"label": 1, "text": "c\nd\n", "text2": "e"}]
    found, counts = read(tmp_path / "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert found == [("a b", "ä"), ("c d\te", "1")]
    assert (counts.tab, counts.newline) == (1, 1)
    named = ReadOptions("review", "stars", labels=True)
    assert read(tmp_path / "b.jsonl", '{"review": "good", "stars": "5"}\n', named)[0] == [("good", "5")]
    for bad, why in (
        ('{"label": "a\\nb", "text": "c"}', "one line without a tab"),
        ('{"label": true, "text": "c"}', "must be text, got"),
        ('{"label": "a"}', "must have the key 'text'"),
        ("[1]", "must be an object"),
    ):
        with pytest.raises(InputError, match=why):
            read(tmp_path / "c.jsonl", bad + "\n")
    with pytest.raises(OptionError, match=r"takes texts with labels, as .tsv or .jsonl, got a.tmx"):
        check_paths("a.tmx", "--train", LABELLED)


def test_two_files_are_read_as_one_is(tmp_path):
    (tmp_path / "texts.txt").write_text("a\nleft\t\nb\tc\n\nd\te\tf\ng\n")
    (tmp_path / "labels.txt").write_text("yes \nno\nno\nno\nno\nn\to\n")
    files, counts = (tmp_path / "texts.txt", tmp_path / "labels.txt"), Counts()
    with pytest.raises(InputError) as error:
        list(read_pairs(*check_paths(files, "--train", LABELLED), counts))
    assert f"got {files[0]}, line 5: 3 texts: 'd\\te\\tf'" in error.value.message
    assert f"a label must be one line without a tab, got {files[1]}, line 6" in error.value.message
    lenient, counts = ReadOptions(labels=True, bad_lines="skip"), Counts()
    found = list(read_pairs(*check_paths(files, "--train", lenient), counts))
    assert found == [(1, ("a", "yes")), (3, ("b\tc", "no"))]
    assert (counts.pairs, counts.blank, counts.no_pair) == (2, 2, 2)


def test_blanks_around_a_label_and_a_second_text_that_is_null_are_nothing(tmp_path):
    assert read(tmp_path / "a.tsv", "yes\ta\n yes \tb\n")[0] == [("a", "yes"), ("b", "yes")]
    lines = '{"label": "yes\\r", "text": "a", "text2": null}\n{"label": " yes", "text": "b", "text2": "c"}\n'
    assert read(tmp_path / "a.jsonl", lines)[0] == [("a", "yes"), ("b\tc", "yes")]


lines_with_labels = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=2, max_size=12)


@given(lines_with_labels)
def test_no_label_is_held_out_with_all_its_texts(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("spool")
    (folder / "a.tsv").write_text("".join(f"{label}\ttext {n}\n" for label, n in lines))
    counts, whole = Counts(), [(f"text {n}", label) for label, n in lines]
    with Spool(folder / "spool", counts, check_paths(folder / "a.tsv", "--train", LABELLED)) as spool:
        last = {max((zlib.crc32(text.encode()), text) for text, one in whole if one == label)[1] for _, label in whole}
        if {text for text, _ in whole} == last:
            with pytest.raises(InputError, match=f"must remain for training .*, got {len(whole)} texts, none of them"):
                spool.hold_out()
            return
        held_out = spool.hold_out()
        kept = [pair for _, pair in spool.pairs()]
        assert held_out
        assert sorted(held_out + kept) == sorted(whole)
        assert {label for _, label in kept} == {label for _, label in whole}
        assert not {text for text, _ in held_out} & {text for text, _ in kept}
        assert counts.pairs == len(kept)


labels = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"), min_size=1),
    min_size=2, unique=True, max_size=8,
)  # fmt: skip


@given(labels)
def test_labels_of_any_characters_come_back_from_their_ids_and_from_a_file(names):
    vocabulary = Vocabulary(Characters.train(["ab"], 300), Labels.learn(reversed(names * 2)))
    again = Vocabulary.loads(vocabulary.dumps(), "here")
    assert again.labels.names == sorted(names)
    assert again.labels.size == FIRST + len(names)
    for n, name in enumerate(sorted(names)):
        assert again.target.encode([name]) == [[FIRST + n]]
        assert again.target.decode([FIRST + n]) == name
    with pytest.raises(InputError, match=r"must be one of the .* learnt labels"):
        again.labels.number("".join(names) + "x")


@pytest.mark.parametrize("names", [[], ["a"], ["a", "a"], ["a", "b\nc"]])
def test_what_is_no_set_of_labels_is_refused(names):
    with pytest.raises(InputError):
        Labels(names)
