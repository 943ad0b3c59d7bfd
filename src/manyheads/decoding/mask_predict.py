"""Mask-predict (Ghazvininejad et al. 2019): all places are filled in at once; then those that the model is least sure of are masked and filled in
again, fewer each time.

With N places and I iterations, ⌊N · (I − i) / I⌋ of them are masked again after the i-th. What is written in a place that is not masked stays,
with the probability that it had when it was written.

R rows: a sentence and one length that it may have · T places of the longest · P places whose words are asked for · W words
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.models.parallel import ParallelTransformer
from manyheads.nn import DecoderCache, Padded

__all__ = ["Filled", "fill_in", "likeliest", "masked_again", "words_alone"]


AT_A_TIME = 128
"""Places whose logits fit into a cache."""


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
    assert layout.keep is not None
    filled = Filled(
        torch.full(layout.shape, model.mask, device=lengths.device),
        torch.zeros(layout.shape, device=lengths.device),
        layout.keep,
    )
    missing, asked = layout.keep, places.expand(layout.shape)
    for iteration in range(1, iterations + 1):
        states = model.look_again(filled.words.masked_fill(missing, model.mask), cache, layout)
        states = states.gather(1, asked[..., None].expand(-1, -1, states.shape[-1]))
        filled = written(filled, missing, asked, *likeliest(model, states, first))
        seen(filled)
        left = iterations - iteration
        if not most * left // iterations:
            break
        order, missing = masked_again(filled.log_probability, lengths, lengths * left // iterations)
        asked = order[:, : most * left // iterations]  # all that are missing are among them
    return filled


def likeliest(
    model: ParallelTransformer, states: Float[Tensor, "R P D"], first: int
) -> tuple[Int[Tensor, "R P"], Float[Tensor, "R P"]]:
    """The likeliest word from `first` on in every place, and log P of it among these. On a CPU a few places at a time: their logits are read three times,
    from the cache, and those of all places are never held."""
    places = states.flatten(0, 1)
    found = [best_word(model, some, first) for some in (places.split(AT_A_TIME) if places.is_cpu else [places])]
    words, log_p = (torch.cat(parts).view(states.shape[:2]) for parts in zip(*found, strict=True))
    return words, log_p


def best_word(
    model: ParallelTransformer, states: Float[Tensor, "P D"], first: int
) -> tuple[Int[Tensor, " P"], Float[Tensor, " P"]]:
    logits = model.logits(states)[:, first:].float()
    best = logits.max(-1)
    return best.indices + first, best.values - logits.logsumexp(-1)


def words_alone(logits: Float[Tensor, "*P W"], first: int) -> Float[Tensor, "*P W"]:
    """What comes before the first word is never written."""
    return logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) < first, -torch.inf)


def written(
    filled: Filled,
    missing: Bool[Tensor, "R T"],
    asked: Int[Tensor, "R P"],
    words: Int[Tensor, "R P"],
    log_p: Float[Tensor, "R P"],
) -> Filled:
    """New words in the places that were asked for, if they are missing."""
    new = missing.gather(1, asked)
    return Filled(
        filled.words.scatter(1, asked, torch.where(new, words, filled.words.gather(1, asked))),
        filled.log_probability.scatter(1, asked, torch.where(new, log_p, filled.log_probability.gather(1, asked))),
        missing,
    )


def masked_again(
    log_p: Float[Tensor, "R T"], lengths: Int[Tensor, " R"], count: Int[Tensor, " R"]
) -> tuple[Int[Tensor, "R T"], Bool[Tensor, "R T"]]:
    """The places by how sure the model was of them, the least sure first (of places that it was equally sure of, the first), those behind the end of
    a row last; and the first `count` of each row."""
    places = torch.arange(log_p.shape[1], device=log_p.device)
    order = log_p.masked_fill(places >= lengths[:, None], torch.inf).argsort(dim=-1, stable=True)
    rank = torch.empty_like(order).scatter_(1, order, places.expand_as(order))
    return order, rank < count[:, None]
