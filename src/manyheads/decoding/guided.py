"""Search that follows a script for each sentence: what it must begin with, contain, and never contain.

    guided_beam     beam search; in several groups if the hypotheses are to differ
    GuidedChoice    one token after the other

In a beam, hypotheses compete with those that have written as much of what must appear: the places are dealt out to
these banks in turn (Post and Vilar, 2018). Otherwise the hypotheses that have none of it yet would be likelier, and
fill the beam until the end. Likewise, hypotheses whose last word must go on, because it is forbidden as it stands, have
banks of their own: most of them are about to pay dearly for it, and would have filled the beam before that shows.

Groups of one sentence search side by side, each for one output. In diverse search (Vijayakumar et al., 2018) a group
pays for every word that earlier groups write at the same step; for alternatives, each group begins with a different
token after the prefix.

B sentences · U groups of them · k beam · W words
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, log

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.decoding.beam import Candidates, Follow, beam_search, unfinished
from manyheads.decoding.greedy import Choose
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.script import Options, Script, State
from manyheads.decoding.steps import StepModel
from manyheads.text.tokenizer import END

__all__ = ["Groups", "GuidedChoice", "Watch", "guided_beam", "unwatched"]

Watch = Callable[[Follow], Follow]
"""An observer: it takes the function that chooses continuations, and returns one that chooses the same."""


def unwatched(follow: Follow) -> Follow:
    return follow


@dataclass(frozen=True)
class Groups:
    """The groups that search for the outputs of a sentence.

    count       groups, each of which searches for one output
    diversity   what a group pays for each use of a word by earlier groups
    fork        does each begin with a different token after the prefix?
    """

    count: int = 1
    diversity: float = 0.0
    fork: bool = False


ONE_GROUP = Groups()

PLAUSIBLE = log(0.1)
"""A word plausibly goes on if all pieces that continue it have at least this log-probability together."""


def guided_beam(
    model: StepModel,
    source: Int[Tensor, "B S"],
    scripts: Sequence[Script],
    *,
    beam: int,
    alpha: float,
    groups: Groups = ONE_GROUP,
    watch: Watch = unwatched,
) -> list[list[Hypothesis]]:
    """Return up to `beam` hypotheses for each sentence, the best first.

    With several groups, these are the best of each group.
    """
    units = [Unit(n, group, script) for n, script in enumerate(scripts) for group in range(groups.count)]
    limits = [unit.script.limit for unit in units]
    source = source.repeat_interleave(groups.count, 0)
    found = beam_search(model, source, limits, beam=beam, alpha=alpha, follow=watch(Guide(units, groups)))
    if groups.count == 1:
        return found
    return [best_of_each(found[n : n + groups.count], not groups.fork) for n in range(0, len(found), groups.count)]


def best_of_each(groups: list[list[Hypothesis]], fill: bool) -> list[Hypothesis]:
    """From each group the best hypothesis that no earlier group gave, the best first. A group may have found nothing.

    With `fill`, the places of groups that gave nothing of their own go to the best of what is left.
    """
    chosen: dict[tuple[int, ...], Hypothesis] = {}
    for group in groups:
        choose_new(chosen, group, 1)
    if fill:
        choose_new(chosen, sorted(chain(*groups), key=lambda h: -h.score), len(groups) - len(chosen))
    return sorted(chosen.values(), key=lambda h: -h.score) or groups[0]


def choose_new(chosen: dict[tuple[int, ...], Hypothesis], group: list[Hypothesis], most: int) -> None:
    new = [h for h in group if tuple(h.ids) not in chosen and h.score > -inf]
    chosen.update({tuple(h.ids): h for h in new[:most]})


class Unit:
    """One group of one sentence, and the states of its hypotheses, by what they have written."""

    def __init__(self, sentence: int, group: int, script: Script) -> None:
        self.sentence, self.group, self.script = sentence, group, script
        self.has_output = self.has_forked = False
        self.states: dict[tuple[int, ...], State] = {}

    def follow(self, written: list[tuple[int, ...]]) -> list[State]:
        """The states of hypotheses that are one token longer than those of the previous call."""
        before, self.states = self.states, {}
        for ids in written:
            state = self.script.advance(before[ids[:-1]], ids[-1]) if ids else self.script.start()
            self.states[ids] = state
        return [self.states[ids] for ids in written]


class Guide:
    """Chooses the continuations in a guided beam search."""

    def __init__(self, units: list[Unit], groups: Groups) -> None:
        self.units, self.groups = units, groups

    def __call__(
        self, scores: Float[Tensor, "U k"], log_p: Float[Tensor, "Uk W"], rows: list[int], written: Int[Tensor, "Uk T"]
    ) -> Candidates:
        units, log_p = [self.units[row] for row in rows], log_p.unflatten(0, scores.shape)
        allowed, banks, hanging = survey(units, scores, written.unflatten(0, scores.shape))
        if self.groups.fork:
            fork(units, log_p[:, 0], allowed)
        log_p = log_p.masked_fill(~torch.from_numpy(allowed).to(log_p.device), -inf)
        log_p = without_glued_words(log_p, torch.from_numpy(hanging).to(log_p.device))
        kinds = torch.from_numpy(banks).to(log_p.device)
        if self.groups.diversity:
            chosen = diverse_candidates(units, scores, log_p, kinds, self.groups.diversity)
        else:
            chosen = candidates(scores, log_p, kinds)
        note_outputs(units, chosen, scores.shape[1])
        return chosen


def note_outputs(units: list[Unit], chosen: Candidates, beam: int) -> None:
    scores, _, words = (part[:, :beam] for part in chosen)
    for unit, ends in zip(units, ((words == END) & (scores > -inf)).any(1).tolist(), strict=True):
        unit.has_output |= ends


# ── what may follow ─────────────────────────────────────────────────────────────────────────────────────────────────


def survey(
    units: list[Unit], scores: Float[Tensor, "U k"], written: Int[Tensor, "U k T"]
) -> tuple[Bool[np.ndarray, "U k W"], Int[np.ndarray, "U k W"], Bool[np.ndarray, "U k"]]:
    """What may follow each hypothesis.

    Returns the words that may follow, the bank that each leads to, and whether the last word must go on.
    """
    shape = (*scores.shape, units[0].script.spelling.size)
    allowed, banks, hanging = np.zeros(shape, bool), np.zeros(shape, np.int32), np.zeros(scores.shape, bool)
    alive, ids = (scores > -inf).tolist(), written.tolist()
    for n, unit in enumerate(units):
        ranks = [rank for rank, living in enumerate(alive[n]) if living]
        states = unit.follow([tuple(ids[n][rank]) for rank in ranks])
        options = [unit.script.options(state, ids[n][rank]) for state, rank in zip(states, ranks, strict=True)]
        if ranks:
            room = unit.script.limit - written.shape[2] - 1
            allowed[n, ranks] = permitted(options, unit.script, room, give_up=not unit.has_output)
            banks[n, ranks] = [one.bank for one in options]
            hanging[n, ranks] = [unit.script.hangs(state) for state in states]
    return allowed, banks, hanging


def permitted(options: list[Options], script: Script, room: int, give_up: bool) -> list[Bool[np.ndarray, " W"]]:
    """For each hypothesis of a sentence, the words that leave room for what is owed.

    If possible, room is kept for an end, too, and for a word between two that must not meet. If no hypothesis has a
    word left, and there is no output yet, repetition is the first thing to be tolerated, and what must appear the next
    to be given up. What is forbidden is never written.
    """
    wanted = (2 if script.never else 1) if script.must else 0
    for spare in range(wanted, -1, -1):
        words = [o.allowed & o.polite & (o.owed + spare * (o.owed > 0) <= room) for o in options]
        if any(one.any() for one in words):
            return words
    if not give_up:
        return [np.zeros_like(o.allowed) for o in options]
    words = [o.allowed & (o.owed <= room) for o in options]
    return words if any(one.any() for one in words) else [o.allowed & ~(o.hanging & (room == 0)) for o in options]


def without_glued_words(log_p: Float[Tensor, "U k W"], hanging: Bool[Tensor, "U k"]) -> Float[Tensor, "U k W"]:
    """Drop hypotheses whose last word must go on if the model all but rules that out, and there are others.

    "cat" may become "category". Without this, "dog" became "dogroad", which no other word for a dog could outbid.
    """
    goes_on = log_p.logsumexp(-1)
    glued = hanging & (goes_on < PLAUSIBLE)
    others = (goes_on > -inf) & ~glued
    return log_p.masked_fill((glued & others.any(1, keepdim=True))[:, :, None], -inf)


def fork(units: list[Unit], log_p: Float[Tensor, "U W"], allowed: Bool[np.ndarray, "U k W"]) -> None:
    """Where the prefix ends, leave each group only the token that is its own: the likeliest, the second, …

    Up to there, all groups have the same single hypothesis.
    """
    for n, unit in enumerate(units):
        if not unit.has_forked and unit.states:  # if the numbers are not finite, none is left
            (state,) = unit.states.values()
            last = allowed[n, 0] & unit.script.ends_prefix(state)
            unit.has_forked = bool(last.any())
            words, rank = (last, unit.group) if unit.has_forked else (allowed[n, 0], 0)
            order = log_p[n].masked_fill(~torch.from_numpy(words).to(log_p.device), -inf).argsort(descending=True)
            own = order[rank].item() if rank < words.sum() else None
            allowed[n] &= np.arange(len(words)) == own


# ── the continuations ───────────────────────────────────────────────────────────────────────────────────────────────


def candidates(
    scores: Float[Tensor, "U k"], log_p: Float[Tensor, "U k W"], banks: Int[Tensor, "U k W"], fine: float | Tensor = 0.0
) -> Candidates:
    """2k continuations of each unit, chosen by their score less the fine, and returned with their score."""
    beam, words = log_p.shape[1:]
    every = scores[:, :, None] + log_p
    places = dealt_out((every - fine).flatten(1), banks.flatten(1), 2 * beam)
    return every.flatten(1).gather(1, places), places // words, places % words


def dealt_out(values: Float[Tensor, "U c"], banks: Int[Tensor, "U c"], most: int) -> Int[Tensor, "U m"]:
    """The places of the best of every bank, the fullest bank first; then of the second best of every bank, …"""
    most = min(most, values.shape[1])
    fullest = int(banks.max())
    if fullest == 0:
        return values.topk(most, sorted=True).indices
    ranked = [values.masked_fill(banks != bank, -inf).topk(most, sorted=True) for bank in range(fullest, -1, -1)]
    best, places = (torch.stack(both, 2).flatten(1) for both in zip(*ranked, strict=True))
    order = (best == -inf).to(torch.int8).sort(dim=1, stable=True).indices[:, :most]
    return places.gather(1, order)


def diverse_candidates(
    units: list[Unit], scores: Float[Tensor, "U k"], log_p: Float[Tensor, "U k W"], banks: Tensor, diversity: float
) -> Candidates:
    """The candidates of every group of every sentence.

    The first group of a sentence chooses first, then the second, which pays for the words of the first, …
    """
    chosen: dict[int, Candidates] = {}
    used: dict[int, Counter[int]] = {unit.sentence: Counter() for unit in units}
    for n in sorted(range(len(units)), key=lambda n: units[n].group):
        sentence = used[units[n].sentence]
        fine = torch.zeros(log_p.shape[2], device=log_p.device)
        fine[list(sentence)] = diversity * torch.tensor(list(sentence.values()), device=log_p.device, dtype=fine.dtype)
        one = slice(n, n + 1)
        chosen[n] = candidates(scores[one], log_p[one], banks[one], fine)
        sentence.update(words_written(chosen[n], scores.shape[1]))
    scores, origin, words = (torch.cat([chosen[n][part] for n in range(len(units))]) for part in range(3))
    return scores, origin, words


def words_written(chosen: Candidates, beam: int) -> list[int]:
    """The words of the hypotheses that end, and of those that continue."""
    ends = [(score, word) for score, word in pairs(chosen[0][:, :beam], chosen[2][:, :beam]) if word == END]
    scores, _, words = unfinished(*chosen, beam)
    return [word for score, word in [*ends, *pairs(scores, words)] if score > -inf]


def pairs(scores: Tensor, words: Tensor) -> list[tuple[float, int]]:
    return list(zip(scores[0].tolist(), words[0].tolist(), strict=True))


# ── one token at a time ─────────────────────────────────────────────────────────────────────────────────────────────


class GuidedChoice:
    """Chooses among the words that the script of each sentence permits."""

    def __init__(self, scripts: Sequence[Script], choose: Choose) -> None:
        self.scripts, self.choose = scripts, choose
        self.states: list[State | None] = [script.start() for script in scripts]
        self.written: list[list[int]] = [[] for _ in scripts]

    def __call__(self, log_p: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int) -> Int[Tensor, " B"]:
        sentences = rows.tolist()
        words = np.stack([self.words(n, step) for n in sentences])
        chosen = self.choose(log_p.masked_fill(~torch.from_numpy(words).to(log_p.device), -inf), rows, step)
        for n, word in zip(sentences, chosen.tolist(), strict=True):
            self.write(n, word)
        return chosen

    def words(self, n: int, step: int) -> Bool[np.ndarray, " W"]:
        """The words that may follow in sentence `n`.

        A sentence that has ended may wait in the batch: whatever is written there is not read.
        """
        script, state = self.scripts[n], self.states[n]
        if state is None or step >= script.limit:
            return np.ones(script.spelling.size, bool)
        options = script.options(state, self.written[n])
        (words,) = permitted([options], script, script.limit - step - 1, give_up=True)
        if not words.any():
            words[END] = True  # if nothing may follow, it ends
        # Without other hypotheses to compare with, it is better not to write what is most likely the forbidden word.
        return words & ~options.hanging if (words & ~options.hanging).any() else words

    def write(self, n: int, word: int) -> None:
        state = self.states[n]
        self.states[n] = None if state is None or word == END else self.scripts[n].advance(state, word)
        self.written[n].append(word)
