"""The wishes for one line, as rules for the next piece.

A hypothesis has a `State`. `Script.options` says which pieces may follow, which of them bring closer what is owed, and
how much each would leave owed, in pieces that must still be written. A piece that leaves more owed than there is room
for is not an option, so that what must appear does appear, wherever the search puts it.

W pieces
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from manyheads.decoding.phrases import FOUND, Phrasebook, Reader
from manyheads.decoding.repetition import would_repeat
from manyheads.decoding.seam import IMPOSSIBLE, Prefix, Seam
from manyheads.decoding.spelling import START, spelling_of
from manyheads.decoding.wishes import Wishes
from manyheads.decoding.words import appears, word_characters
from manyheads.errors import InputError
from manyheads.text.backwards import Backwards
from manyheads.text.tokenizer import BEGIN, END, PADDING, Tokenizer

__all__ = ["Options", "Script", "Scripts", "State"]


class State(NamedTuple):
    """How far a hypothesis has come.

    context   of the spelling, after what is written
    forced    pieces of the prefix that are to come
    left      bytes of the prefix after these
    must      the states of the readers of phrases that must appear
    never     the states of the readers of phrases that must not
    """

    context: int
    forced: int
    left: bytes
    must: tuple[int, ...]
    never: tuple[int, ...]


@dataclass(frozen=True)
class Options:
    """For each piece, if it is written next:

    allowed    does it keep to the prefix, and complete no forbidden phrase?
    polite     does it not repeat, and not end too early?
    hanging    does it complete a forbidden phrase unless the word goes on? ("cat", in "category")
    owed       pieces that must be written after it, at least
    bank       the hypotheses that it competes with: higher, if more of what must appear is there
    """

    allowed: Bool[np.ndarray, " W"]
    polite: Bool[np.ndarray, " W"]
    hanging: Bool[np.ndarray, " W"]
    owed: Int[np.ndarray, " W"]
    bank: Int[np.ndarray, " W"]


class Scripts:
    """Makes the scripts for a tokenizer. What all lines have in common is made once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if isinstance(tokenizer, Backwards):  # which takes no wishes that depend on spelling
            tokenizer = tokenizer.forwards
        self.tokenizer, self.spelling = tokenizer, spelling_of(tokenizer)
        self.is_word = word_characters(tokenizer)
        self.book, self.seam = Phrasebook(self.spelling, self.is_word), Seam(self.spelling)

    def appears(self, phrase: str, text: str) -> bool:
        return appears(phrase, text, self.is_word)

    def lacking(self, wishes: Wishes, text: str) -> list[str]:
        """The phrases, and the prefix, that should be in a text and are not."""
        missing = [phrase for phrase in wishes.must if not self.appears(phrase, text)]
        return missing if text.startswith(wishes.prefix) else [*missing, wishes.prefix]

    def forbidden(self, wishes: Wishes, part: str, whole: str) -> list[str]:
        """The phrases that should not be there and are.

        They are looked for in the part if the glossary forbids them, else in the complete line.
        """
        terms = {target for _, target in wishes.glossary.never} if wishes.glossary else set()
        return [phrase for phrase in wishes.never if self.appears(phrase, part if phrase in terms else whole)]

    def can_appear(self, wishes: Wishes) -> list[str]:
        """Phrases that must appear and contain none that must not; one that is in another comes after it."""
        free = [p for p in wishes.must if not any(self.appears(never, p) for never in wishes.never)]
        return sorted(free, key=lambda phrase: any(self.appears(phrase, other) for other in free if other != phrase))


class Script:
    """The rules for an output of at most `limit` pieces.

    A longer prefix makes room for itself, up to `longest`.
    """

    def __init__(
        self, scripts: Scripts, wishes: Wishes, limit: int, longest: int, *, min_length: int = 0, no_repeat: int = 0
    ) -> None:
        self.spelling, self.seam = scripts.spelling, scripts.seam
        self.prefix = Prefix(wishes.prefix, scripts.tokenizer, scripts.spelling)
        self.limit = min(longest, max(limit, len(self.prefix.ids) + 1))
        self.min_length, self.no_repeat = min_length, no_repeat
        self.options_of = lru_cache(8)(self.work_out)  # most hypotheses are in one of few states
        self.must: list[Reader] = []
        self.never = [scripts.book.reader(phrase) for phrase in wishes.never]
        self.check_prefix(wishes.prefix)
        for phrase in scripts.can_appear(wishes):
            if any(scripts.appears(phrase, reader.phrase) for reader in self.must):
                continue  # it appears within that one
            self.must.append(scripts.book.reader(phrase))
            if not self.fits():
                self.must.pop()

    def check_prefix(self, prefix: str) -> None:
        found = [r.phrase for r, state in zip(self.never, self.after_prefix().never, strict=True) if state == FOUND]
        if found:
            raise InputError(f"a prefix must not contain a forbidden phrase, got {found[0]!r} in {prefix!r}")

    def fits(self) -> bool:
        """True if there is room after the prefix for all that must appear, one phrase after the other."""
        state = self.after_prefix()
        costs = [reader.cost(state.context, q) for reader, q in zip(self.must, state.must, strict=True)]
        found = [q == FOUND for q in state.must]
        owed = debt(self.prices, np.array(costs)[:, None], np.array(found)[:, None])
        return len(self.prefix.ids) + int(owed[0]) <= self.limit

    def after_prefix(self) -> State:
        return reduce(self.advance, self.prefix.ids, self.start())

    @property
    def banks(self) -> int:
        """How many kinds of hypotheses there are that should not crowd each other out.

        They differ in their progress, and in whether their last word must go on.
        """
        return (1 + int(self.prices.sum())) * (2 if self.never else 1)

    @property
    def prices(self) -> Int[np.ndarray, " n"]:
        """Pieces that each phrase takes, wherever it is put. Progress counts up to their sum."""
        return np.array([reader.from_anywhere for reader in self.must], np.int32)

    def start(self) -> State:
        must, never = (tuple(reader.beginning for reader in readers) for readers in (self.must, self.never))
        return State(START, len(self.prefix.forced), self.prefix.left, must, never)

    def advance(self, state: State, piece: int) -> State:
        context, forced, left = state.context, state.forced, state.left
        return State(
            int(self.spelling.after[context][piece]),
            max(0, forced - 1),
            left if forced else left[len(self.spelling.added[context][piece]) :],
            tuple(r.read(context, q, piece) for r, q in zip(self.must, state.must, strict=True)),
            tuple(r.read(context, q, piece) for r, q in zip(self.never, state.never, strict=True)),
        )

    # ── the next piece ──────────────────────────────────────────────────────────────────────────────────────────────

    def options(self, state: State, written: Sequence[int]) -> Options:
        options = self.options_of(state)
        return replace(options, polite=self.polite(state, written)) if self.min_length or self.no_repeat else options

    def work_out(self, state: State) -> Options:
        if state.forced:
            return self.only(self.prefix.forced[-state.forced])
        allowed, hanging = self.allowed(state)
        owed, progress = self.owed(state)
        if state.left:
            seam = self.seam.costs_after(state.context, state.left)
            allowed &= seam < IMPOSSIBLE
            owed = np.where(seam > 0, self.prices.sum() + seam, owed)
        owed = np.where(hanging, self.prices.sum() + 1, owed)
        bank = 2 * progress + ~hanging if self.never else progress
        return Options(allowed, np.ones_like(allowed), hanging, owed, bank)

    def ends_prefix(self, state: State) -> Bool[np.ndarray, " W"]:
        """Among the pieces that may follow: which contain all the rest of the prefix?"""
        if state.forced:
            return np.zeros(self.spelling.size, bool)
        return self.seam.costs_after(state.context, state.left) == 0

    def only(self, piece: int) -> Options:
        allowed = np.zeros(self.spelling.size, bool)
        allowed[piece] = True
        nothing = np.zeros(self.spelling.size, np.int32)
        return Options(allowed, allowed, nothing > 0, nothing, nothing)

    def allowed(self, state: State) -> tuple[Bool[np.ndarray, " W"], Bool[np.ndarray, " W"]]:
        """(pieces that complete no forbidden phrase, those among them whose word must go on for this)"""
        allowed, hanging = np.ones(self.spelling.size, bool), np.zeros(self.spelling.size, bool)
        for reader, q in zip(self.never, state.never, strict=True):
            after = reader.after(state.context, q)
            allowed &= after != FOUND
            hanging |= reader.hanging(after)
        allowed[[PADDING, BEGIN, END]] = False, False, not state.left and not self.hangs(state)
        hanging[END] = False
        return allowed, hanging

    def hangs(self, state: State) -> bool:
        """True if the last word must go on, because it is forbidden as it stands."""
        return any(reader.hangs[q] for reader, q in zip(self.never, state.never, strict=True))

    def owed(self, state: State) -> tuple[Int[np.ndarray, " W"], Int[np.ndarray, " W"]]:
        """(what each piece would leave owed, the progress that would then be made)"""
        if not self.must:
            nothing = np.zeros(self.spelling.size, np.int32)
            return nothing, nothing
        both = list(zip(self.must, state.must, strict=True))
        costs = np.stack([reader.costs_after(state.context, q) for reader, q in both])
        found = np.stack([reader.after(state.context, q) == FOUND for reader, q in both])
        owed, progress = debt(self.prices, costs, found), (self.prices[:, None] - costs).sum(0)
        owed[END] = 0 if all(q == FOUND or reader.hangs[q] for reader, q in both) else IMPOSSIBLE
        progress[END] = self.prices.sum()
        return owed, progress

    def polite(self, state: State, written: Sequence[int]) -> Bool[np.ndarray, " W"]:
        polite = np.ones(self.spelling.size, bool)
        polite[END] = len(written) + 1 >= self.min_length
        if self.no_repeat and not state.left and not state.forced:
            polite[list(would_repeat(written, self.no_repeat))] = False
        return polite


def debt(
    prices: Int[np.ndarray, " n"], costs: Int[np.ndarray, "n W"], found: Bool[np.ndarray, "n W"]
) -> Int[np.ndarray, " W"]:
    """Pieces in which all that is not found can be written: first what is on its way, then one phrase after the other.

    Following this plan takes one off the debt with each piece. So a search that never leaves more owed than there is
    room for never fails.
    """
    open_prices = np.where(found, 0, prices[:, None])
    begun = np.where(found, 0, prices[:, None] - costs)
    return open_prices.sum(0) - begun.max(0, initial=0)
