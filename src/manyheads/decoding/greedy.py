"""Decode one token at a time: the likeliest, or one drawn at random. Finished sentences leave the batch.

B sentences · S source tokens · W words
"""

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import NOTHING, Hypothesis, length_penalty
from manyheads.decoding.steps import Rows, StepModel
from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["Choose", "Sampler", "decode_one_by_one", "likeliest", "log_probabilities", "next_log_probabilities"]

Choose = Callable[[Float[Tensor, "B W"], Int[Tensor, " B"], int], Int[Tensor, " B"]]
"""(log-probabilities, the sentence of each row, step) → the next token of each row."""


def likeliest(log_p: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int) -> Int[Tensor, " B"]:
    return log_p.argmax(-1)


def decode_one_by_one(
    model: StepModel,
    source: Int[Tensor, "B S"],
    limits: Sequence[int],
    alpha: float = 0.0,
    choose: Choose = likeliest,
) -> list[Hypothesis]:
    """Return one hypothesis for each sentence, no longer than its entry in `limits`."""
    cache = model.start(model.encode(source))
    count, device = len(source), source.device
    rows = torch.arange(count, device=device)
    limit = torch.tensor(limits, device=device)
    tokens = torch.full((count, 1), BEGIN, device=device)
    going = torch.ones_like(rows, dtype=torch.bool)
    words, gains = [], []  # one column per step; entries after a sentence's end or limit are not read
    for step in range(max(limits)):
        log_p = next_log_probabilities(model, tokens, cache)
        chosen = choose(log_p, rows, step)
        words.append(rows.new_zeros(count).index_copy(0, rows, chosen))
        gains.append(log_p.new_zeros(count).index_copy(0, rows, log_p.gather(1, chosen[:, None])[:, 0]))
        going &= (chosen != END) & (step + 1 < limit)
        staying = going.nonzero()[:, 0]
        if len(staying) == 0:
            break
        if len(staying) <= 0.9 * len(rows):  # dropping rows copies the others: wait until a tenth are done
            cache.select(staying)
            rows, limit, going, chosen = (tensor[staying] for tensor in (rows, limit, going, chosen))
        tokens = chosen[:, None]
    columns = torch.stack(words, 1).tolist(), torch.stack(gains, 1).tolist()
    return [hypothesis(ids[:most], log_p, alpha) for ids, log_p, most in zip(*columns, limits, strict=True)]


def hypothesis(ids: list[int], log_p: list[float], alpha: float) -> Hypothesis:
    """The hypothesis that `ids` spell, up to the first end."""
    finished = END in ids
    tokens = ids.index(END) + 1 if finished else len(ids)
    total = sum(log_p[:tokens])
    if not isfinite(total):
        return NOTHING
    return Hypothesis(ids[: tokens - finished], total, total / length_penalty(tokens, alpha), finished)


def next_log_probabilities(model: StepModel, tokens: Int[Tensor, "B 1"], cache: Rows) -> Float[Tensor, "B W"]:
    """Log-probabilities of the token after `tokens`."""
    return log_probabilities(model.step(tokens, cache)[:, -1])


def log_probabilities(logits: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
    """Log-probabilities, normalised as in `Translator.score`. Padding and begin are never written."""
    log_p = logits.float().log_softmax(-1)
    for never in (PADDING, BEGIN):
        log_p[:, never].fill_(-torch.inf)
    return log_p


class Sampler:
    """Draws tokens from the model's distribution.

    temperature   below 1, less likely words become rarer; above 1, more frequent
    top_k         only the k likeliest words; 0 = all
    top_p         only the likeliest words that together have probability p; 1 = all

    A draw is a function of (seed, number of the sentence, step): it does not depend on the batch.
    """

    def __init__(
        self, numbers: Sequence[int], longest: int, *, temperature: float, top_k: int, top_p: float, seed: int
    ) -> None:
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        draws = [
            np.random.Generator(np.random.Philox(key=np.array([seed, n], np.uint64))).random(longest, np.float32)
            for n in numbers
        ]
        self.draws = torch.from_numpy(np.stack(draws))

    def __call__(self, log_p: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int) -> Int[Tensor, " B"]:
        p = self.narrowed((log_p.double() / self.temperature).softmax(-1))
        # Sum in the order of ids. Sorted by probability, two nearly equal words would swap places with the rounding,
        # and so with the batch.
        sums = p.cumsum(-1)
        self.draws = self.draws.to(log_p.device)
        draw = self.draws[rows, step] * sums[:, -1]
        place = torch.searchsorted(sums, draw[:, None], right=True)[:, 0]
        # Rounding may point past the last word with a probability. (If the numbers are not finite, no word has one.)
        ids = torch.arange(p.shape[1], device=p.device)
        return torch.minimum(place, torch.where(p > 0, ids, 0).amax(-1))

    def narrowed(self, p: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
        """Set all but the likeliest words to 0, if top_k or top_p asks for it."""
        if not self.top_k and self.top_p == 1:
            return p
        sizes, words = p.sort(descending=True, stable=True)
        kept = sizes.cumsum(-1) - sizes < self.top_p
        if self.top_k:
            kept[:, self.top_k :] = False
        return torch.zeros_like(p).scatter(1, words, torch.where(kept, sizes, 0))
