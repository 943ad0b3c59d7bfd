"""One token after the other: the likeliest, or one drawn at random. Sentences that are finished leave the batch.

B sentences · S source tokens · W words
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.models.transformer import Transformer
from manyheads.text.tokenizer import BEGIN, END, PADDING

__all__ = ["Choose", "Sampler", "decode_one_by_one", "likeliest", "next_log_probabilities"]

Choose = Callable[[Float[Tensor, "B W"], Int[Tensor, " B"], int], Int[Tensor, " B"]]
"""(log-probabilities, which sentence each row is, step) → the next token of each."""


def likeliest(log_p: Float[Tensor, "B W"], rows: Int[Tensor, " B"], step: int) -> Int[Tensor, " B"]:
    return log_p.argmax(-1)


def decode_one_by_one(
    model: Transformer,
    source: Int[Tensor, "B S"],
    limits: Sequence[int],
    alpha: float = 0.0,
    choose: Choose = likeliest,
) -> list[Hypothesis]:
    """One hypothesis for each sentence, of at most `limits` tokens each."""
    device = source.device
    cache = model.start(model.encode(source))
    rows = torch.arange(len(source), device=device)
    limit = torch.tensor(limits, device=device)
    tokens = torch.full((len(source), 1), BEGIN, device=device)
    total = torch.zeros(len(source), device=device)
    # What each sentence has written, and where it ended. A row that is done may go on for a while: it is not read.
    written = torch.full((len(source), max(limits)), PADDING, device=device)
    lengths = torch.zeros_like(limit)
    finished = torch.zeros_like(limit, dtype=torch.bool)
    done = torch.zeros_like(finished)
    for step in range(max(limits)):
        log_p = next_log_probabilities(model, tokens, cache)
        chosen = choose(log_p, rows, step)
        going = ~done[rows]
        total[rows] += torch.where(going, log_p.gather(1, chosen[:, None])[:, 0], 0)
        ends = chosen == END
        written[rows, step] = torch.where(going & ~ends, chosen, PADDING)
        lengths[rows] += (going & ~ends).long()
        finished[rows] |= going & ends
        done[rows] |= ends | (step + 1 >= limit[rows])
        staying = (~done[rows]).nonzero()[:, 0]
        if len(staying) == 0:
            break
        if len(staying) <= 0.9 * len(rows):  # moving the others costs a copy: a few wait for company
            cache.select(staying)
            rows, chosen = rows[staying], chosen[staying]
        tokens = chosen[:, None]
    ids = written.tolist()
    outputs = zip(ids, lengths.tolist(), total.tolist(), finished.tolist(), strict=True)
    return [
        Hypothesis(row[:length], log_p, log_p / length_penalty(length + ended, alpha), ended)
        for row, length, log_p, ended in outputs
    ]


def next_log_probabilities(model: Transformer, tokens: Int[Tensor, "B 1"], cache: object) -> Float[Tensor, "B W"]:
    """Of the token after `tokens`. Padding and begin are never written."""
    logits = model.step(tokens, cache)[:, -1].float()  # type: ignore[arg-type]
    logits[:, [PADDING, BEGIN]] = -torch.inf
    return logits.log_softmax(-1)


class Sampler:
    """Tokens drawn from the model's distribution.

    temperature   below 1 bolder words become rarer, above 1 more frequent
    top_k         only the k likeliest words; 0 = all
    top_p         only the likeliest words that together have probability p; 1 = all

    The draws of a sentence are a function of (seed, its number, step): they do not depend on the batch it is in.
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
        p, words = (log_p / self.temperature).softmax(-1).sort(descending=True)
        before = p.cumsum(-1) - p
        p = torch.where(before < self.top_p, p, 0)
        if self.top_k:
            p[:, self.top_k :] = 0
        sums = p.cumsum(-1)
        draw = self.draws.to(log_p.device)[rows, step] * sums[:, -1]
        place = torch.searchsorted(sums, draw[:, None], right=True).clamp(max=p.shape[1] - 1)
        # Rounding may point one beyond the last word that may be drawn.
        place = torch.minimum(place, (p > 0).sum(-1, keepdim=True) - 1)
        return words.gather(1, place)[:, 0]
