"""Long lines in parts: nothing is lost but spaces, nothing is too long, and it ends."""

from hypothesis import given
from hypothesis import strategies as st

from manyheads.decoding.segments import join_sentences, split_sentences, split_text

texts = st.text(alphabet=" .!?。aé🙂\t\u2028\0", max_size=60)


@given(texts, st.integers(1, 20))
def test_parts_are_the_text_but_for_spaces_between_them(text, most):
    parts = list(split_text(text, most))
    assert all(len(part) <= most for part in parts)
    if len(text) > most:
        assert all(part.strip() for part in parts)
        assert "".join("".join(parts).split()) == "".join(text.split())
    place = 0
    for part in parts:  # each stands where the last one ended, behind what is blank
        found = text.index(part, place)
        assert not text[place:found].strip()
        place = found + len(part)


@given(texts)
def test_a_text_that_fits_is_left_as_it_is(text):
    assert list(split_text(text, max(1, len(text)))) == [text]


@given(st.text(alphabet=" .a", min_size=30, max_size=200), st.integers(4, 20))
def test_parts_are_not_many_and_tiny(text, most):
    assert len(list(split_text(text, most))) <= len(text) / (most // 2 + 1) + 1


def test_cuts_are_made_where_a_reader_would():
    assert list(split_text("One two. Three four. Five", 21)) == ["One two. Three four.", "Five"]
    assert list(split_text("One two three four", 12)) == ["One two", "three four"]
    assert list(split_text("一二三。四五六七。八九", 6)) == ["一二三。", "四五六七。", "八九"]
    assert list(split_text("abcdefgh", 3)) == ["abc", "def", "gh"]


def test_an_early_end_of_a_sentence_is_no_place_to_cut():
    assert list(split_text("A. bcd efg hij", 10)) == ["A. bcd", "efg hij"]


def test_many_spaces_are_no_parts():
    assert list(split_text(" " * 50 + "a" + " " * 50 + "b" + " " * 50, 7)) == ["a", "b"]
    assert list(split_text(" " * 50, 7)) == []


def test_a_long_line_is_walked_through_once():
    """1 MB in parts of 8: copying the rest at every cut would move 60 GB."""
    assert list(split_text("abc def " * 125_000, 8)) == ["abc def"] * 125_000


@given(
    st.lists(st.sampled_from(["Ja.", "Nein!", "Was?", "und", "好。", "…"]), min_size=1, max_size=12), st.integers(1, 9)
)
def test_sentences_are_kept_whole_and_together_up_to_a_size(words, most):
    text = " ".join(words)
    sentences = split_sentences(text)
    groups = join_sentences(sentences, [len(sentence) for sentence in sentences], most)
    assert "".join(groups).replace(" ", "") == text.replace(" ", "")
    assert "".join(sentences).replace(" ", "") == text.replace(" ", "")
    for group in groups:
        inside = split_sentences(group)
        assert len(inside) <= 1 or sum(map(len, inside)) <= most


def test_abbreviations_and_numbers_inside_words_are_not_ends():
    assert split_sentences("Es kostet 3.50 Euro. Nicht viel!") == ["Es kostet 3.50 Euro.", "Nicht viel!"]


def test_what_is_blank_is_no_part():
    assert list(split_text("Ein Hund." + "\t" * 50 + "\u00a0" * 50, 20)) == ["Ein Hund." + "\t" * 11]
