"""Beam search that lives on the device: its state is in tensors of fixed shape, and a step never reads from the device.

It finds what `beam_search` finds. What differs is how:

    Finished sentences stay in the batch, but nothing is added to what they have found.
    Hypotheses are not copied along. Each step notes which beam every beam continues and by which word; a hypothesis
    that ends is remembered by its length and the beam it ended in, and its words are traced back at the end.

`begin` and `search_step` can be recorded as CUDA graphs: shapes are fixed, tensors are written in place, and no number
is read by the host. `trace` then reads the result.

B sentences · k beams · R room, in steps · S source tokens
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.decoding.beam import Candidates, continuations, unfinished
from manyheads.decoding.ensemble import Ensemble, EnsembleBeams
from manyheads.decoding.greedy import log_probabilities
from manyheads.decoding.hypothesis import NOTHING, Hypothesis
from manyheads.models.transformer import Transformer
from manyheads.nn import BeamCache, Room
from manyheads.text.tokenizer import BEGIN, END

__all__ = ["Beams", "Found", "begin", "search_step", "trace"]


@dataclass(frozen=True, eq=False)
class Found:
    """The best k finished hypotheses of each sentence, the best first. An empty place has the score −∞.

    scores   log-probability over length penalty, in double precision: what the host would compare
    ends     length · k + the beam it ended in
    """

    scores: Float[Tensor, "B k"]
    ends: Int[Tensor, "B k"]

    @classmethod
    def empty(cls, room: Room, device: torch.device) -> "Found":
        places = room.sentences, room.beam
        return cls(
            torch.full(places, -inf, dtype=torch.float64, device=device),
            torch.zeros(places, dtype=torch.int64, device=device),
        )

    def add(self, scores: Float[Tensor, "B k"], ends: Int[Tensor, "B k"]) -> None:
        """Keep the best k of those already here and the given ones; among equals, those already here."""
        beam = scores.shape[1]
        best, order = torch.cat([self.scores, scores], 1).sort(dim=1, descending=True, stable=True)
        self.scores.copy_(best[:, :beam])
        self.ends.copy_(torch.cat([self.ends, ends], 1).gather(1, order[:, :beam]))

    @property
    def worst(self) -> Float[Tensor, " B"]:
        """The score to beat; −∞ while there is an empty place."""
        return self.scores[:, -1]


@dataclass(frozen=True, eq=False)
class Beams:
    """The state of a search.

    source      ids, followed by padding; unused rows hold an end and padding
    last        the step at which each sentence is cut off; −1 in unused rows
    penalties   the length penalty of a hypothesis that ends at each step
    going       which sentences are not done
    tokens      the newest word of each beam
    scores      log-probability of what each beam has written
    origins     for each step, which beam each beam continues …
    words       … by which word …
    reached     … and its score after that: needed for a sentence that is cut off before any hypothesis has ended
    """

    cache: BeamCache | EnsembleBeams
    source: Int[Tensor, "B S"]
    last: Int[Tensor, " B"]
    penalties: Float[Tensor, " R"]
    going: Bool[Tensor, " B"]
    tokens: Int[Tensor, "B k"]
    scores: Float[Tensor, "B k"]
    origins: Int[Tensor, "R B k"]
    words: Int[Tensor, "R B k"]
    reached: Float[Tensor, "R B k"]
    found: Found

    @classmethod
    def empty(cls, model: Transformer | Ensemble, room: Room) -> "Beams":
        cache = model.start_beams(room)
        device, (sentences, beam, source, steps) = cache.step.device, room

        def whole(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        return cls(
            cache,
            source=whole(sentences, source),
            last=whole(sentences),
            penalties=torch.ones(steps, dtype=torch.float64, device=device),
            going=torch.zeros(sentences, dtype=torch.bool, device=device),
            tokens=whole(sentences, beam),
            scores=torch.zeros(sentences, beam, device=device),
            origins=whole(steps, sentences, beam),
            words=whole(steps, sentences, beam),
            reached=torch.zeros(steps, sentences, beam, device=device),
            found=Found.empty(room, device),
        )


def begin(model: Transformer | Ensemble, beams: Beams) -> None:
    """Read `source` and reset the search: nothing is written, nothing is found."""
    asked: Any = model  # a Transformer and an Ensemble have caches of different types
    beams.cache.begin(asked.start(asked.encode(beams.source)))
    beams.tokens.fill_(BEGIN)
    beams.scores.fill_(-inf)
    beams.scores[:, 0].zero_()  # at first all beams are the same: only one of them counts
    beams.found.scores.fill_(-inf)
    beams.found.ends.zero_()
    beams.going.copy_(beams.last >= 0)


def search_step(model: Transformer | Ensemble, beams: Beams, steps: int) -> None:
    """Extend every beam by a word. `steps` is how many steps attention looks at, more than have been made."""
    step, beam = beams.cache.step, beams.cache.room.beam
    asked: Any = model
    log_p = log_probabilities(asked.step_beams(beams.tokens, beams.cache, steps).flatten(0, 1))
    candidates = continuations(beams.scores, log_p, [], beams.tokens)
    penalty = beams.penalties.index_select(0, step)
    collect_finished(beams, candidates, penalty)
    scores, origin, words = unfinished(*candidates, beam)
    for history, now in ((beams.origins, origin), (beams.words, words), (beams.reached, scores)):
        history.index_copy_(0, step, now[None])
    better = scores.max(1).values / penalty > beams.found.worst
    beams.going.logical_and_(better & (beams.last > step))
    beams.scores.copy_(scores)
    beams.tokens.copy_(words)
    beams.cache.advance(origin)


def collect_finished(beams: Beams, candidates: Candidates, penalty: Float[Tensor, " 1"]) -> None:
    """Add the hypotheses that end among the first k. (One that ends below them is less likely than k continuations.)"""
    beam = beams.cache.room.beam
    scores, origin, words = (tensor[:, :beam] for tensor in candidates)
    ends = (words == END) & (scores > -inf) & beams.going[:, None]
    beams.found.add((scores / penalty).masked_fill(~ends, -inf), origin.add(beams.cache.step, alpha=beam))


# ── what was found ──────────────────────────────────────────────────────────────────────────────────────────────────


def trace(beams: Beams, steps: int, limits: Sequence[int]) -> list[list[Hypothesis]]:
    """Return the hypotheses of the sentences with these limits, after `steps` steps.

    Only here does the host read from the device.
    """
    histories = (history[:steps] for history in (beams.origins, beams.words, beams.reached))
    tensors = (beams.found.scores, beams.found.ends, beams.penalties, *histories)
    scores, ends, penalties, origins, words, reached = (tensor.cpu().numpy().copy() for tensor in tensors)
    finished = [bool((row > -inf).any()) for row in scores]
    for n, limit in enumerate(limits):
        if not finished[n] and limit <= steps:
            scores[n], ends[n] = cut_off(reached[limit - 1, n], limit, penalties)
    lengths, slots = np.divmod(ends, scores.shape[1])
    texts = traced(words, origins, lengths, slots)

    def hypothesis(n: int, rank: int) -> Hypothesis:
        length, score = lengths[n, rank], float(scores[n, rank])
        penalty = float(penalties[length - (not finished[n])])
        return Hypothesis(texts[n, rank, :length].tolist(), score * penalty, score, finished[n])

    ranks = [np.flatnonzero(row > -inf).tolist() for row in scores]
    return [[hypothesis(n, rank) for rank in ranks[n]] or [NOTHING] for n in range(len(limits))]


def cut_off(
    reached: Float[np.ndarray, " k"], limit: int, penalties: Float[np.ndarray, " R"]
) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]:
    """(scores, ends) of the beams at the limit. If nothing has ended, these unfinished hypotheses are returned."""
    beam = len(reached)
    scores = np.where(reached > -inf, reached / penalties[limit - 1], -inf)
    return scores, limit * beam + np.arange(beam)


def traced(
    words: Int[np.ndarray, "R B k"],
    origins: Int[np.ndarray, "R B k"],
    lengths: Int[np.ndarray, "B k"],
    slots: Int[np.ndarray, "B k"],
) -> Int[np.ndarray, "B k R"]:
    """The words of each hypothesis, traced back from the last one. Entries past its length must not be read."""
    texts = np.zeros((*slots.shape, len(words)), np.int64)
    for step in reversed(range(lengths.max(initial=0))):
        texts[..., step] = np.take_along_axis(words[step], slots, 1)
        slots = np.where(step < lengths, np.take_along_axis(origins[step], slots, 1), slots)
    return texts
