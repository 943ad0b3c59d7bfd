"""Pieces lie where their text is, and words are whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.untrained import TOKENIZERS
from manyheads.inspection.sides import read_side
from manyheads.text.tokenizer import BEGIN, END

TEXTS = st.text(st.sampled_from("abcdefé  .ü🐶‮漢"), max_size=30)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS)
def test_every_letter_is_in_a_piece_and_every_piece_in_a_word(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = [BEGIN, *tokenizer.encode([text])[0], END]
    side = read_side(tokenizer, ids)
    assert side.text == tokenizer.decode(ids)
    assert [piece.id for piece in side.pieces] == ids
    covered = {place for piece in side.pieces for place in range(piece.start, piece.end)}
    assert {n for n, letter in enumerate(side.text) if letter != " "} <= covered
    numbers = [piece.word for piece in side.pieces]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(side.words)))
    for piece in side.pieces:
        word = side.words[piece.word]
        assert word.start <= piece.start <= piece.end <= word.end
    assert [word.text for word in side.words if word.special] == ["⟨begin⟩", "⟨end⟩"]
    if kind == "bpe":
        spoken = [word.text for word in side.words if word.text.strip(" ") and not word.special]
        assert spoken == [word for word in side.text.split(" ") if word]


def test_what_is_no_whole_letter_is_shown_as_its_bytes_and_has_the_place_of_the_letter():
    tokenizer = TOKENIZERS["bpe"]
    side = read_side(tokenizer, [*tokenizer.encode(["a 🐶b"])[0], END])
    assert [(piece.text, piece.start, piece.end, piece.word) for piece in side.pieces] == [
        (" a", 0, 1, 0),
        (" ", 1, 2, 1),
        *((f"‹{byte}›", 2, 3, 2) for byte in ("f0", "9f", "90", "b6")),
        ("b", 3, 4, 2),
        ("⟨end⟩", 4, 4, 3),
    ]


def test_a_piece_has_the_place_of_its_letters():
    tokenizer = TOKENIZERS["bpe"]
    side = read_side(tokenizer, tokenizer.encode(["ab ca aded"])[0])
    assert [side.text[piece.start : piece.end] for piece in side.pieces] == [
        piece.text.strip(" ") for piece in side.pieces
    ]
