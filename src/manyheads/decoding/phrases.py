"""Look for a phrase while text is written, whatever pieces spell it.

A `Reader` is a finite automaton over bytes. Its state is how much of the phrase the text ends with (Knuth, Morris and
Pratt), restricted to whole words: a match begins at a boundary, and if it ends inside what may become a longer word,
the next character decides. Given a state it knows, for all pieces at once, the state after each, and how many pieces it
would take to complete the phrase.

W pieces
"""

from codecs import utf_8_decode
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from manyheads.decoding.spelling import Spelling
from manyheads.decoding.words import IsWord
from manyheads.text.tokenizer import FIRST

__all__ = ["FOUND", "Phrasebook", "Reader"]

FOUND = 0
"""The state of a reader that has seen its phrase. It stays there."""

UNKNOWN = -1

KEPT_ROWS = 1_024
"""Rows of W numbers that are cached: about what a batch needs, whose hypotheses are mostly in few states."""


class Place(NamedTuple):
    """What a state stands for.

    matched   characters of the phrase that the text ends with
    in_word   if there are none: is the last character part of a word?
    cut       the first bytes of a character whose other bytes are to come
    """

    matched: int
    in_word: bool = False
    cut: bytes = b""


class Reader:
    """Looks for one phrase. States are numbers, made when first met; `beginning` is the state of an empty text."""

    def __init__(self, phrase: str, spelling: Spelling, is_word: IsWord) -> None:
        self.phrase, self.spelling, self.is_word = phrase, spelling, is_word
        self.shorter = [self.borders(length) for length in range(len(phrase) + 1)]
        self.places: list[Place | None] = [None]
        self.hangs = [False]
        self.numbers: dict[Place, int] = {}
        self.bytes_read: dict[tuple[int, int], int] = {}
        self.table = np.full((0, 256), UNKNOWN, np.int32)
        self.costs: dict[tuple[int, int], int] = {}
        self.successors: dict[tuple[int, int], set[tuple[int, int]]] = {}
        self.beginning = self.number(Place(0))
        self.builders = pieces_within(" " + phrase, spelling)
        in_a_word = self.number(Place(0, in_word=True))
        # The way from inside a word begins with a boundary, so it leads to the phrase after any text,
        # and cuts no word short.
        self.from_anywhere = max(self.cost(context, in_a_word) for context in spelling.later)

    def number(self, place: Place) -> int:
        if place not in self.numbers:
            self.numbers[place] = len(self.places)
            self.places.append(place)
            # Is the phrase there if the text ends here, but not if its last word goes on?
            # (A cut character would decode to U+FFFD.)
            ends = not place.cut or not self.is_word("\ufffd")
            self.hangs.append(place.matched == len(self.phrase) and ends)
        return self.numbers[place]

    def hanging(self, states: Int[np.ndarray, " W"]) -> Bool[np.ndarray, " W"]:
        return np.array(self.hangs)[states]

    # ── one byte ────────────────────────────────────────────────────────────────────────────────────────────────────

    def borders(self, length: int) -> list[int]:
        """Lengths of shorter matches inside a match of `length` that also began at a boundary, the longest first."""
        phrase, is_word = self.phrase, self.is_word
        return [
            size
            for size in range(length - 1, 0, -1)
            if phrase[:size] == phrase[length - size : length]
            and not (is_word(phrase[0]) and is_word(phrase[length - size - 1]))
        ]

    def read_byte(self, state: int, byte: int) -> int:
        if (state, byte) not in self.bytes_read:
            self.bytes_read[state, byte] = self.work_out(state, byte)
        return self.bytes_read[state, byte]

    def work_out(self, state: int, byte: int) -> int:
        place = self.places[state]
        if place is None:
            return FOUND
        text, used = utf_8_decode(place.cut + bytes([byte]), "replace", False)
        cut = (place.cut + bytes([byte]))[used:]
        place = place._replace(cut=b"")
        for character in text:
            after = self.read_character(place, character)
            if after is None:
                return FOUND
            place = after
        return self.number(place._replace(cut=cut))

    def read_character(self, place: Place, character: str) -> Place | None:
        """The place after a character; None if the phrase is complete."""
        phrase, whole = self.phrase, len(self.phrase)
        in_word = self.is_word(phrase[place.matched - 1]) if place.matched else place.in_word
        if place.matched == whole and not self.is_word(character):
            return None
        goes_on = [place.matched] if 0 < place.matched < whole else []
        begins = [] if in_word and self.is_word(phrase[0]) else [0]
        for length in (*goes_on, *self.shorter[place.matched], *begins):
            if phrase[length] == character:
                complete = length + 1 == whole and not self.is_word(character)
                return None if complete else Place(length + 1)
        return Place(0, self.is_word(character))

    # ── one piece, and all pieces ───────────────────────────────────────────────────────────────────────────────────

    def read(self, context: int, state: int, piece: int) -> int:
        for byte in self.spelling.added[context][piece]:
            state = self.read_byte(state, byte)
        return state

    @lru_cache(KEPT_ROWS)  # noqa: B019, of all readers together: of a large vocabulary a row is large
    def after(self, context: int, state: int) -> Int[np.ndarray, " W"]:
        """The state after each piece."""
        states = np.full(self.spelling.size, state, np.int32)
        for pieces, column in self.spelling.columns[context]:
            states[pieces] = self.read_bytes(states[pieces], column)
        return states

    def read_bytes(self, states: Int[np.ndarray, " n"], column: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The state after each state reads its byte. Transitions that are new are worked out once."""
        if len(self.table) < len(self.places):
            more = np.full((len(self.places), 256), UNKNOWN, np.int32)
            self.table = np.concatenate([self.table, more])
        found = self.table[states, column]
        new = found == UNKNOWN
        for pair in np.unique(256 * states[new].astype(np.int64) + column[new]).tolist():
            self.table[pair // 256, pair % 256] = self.read_byte(pair // 256, pair % 256)
        return self.table[states, column] if new.any() else found

    @lru_cache(KEPT_ROWS)  # noqa: B019
    def costs_after(self, context: int, state: int) -> Int[np.ndarray, " W"]:
        """For each piece: how many more pieces are needed after it, at least, to complete the phrase."""
        contexts = len(self.spelling.added)
        both = self.after(context, state) * contexts + self.spelling.after[context]
        pairs, which = np.unique(both, return_inverse=True)
        costs = [self.cost(pair % contexts, pair // contexts) for pair in pairs.tolist()]
        return np.array(costs, np.int32)[which]

    def cost(self, context: int, state: int) -> int:
        """The fewest pieces that complete the phrase, found breadth first among pieces that are in it.

        There is always a way, because its bytes are pieces.
        """
        if (context, state) not in self.costs:
            edge, seen, steps = {(context, state)}, set(), 0
            while not any(state == FOUND or self.hangs[state] for _, state in edge):
                seen |= edge
                edge = set().union(*map(self.built, edge)) - seen
                steps += 1
            self.costs[context, state] = steps
        return self.costs[context, state]

    def built(self, place: tuple[int, int]) -> set[tuple[int, int]]:
        """(context, state) after each piece of the phrase."""
        if place not in self.successors:
            context, state = place
            after = self.spelling.after[context]
            self.successors[place] = {(int(after[i]), self.read(context, state, i)) for i in self.builders}
        return self.successors[place]


def pieces_within(text: str, spelling: Spelling) -> list[int]:
    """Pieces that, in some context, add a part of the text."""
    whole, longest = text.encode(), max(map(len, spelling.columns))
    parts = {whole[i : i + n] for i in range(len(whole)) for n in range(longest + 1)}
    return [i for i in range(FIRST, spelling.size) if any(added[i] in parts for added in spelling.added)]


class Phrasebook:
    """The readers of one tokenizer.

    Those of the last few hundred phrases are kept: what a reader has worked out serves other lines.
    """

    def __init__(self, spelling: Spelling, is_word: IsWord) -> None:
        self.spelling, self.is_word = spelling, is_word
        self.reader = lru_cache(256)(lambda phrase: Reader(phrase, spelling, is_word))
