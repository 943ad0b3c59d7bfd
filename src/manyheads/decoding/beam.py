"""Beam search: the best few beginnings of each sentence are carried on together.

At each step every beginning is continued by every word, and of all continuations of a sentence the best are kept. One
that ends leaves the beam and is remembered. A sentence is done when it has `beam` finished hypotheses and no beginning
scores better than the worst of them, or no beginning is left; it then leaves the batch.

B sentences · k beam · W words
"""

from collections.abc import Callable, Sequence
from math import inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.greedy import next_log_probabilities
from manyheads.decoding.hypothesis import NOTHING, Hypothesis, length_penalty
from manyheads.decoding.steps import StepModel
from manyheads.text.tokenizer import BEGIN, END

__all__ = ["Candidates", "Follow", "beam_search", "continuations"]


class Finished:
    """The best finished hypotheses of one sentence."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.best: list[Hypothesis] = []

    def add(self, hypothesis: Hypothesis) -> None:
        self.best.append(hypothesis)
        self.best.sort(key=lambda h: -h.score)
        del self.best[self.room :]

    def closed_to(self, score: float) -> bool:
        """Is there no room for a hypothesis of this score? (−∞ is the score of none.)"""
        return score == -inf or (len(self.best) == self.room and self.best[-1].score >= score)


Candidates = tuple[Float[Tensor, "B c"], Int[Tensor, "B c"], Int[Tensor, "B c"]]
"""(scores, which beam they continue, by which word), the best first."""

Follow = Callable[[Float[Tensor, "B k"], Float[Tensor, "Bk W"], list[int], Int[Tensor, "Bk T"]], Candidates]
"""(scores, log-probabilities of the next word, which sentence each k rows are, what is written) → the continuations."""


def continuations(
    scores: Float[Tensor, "B k"], log_p: Float[Tensor, "Bk W"], rows: list[int], written: Int[Tensor, "Bk T"]
) -> Candidates:
    """The 2k best: even if k of them end, k go on."""
    sentences, beam = scores.shape
    words = log_p.shape[1]
    every = (scores[:, :, None] + log_p.view(sentences, beam, words)).flatten(1)
    best, place = every.topk(min(2 * beam, every.shape[1]), sorted=True)
    return best, place // words, place % words


def beam_search(
    model: StepModel,
    source: Int[Tensor, "B S"],
    limits: Sequence[int],
    *,
    beam: int,
    alpha: float,
    follow: Follow = continuations,
) -> list[list[Hypothesis]]:
    """Up to `beam` hypotheses for each sentence, the best first, each of at most `limits` tokens."""
    found = [Finished(beam) for _ in limits]
    rows = list(range(len(limits)))  # which sentence each k rows of the batch are
    cache = model.start(model.encode(source))
    cache.select(torch.arange(len(rows), device=source.device).repeat_interleave(beam))
    tokens = torch.full((len(rows) * beam, 1), BEGIN, device=source.device)
    written = tokens[:, :0]
    scores = torch.full((len(rows), beam), -inf, device=source.device)
    scores[:, 0] = 0  # at first all beams are alike: one of them counts
    for step in range(max(limits)):
        log_p = next_log_probabilities(model, tokens, cache)
        scores, origin, words = follow(scores, log_p, rows, written)
        penalty = length_penalty(step + 1, alpha)
        collect_finished(found, rows, written, (scores, origin, words), penalty, beam)
        scores, origin, words = unfinished(scores, origin, words, beam)
        origin = origin + beam * torch.arange(len(rows), device=origin.device)[:, None]  # a row of the batch
        written = torch.cat([written[origin.flatten()], words.flatten()[:, None]], 1)
        best = scores.max(1).values.tolist()
        at_limit = [step + 1 >= limits[row] for row in rows]
        cut_off(found, rows, at_limit, written, scores, penalty)
        staying = [n for n, row in enumerate(rows) if not at_limit[n] and not found[row].closed_to(best[n] / penalty)]
        if not staying:
            break
        if len(staying) < len(rows):
            rows = [rows[n] for n in staying]
            stay = torch.tensor(staying, device=source.device)
            scores, origin, words = scores[stay], origin[stay], words[stay]
            written = written.view(-1, beam, step + 1)[stay].flatten(0, 1)
            cache.select(origin.flatten())
        else:
            cache.reorder(origin.flatten())
        tokens = words.flatten()[:, None]
    return [sentence.best or [NOTHING] for sentence in found]


def unfinished(scores: Tensor, origin: Tensor, words: Tensor, beam: int) -> Candidates:
    """The first k that do not end."""
    ended, count = words == END, scores.shape[1]
    rank = torch.arange(count, device=scores.device).add(ended, alpha=count)
    chosen = rank.argsort(-1)[:, :beam]
    scores = scores.masked_fill(ended, -inf)
    return scores.gather(1, chosen), origin.gather(1, chosen), words.gather(1, chosen)


def collect_finished(
    found: list[Finished], rows: list[int], written: Tensor, candidates: Candidates, penalty: float, beam: int
) -> None:
    """Remember what ends among the first k. (An end below them is less likely than k ways to go on.)"""
    scores, origin, words = (tensor[:, :beam] for tensor in candidates)
    n, rank = ((words == END) & (scores > -inf)).nonzero(as_tuple=True)
    ended = written[n * beam + origin[n, rank]].tolist(), scores[n, rank].tolist()
    for sentence, ids, score in zip(n.tolist(), *ended, strict=True):
        found[rows[sentence]].add(Hypothesis(ids, score, score / penalty, finished=True))


def cut_off(
    found: list[Finished], rows: list[int], at_limit: list[bool], written: Tensor, scores: Tensor, penalty: float
) -> None:
    """A sentence at its bound keeps what it has; only if nothing finished are its beginnings given back."""
    beam = scores.shape[1]
    for n, row in enumerate(rows):
        if at_limit[n] and not found[row].best:
            for rank, score in enumerate(scores[n].tolist()):
                if score > -inf:
                    ids = written[n * beam + rank].tolist()
                    found[row].add(Hypothesis(ids, score, score / penalty, finished=False))
