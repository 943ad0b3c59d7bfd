"""Beam search: the best few beginnings of each sentence are continued together.

At each step every beginning is continued by every word, and the best of all continuations of a sentence are kept. A
hypothesis that ends leaves the beam and is remembered. A sentence is done when it has `beam` finished hypotheses and no
beginning scores better than the worst of them, or when no beginning is left; it then leaves the batch.

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
        """True if there is no place for a hypothesis of this score. (−∞ is the score of none.)"""
        return score == -inf or (len(self.best) == self.room and self.best[-1].score >= score)


Candidates = tuple[Float[Tensor, "B c"], Int[Tensor, "B c"], Int[Tensor, "B c"]]
"""(scores, which beam they continue, by which word), the best first."""

Follow = Callable[[Float[Tensor, "B k"], Float[Tensor, "Bk W"], list[int], Int[Tensor, "Bk T"]], Candidates]
"""(scores, log-probabilities of the next word, the sentence of each k rows, what is written) → the continuations."""


def continuations(
    scores: Float[Tensor, "B k"], log_p: Float[Tensor, "Bk W"], rows: list[int], written: Int[Tensor, "Bk T"]
) -> Candidates:
    """The 2k best: even if k of them end, k are left to continue."""
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
    """Return up to `beam` hypotheses for each sentence, the best first, no longer than its entry in `limits`."""
    found = [Finished(beam) for _ in limits]
    rows = list(range(len(limits)))  # the sentence of each k rows of the batch
    cache = model.start(model.encode(source))
    cache.share(beam)
    tokens = torch.full((len(rows) * beam, 1), BEGIN, device=source.device)
    written = tokens[:, :0]
    scores = torch.full((len(rows), beam), -inf, device=source.device)
    scores[:, 0] = 0  # at first all beams are the same: only one of them counts
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
    """Add the hypotheses that end among the first k. (One that ends below them is less likely than k continuations.)"""
    scores, origin, words = (tensor[:, :beam] for tensor in candidates)
    n, rank = ((words == END) & (scores > -inf)).nonzero(as_tuple=True)
    ended = written[n * beam + origin[n, rank]].tolist(), scores[n, rank].tolist()
    for sentence, ids, score in zip(n.tolist(), *ended, strict=True):
        found[rows[sentence]].add(Hypothesis(ids, score, score / penalty, finished=True))


def cut_off(
    found: list[Finished], rows: list[int], at_limit: list[bool], written: Tensor, scores: Tensor, penalty: float
) -> None:
    """A sentence at its limit keeps what has ended; if nothing has, its unfinished hypotheses are returned."""
    beam = scores.shape[1]
    for n, row in enumerate(rows):
        if at_limit[n] and not found[row].best:
            for rank, score in enumerate(scores[n].tolist()):
                if score > -inf:
                    ids = written[n * beam + rank].tolist()
                    found[row].add(Hypothesis(ids, score, score / penalty, finished=False))
