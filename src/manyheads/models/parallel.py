"""A Transformer that writes all tokens at once: every place of the target sees every other; unknown places hold masks.

    memory = model.encode(source)
    logits = model.decode(target, memory, layout)       of the word at each place; `target` has masks

    model.length(memory)                                "mask": how likely each length is
    model.link(states, last)                            "graph": how likely a path goes from one place to another
    logits, more = model(source, target, …)             all of it

The mask is the id after all words. It is read and never written.

B sentences · S source tokens · T places · L vertices · D width · W words of the target vocabulary
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError
from manyheads.models.config import SPREAD, ParallelConfig
from manyheads.models.transformer import PADDING, Transformer, check_vocabulary
from manyheads.nn import DecoderCache, Layout, Memory, Packed, Padded
from manyheads.nn.eightbits import EightBits
from manyheads.nn.linear import Linear

__all__ = ["LengthPredictor", "Links", "ParallelTransformer", "as_difference", "lengths_of", "likely_lengths"]

Glance = Callable[
    [Float[Tensor, "*target D"], Float[Tensor, "..."] | None, Float[Tensor, "W D"]], Int[Tensor, "*target"]
]
"""A function from states, links and the table of words to the target that is read next."""


class ParallelTransformer(Transformer):
    """A parallel Transformer over `vocabulary` source and target words (or `(source, target)` of each)."""

    def __init__(self, config: ParallelConfig, vocabulary: int | tuple[int, int]) -> None:
        if not isinstance(config, ParallelConfig):
            raise OptionError(
                f"a ParallelTransformer is built from a ParallelConfig, got {type(config).__name__}",
            )
        source, target = check_vocabulary(vocabulary, config.tie)
        super().__init__(config, (source + (config.tie == "all"), target + 1))
        self.mask = target
        self.length = LengthPredictor(config.width) if config.writes == "mask" else None
        self.link = Links(config.width, config.heads) if config.writes == "graph" else None

    def forward(  # type: ignore[override]
        self, source: Int[Tensor, "*source"], target: Int[Tensor, "*target"],
        source_layout: Layout | None = None, target_layout: Layout | None = None, glance: Glance | None = None,
    ) -> tuple[Float[Tensor, "*target W"], Float[Tensor, "..."] | None]:  # fmt: skip
        """Logits of the word at every place; and log P of the lengths, or of the links, or None."""
        states, more = self.read(source, target, source_layout, target_layout, glance)
        return self.logits(states), more

    def read(
        self, source: Int[Tensor, "*source"], target: Int[Tensor, "*target"],
        source_layout: Layout | None = None, target_layout: Layout | None = None, glance: Glance | None = None,
    ) -> tuple[Float[Tensor, "*target D"], Float[Tensor, "..."] | None]:  # fmt: skip
        """The same as `forward`, but with the states that logits are made of.

        If there is a `glance`, it chooses the target that is read, after a first look without gradients.
        """
        memory = self.encode(source, source_layout)
        if glance is not None:
            with torch.no_grad():
                states, links = self.look(target, memory, target_layout)
                target = glance(states, links, cast(Tensor, self.output_words))  # what learns is not in 8 bits
        return self.look(target, memory, target_layout)

    def look(
        self, target: Int[Tensor, "*target"], memory: Memory, target_layout: Layout | None = None
    ) -> tuple[Float[Tensor, "*target D"], Float[Tensor, "..."] | None]:
        target_layout = target_layout or Padded.like(target, keep=target != PADDING)
        states = self.states(target, memory, target_layout)
        if self.length is not None:
            return states, self.length(memory)
        if self.link is not None:
            return states, self.link(states, lengths_of(target_layout) - 1)
        return states, None

    def look_again(self, target: Int[Tensor, "B T"], cache: DecoderCache, layout: Padded) -> Float[Tensor, "B T D"]:
        """The states of all places, for sentences whose memory is in the cache.

        The memory is read many times, but its keys and values are computed only once.
        """
        x = self.embed_target((self.target_words or self.words)(target), layout)
        return self.decoder(x, layout, cache.memory, cache.memory_layout, readers=cache.readers)

    @property
    def output_words(self) -> Float[Tensor, "W D"] | EightBits:
        """The vectors of all words but the mask."""
        return super().output_words[: self.mask]


class LengthPredictor(nn.Module):
    """Predicts the length of a target from the last token of its source, which has seen all of the source.

    The length is relative to the source: lengths that were never seen in training are no harder than others.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, 2 * SPREAD + 1)
        nn.init.normal_(self.output.weight, std=width**-0.5)
        nn.init.zeros_(self.output.bias)

    def forward(self, memory: Memory) -> Float[Tensor, "B differences"]:
        """log P of each difference, from −SPREAD to SPREAD."""
        return self.output(last_tokens(memory.states[-1], memory.layout)).float().log_softmax(-1)


def last_tokens(x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "B D"]:
    """The last token of each sequence; for an empty sequence, an arbitrary one."""
    if isinstance(layout, Packed):
        return x[(layout.offsets[1:] - 1).clamp(min=0)]
    return x[torch.arange(layout.batch, device=x.device), lengths_of(layout) - 1]


def lengths_of(layout: Layout) -> Int[Tensor, " B"]:
    """Tokens of each sequence."""
    if isinstance(layout, Packed):
        return layout.lengths
    if layout.keep is None:
        return torch.full((layout.batch,), layout.shape[1], device=layout.positions.device)
    return layout.keep.sum(1)


def as_difference(target: Int[Tensor, "*B"], source: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
    """The class of a length; lengths out of reach count as the farthest class."""
    return (target - source).clamp(-SPREAD, SPREAD) + SPREAD


def likely_lengths(
    log_p: Float[Tensor, "B differences"], source: Int[Tensor, " B"], count: int, longest: int
) -> tuple[Int[Tensor, "B count"], Float[Tensor, "B count"]]:
    """The `count` likeliest lengths of each target, from 1 to `longest` tokens, and their log-probabilities.

    If there are fewer such lengths, the others have probability 0.
    """
    lengths = source[:, None] + torch.arange(-SPREAD, SPREAD + 1, device=source.device)
    possible = (lengths >= 1) & (lengths <= longest)
    best = log_p.masked_fill(~possible, -torch.inf).topk(min(count, log_p.shape[1]))
    return lengths.gather(1, best.indices).clamp(1, longest), best.values


class Links(nn.Module):
    """The links between the vertices of a graph: a mixture of attentions, each of which looks only forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = Linear(width, width), Linear(width, width)
        self.gate = nn.Linear(width, heads)
        for layer in (self.query, self.key):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.normal_(self.gate.weight, std=width**-0.5)
        nn.init.zeros_(self.gate.bias)

    def forward(self, x: Float[Tensor, "B L D"], last: Int[Tensor, " B"]) -> Float[Tensor, "B L L"]:
        """log P that a path goes from a vertex (a row) to another.

        The probabilities of a row add up to 1 if any vertex can follow; otherwise all are 0.
        """
        queries, keys = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key))
        gates = self.gate(x)
        with torch.autocast(x.device.type, enabled=False):  # a path adds up one link per word, so errors would, too
            scores = queries.float() @ keys.float().mT / math.sqrt(queries.shape[-1])
            ahead = forward_links(x.shape[1], last)[:, None]
            # A row without a successor stays finite here, so that no gradient is NaN; its links are removed in the end.
            log_p = scores.masked_fill(~ahead, torch.finfo(scores.dtype).min).log_softmax(-1)
            mixed = (log_p + gates.float().log_softmax(-1).mT[..., None]).logsumexp(1)
        return mixed.masked_fill(~ahead[:, 0], -torch.inf)


def forward_links(vertices: int, last: Int[Tensor, " B"]) -> Bool[Tensor, "B L L"]:
    """Which vertex may follow which: a later one, not beyond the last."""
    place = torch.arange(vertices, device=last.device)
    return (place[None, None, :] > place[None, :, None]) & (place[None, None, :] <= last[:, None, None])
