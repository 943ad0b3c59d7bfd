"""Mask-predict (Ghazvininejad et al. 2019): all places are filled in at once; then those that the model is least sure of are masked and filled in
again, fewer each time.

With N places and I iterations, ⌊N · (I − i) / I⌋ of them are masked again after the i-th. What is written in a place that is not masked stays,
with the probability that it had when it was written.

R rows: a sentence and one length that it may have · T places of the longest · W words
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.models.parallel import ParallelTransformer
from manyheads.nn import DecoderCache, Padded

__all__ = ["Filled", "fill_in", "masked_again", "predict_words"]


@dataclass(frozen=True, eq=False)
class Filled:
    """What stands after an iteration.

    words             in every place
    log_probability   of each word, when it was written
    written           where it was written in this iteration
    """

    words: Int[Tensor, "R T"]
    log_probability: Float[Tensor, "R T"]
    written: Bool[Tensor, "R T"]


@torch.no_grad()
def fill_in(
    model: ParallelTransformer,
    cache: DecoderCache,
    lengths: Int[Tensor, " R"],
    iterations: int,
    first: int = 0,
    seen: Callable[[Filled], None] = lambda _: None,
    most: int | None = None,
) -> Filled:
    """Words for so many places of each row; places beyond them say nothing.

    cache    what the rows read, in front of it
    first    the first id that may be written
    seen     is shown what stands after every iteration
    most     places of the longest row; if it is said, no number is read from the device, and all of it may be recorded
    """
    most = most or int(lengths.max())
    places = torch.arange(most, device=lengths.device)
    layout = Padded((len(lengths), most), places, most, places < lengths[:, None])
    missing = layout.keep
    assert missing is not None
    filled = Filled(
        torch.full(layout.shape, model.mask, device=lengths.device),
        torch.zeros(layout.shape, device=lengths.device),
        missing,
    )
    for iteration in range(1, iterations + 1):
        words, log_p = predict_words(model, filled.words.masked_fill(missing, model.mask), cache, layout, first)
        filled = Filled(
            torch.where(missing, words, filled.words), torch.where(missing, log_p, filled.log_probability), missing
        )
        seen(filled)
        if not most * (iterations - iteration) // iterations:
            break
        missing = masked_again(filled.log_probability, lengths, lengths * (iterations - iteration) // iterations)
    return filled


def predict_words(
    model: ParallelTransformer,
    target: Int[Tensor, "R T"],
    cache: DecoderCache,
    layout: Padded,
    first: int,
) -> tuple[Int[Tensor, "R T"], Float[Tensor, "R T"]]:
    """The likeliest word in every place, and how likely it is."""
    logits = model.fill(target, cache, layout).float()
    logits[..., :first] = -torch.inf
    best = logits.log_softmax(-1).max(-1)
    return best.indices, best.values


def masked_again(
    log_p: Float[Tensor, "R T"], lengths: Int[Tensor, " R"], count: Int[Tensor, " R"]
) -> Bool[Tensor, "R T"]:
    """The places that the model was least sure of, `count` in each row; of places that it was equally sure of, the first."""
    places = torch.arange(log_p.shape[1], device=log_p.device)
    order = log_p.masked_fill(places >= lengths[:, None], torch.inf).argsort(dim=-1, stable=True)
    rank = torch.empty_like(order).scatter_(1, order, places.expand_as(order))
    return rank < count[:, None]
