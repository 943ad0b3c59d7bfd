"""Decode one token at a time: the likeliest, or one drawn at random. Finished sentences leave the batch.

B sentences · S source tokens · W words
"""

from collections.abc import Callable, Sequence
from math import isfinite

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

    Every word gets a random number, and the likeliest for its number is taken. The numbers are a function of (seed,
    number of the sentence, step), so a draw does not depend on the batch: rounding may bring two words that are
    practically alike into another order, and nothing else. (A single number, compared with sums of probabilities,
    would fall beside every word whose sum has been rounded otherwise.)
    """

    def __init__(self, numbers: Sequence[int], *, temperature: float, top_k: int, top_p: float, seed: int) -> None:
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.keys = mixed(mixed(torch.tensor(seed)) + torch.tensor(numbers))

    def __call__(self, log_p: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int) -> Int[Tensor, " B"]:
        p = self.narrowed((log_p.double() / self.temperature).softmax(-1))
        self.keys = self.keys.to(p.device)
        # Exponential numbers, each divided by a probability: the smallest is as often that of a word as it is likely.
        return (exponentials(mixed(self.keys[rows] + step), p.shape[1]) / p).argmin(-1)

    def narrowed(self, p: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
        """Set all but the likeliest words to 0, if top_k or top_p asks for it."""
        if not self.top_k and self.top_p == 1:
            return p
        sizes, words = p.sort(descending=True, stable=True)
        kept = sizes.cumsum(-1) - sizes < self.top_p
        if self.top_k:
            kept[:, self.top_k :] = False
        return torch.zeros_like(p).scatter(1, words, torch.where(kept, sizes, 0))


# ── random numbers that are a function of their key (splitmix64) ────────────────────────────────────────────────────

GOLDEN, FACTORS = 0x9E3779B97F4A7C15 - 2**64, (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)


def exponentials(keys: Int[Tensor, " B"], count: int) -> Float[Tensor, "B count"]:
    """Exponentially distributed numbers for each key, all above 0."""
    bits = mixed(keys[:, None] + GOLDEN * torch.arange(1, count + 1, device=keys.device))
    return shifted(bits, 12).double().add_(0.5).mul_(2**-52).log_().neg_()


def mixed(z: Int[Tensor, "*keys"]) -> Int[Tensor, "*keys"]:
    """Other bits for each key, which look random even where keys are neighbours."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        z = (z ^ shifted(z, shift)) * factor
    return z ^ shifted(z, 31)


def shifted(z: Int[Tensor, "*keys"], by: int) -> Int[Tensor, "*keys"]:
    """z moved to the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)
