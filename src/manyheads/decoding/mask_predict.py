"""Mask-predict (Ghazvininejad et al. 2019): fill in all places at once, mask the least sure, and fill those in again.

Each iteration masks fewer. With N places and I iterations, ⌊N · (I − i) / I⌋ of them are masked again after the i-th. A
word in a place that is not masked stays, with the probability that it had when it was written.

R rows: a sentence and one length that it may have · T places of the longest
P places whose words are requested · W words
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
"""Places whose logits fit into a CPU's cache."""


@dataclass(frozen=True, eq=False)
class Filled:
    """The state after an iteration.

    words             in every place
    log_probability   of each word, when it was written
    written           which places were written in this iteration
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
    """Write words in the first places of each row, as many as its length; what stands behind them means nothing.

    cache    of the decoder, with the source that each row reads
    first    the first id that may be written
    seen     is shown the state after every iteration
    most     places of the longest row; if given, no number is read from the device, so that all of it can be recorded
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
        asked = order[:, : most * left // iterations]  # these include all that are missing
    return filled


def likeliest(
    model: ParallelTransformer, states: Float[Tensor, "R P D"], first: int
) -> tuple[Int[Tensor, "R P"], Float[Tensor, "R P"]]:
    """The likeliest word from `first` on in every place, and its log P among these words.

    On a CPU a few places at a time: their logits are read three times, from the cache, and those of all places are
    never held.
    """
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
    """Logits with −∞ for ids below `first`, which are never written."""
    return logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) < first, -torch.inf)


def written(
    filled: Filled,
    missing: Bool[Tensor, "R T"],
    asked: Int[Tensor, "R P"],
    words: Int[Tensor, "R P"],
    log_p: Float[Tensor, "R P"],
) -> Filled:
    """Put new words in the requested places, if they are missing."""
    new = missing.gather(1, asked)
    return Filled(
        filled.words.scatter(1, asked, torch.where(new, words, filled.words.gather(1, asked))),
        filled.log_probability.scatter(1, asked, torch.where(new, log_p, filled.log_probability.gather(1, asked))),
        missing,
    )


def masked_again(
    log_p: Float[Tensor, "R T"], lengths: Int[Tensor, " R"], count: Int[Tensor, " R"]
) -> tuple[Int[Tensor, "R T"], Bool[Tensor, "R T"]]:
    """The places in the order of how sure the model was of them, and which of them are masked again.

    The least sure place comes first; among equals, the leftmost; those behind the end of a row come last. The first
    `count` of each row are masked again.
    """
    places = torch.arange(log_p.shape[1], device=log_p.device)
    order = log_p.masked_fill(places >= lengths[:, None], torch.inf).argsort(dim=-1, stable=True)
    rank = torch.empty_like(order).scatter_(1, order, places.expand_as(order))
    return order, rank < count[:, None]
