"""Beam search that lives on the device: all it knows is in tensors of fixed shape, and a step never asks the host anything.

It finds what `beam_search` finds. What differs is how:

    Sentences that are done stay in the batch, but nothing is added to what they have found.
    Hypotheses are not copied along. Each step notes which beam every beam goes on from and by which word; one that ends is
    remembered by its length and the beam it ended in, and its words are traced back when all is over.

Every function here may be recorded as a CUDA graph: shapes are fixed, tensors are written in place, and no number is read.

B sentences · k beams · R room, in steps · S source tokens
"""

from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.decoding.beam import NOTHING, Candidates, continuations, unfinished
from manyheads.decoding.greedy import log_probabilities
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.models.transformer import Transformer
from manyheads.nn import BeamCache, Room
from manyheads.text.tokenizer import BEGIN, END

__all__ = ["Beams", "Found", "begin", "search_step", "trace"]


@dataclass(frozen=True, eq=False)
class Found:
    """The best k finished hypotheses of each sentence, the best first. In an empty place the score is −∞.

    scores             log-probability over length penalty, in double precision: what the host would compare
    ends               length · k + the beam it ended in
    cut                nothing finished: these are beginnings that the bound on the length cut off
    """

    scores: Float[Tensor, "B k"]
    log_probabilities: Float[Tensor, "B k"]
    ends: Int[Tensor, "B k"]
    cut: Bool[Tensor, " B"]

    @classmethod
    def empty(cls, room: Room, device: torch.device) -> "Found":
        places = room.sentences, room.beam
        return cls(
            torch.full(places, -inf, dtype=torch.float64, device=device),
            torch.zeros(places, device=device),
            torch.zeros(places, dtype=torch.int64, device=device),
            torch.zeros(room.sentences, dtype=torch.bool, device=device),
        )

    def add(self, scores: Tensor, log_p: Tensor, ends: Tensor) -> None:
        """Keep the best k of those here and of others; among equals, who was here first."""
        every = torch.cat([self.scores, scores], 1)
        _, order = every.sort(dim=1, descending=True, stable=True)
        best = order[:, : self.scores.shape[1]]
        self.scores.copy_(every.gather(1, best))
        self.log_probabilities.copy_(torch.cat([self.log_probabilities, log_p], 1).gather(1, best))
        self.ends.copy_(torch.cat([self.ends, ends], 1).gather(1, best))

    def closed_to(self, score: Float[Tensor, " B"]) -> Bool[Tensor, " B"]:
        """Is there no room for a hypothesis of this score? (−∞ is the score of none, and of an empty place.)"""
        return (score == -inf) | (self.scores[:, -1] >= score)


@dataclass(frozen=True, eq=False)
class Beams:
    """The state of a search.

    source      ids, padding behind them and in rows that are not used
    limits      tokens that each sentence may have; 0 in rows that are not used
    penalties   of a hypothesis that ends at each step
    going       which sentences are not done
    tokens      the newest word of each beam
    scores      log-probability of what each beam has written
    origins     step by step, which beam each beam went on from …
    words       … and by which word
    """

    cache: BeamCache
    source: Int[Tensor, "B S"]
    limits: Int[Tensor, " B"]
    penalties: Float[Tensor, " R"]
    going: Bool[Tensor, " B"]
    tokens: Int[Tensor, "B k"]
    scores: Float[Tensor, "B k"]
    origins: Int[Tensor, "R B k"]
    words: Int[Tensor, "R B k"]
    found: Found

    @classmethod
    def empty(cls, model: Transformer, room: Room) -> "Beams":
        cache = BeamCache.empty(model.decoder.blocks, room)  # type: ignore[arg-type]
        device, (sentences, beam, source, steps) = cache.step.device, room

        def whole(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        return cls(
            cache,
            source=whole(sentences, source),
            limits=whole(sentences),
            penalties=torch.ones(steps, dtype=torch.float64, device=device),
            going=torch.zeros(sentences, dtype=torch.bool, device=device),
            tokens=whole(sentences, beam),
            scores=torch.zeros(sentences, beam, device=device),
            origins=whole(steps, sentences, beam),
            words=whole(steps, sentences, beam),
            found=Found.empty(room, device),
        )


def begin(model: Transformer, beams: Beams) -> None:
    """Read `source`; nothing is written, nothing is found."""
    beams.cache.begin(model.start(model.encode(beams.source)))
    beams.tokens.fill_(BEGIN)
    beams.scores.fill_(-inf)
    beams.scores[:, 0].zero_()  # at first all beams are alike: one of them counts
    beams.found.scores.fill_(-inf)
    beams.found.ends.zero_()
    beams.found.cut.zero_()
    beams.going.copy_(beams.limits > 0)


def search_step(model: Transformer, beams: Beams, steps: int) -> None:
    """Every beam goes on by a word. `steps` is how many steps are looked at, more than have been made."""
    step, beam = beams.cache.step, beams.cache.room.beam
    log_p = log_probabilities(model.step_beams(beams.tokens, beams.cache, steps).flatten(0, 1))
    candidates = continuations(beams.scores, log_p, [], beams.tokens)
    penalty = beams.penalties.index_select(0, step)
    collect_finished(beams, candidates, penalty)
    scores, origin, words = unfinished(*candidates, beam)
    beams.origins.index_copy_(0, step, origin[None])
    beams.words.index_copy_(0, step, words[None])
    at_limit = beams.limits <= step + 1
    cut_off(beams, at_limit, scores, penalty)
    closed = beams.found.closed_to(scores.max(1).values.double() / penalty)
    beams.going.logical_and_(~(at_limit | closed))
    beams.scores.copy_(scores)
    beams.tokens.copy_(words)
    beams.cache.advance(origin)


def collect_finished(beams: Beams, candidates: Candidates, penalty: Float[Tensor, " 1"]) -> None:
    """Remember what ends among the first k. (An end below them is less likely than k ways to go on.)"""
    beam = beams.tokens.shape[1]
    scores, origin, words = (tensor[:, :beam] for tensor in candidates)
    ends = (words == END) & (scores > -inf) & beams.going[:, None]
    compared = (scores.double() / penalty).masked_fill(~ends, -inf)
    beams.found.add(compared, scores, beams.cache.step * beam + origin)


def cut_off(
    beams: Beams, at_limit: Bool[Tensor, " B"], scores: Float[Tensor, "B k"], penalty: Float[Tensor, " 1"]
) -> None:
    """A sentence at its bound keeps what it has; only if nothing finished are its beginnings given back."""
    found, beam = beams.found, scores.shape[1]
    cut = beams.going & at_limit & (found.scores[:, 0] == -inf)
    there = cut[:, None] & (scores > -inf)
    places = torch.arange(beam, device=scores.device) + (beams.cache.step + 1) * beam
    found.scores.copy_(torch.where(there, scores.double() / penalty, found.scores))
    found.log_probabilities.copy_(torch.where(there, scores, found.log_probabilities))
    found.ends.copy_(torch.where(there, places, found.ends))
    found.cut.logical_or_(cut)


def trace(beams: Beams, steps: int, sentences: int) -> list[list[Hypothesis]]:
    """What was found for the first `sentences`, written out. `steps` have been made. Here, at last, the host reads."""
    found = beams.found
    scores, log_p, ends, cut, origins, words = (
        tensor.cpu().numpy()
        for tensor in (found.scores, found.log_probabilities, found.ends, found.cut, beams.origins[:steps], beams.words[:steps])
    )  # fmt: skip
    lengths, slots = np.divmod(ends, scores.shape[1])
    texts = traced(words, origins, lengths, slots)
    return [
        [
            Hypothesis(texts[n, rank, : lengths[n, rank]].tolist(), float(log_p[n, rank]), float(scores[n, rank]), not cut[n])
            for rank in np.flatnonzero(scores[n] > -inf)
        ]
        or [NOTHING]
        for n in range(sentences)
    ]  # fmt: skip


def traced(
    words: Int[np.ndarray, "R B k"],
    origins: Int[np.ndarray, "R B k"],
    lengths: Int[np.ndarray, "B k"],
    slots: Int[np.ndarray, "B k"],
) -> Int[np.ndarray, "B k R"]:
    """From the last word of each hypothesis back to the first. What lies behind a hypothesis is not to be read."""
    texts = np.zeros((*slots.shape, len(words)), np.int64)
    for step in reversed(range(lengths.max(initial=0))):
        inside = step < lengths
        texts[..., step] = np.take_along_axis(words[step], slots, 1)
        slots = np.where(inside, np.take_along_axis(origins[step], slots, 1), slots)
    return texts
