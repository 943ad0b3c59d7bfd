"""A decoder alone: it reads a text up to a token, and predicts the next one.

    logits = model(ids)                             at every position, for training and scoring
    states = model.states(ids)                      the states behind these logits: model.logits(states)
    cache  = model.start()                          … and for writing step by step:
    logits = model.step(tokens, cache)              the next tokens, after those the cache has seen

B texts · T tokens · D width · W words
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError
from manyheads.models.config import LanguageModelConfig
from manyheads.models.initialise import initialise
from manyheads.models.parts import build_encoder, build_positions
from manyheads.nn import KeyValueCache, Layout, Padded
from manyheads.nn.checks import check_ids
from manyheads.nn.dropout import Dropout
from manyheads.nn.eightbits import EightBits
from manyheads.nn.linear import Linear, linear
from manyheads.nn.table import Table
from manyheads.nn.unchanged import unchanged

__all__ = ["LanguageModel", "Past"]


@dataclass(eq=False)
class Past:
    """What each block has seen."""

    blocks: list[KeyValueCache]

    @property
    def length(self) -> int:
        return self.blocks[0].length

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows of the batch, in the given order."""
        for block in self.blocks:
            block.select(rows)


class LanguageModel(nn.Module):
    """A language model of texts over `vocabulary` tokens."""

    def __init__(self, config: LanguageModelConfig, vocabulary: int) -> None:
        super().__init__()
        if vocabulary < 1:
            raise OptionError(f"a vocabulary needs at least one token, got {vocabulary}")
        self.config = config
        self.words = Table(vocabulary, config.width)
        self.head = None if config.tie else Linear(config.width, vocabulary, bias=False)
        self.positions = build_positions(config)
        self.dropout = Dropout(config.dropout) if config.dropout else unchanged
        self.decoder = build_encoder(config, causal=True)
        initialise(self)

    def forward(
        self, ids: Int[Tensor, "*batch"], layout: Layout | None = None, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "*batch W"]:
        """Logits of the token after each.

        A token sees the tokens up to itself, never beyond: padding after a text needs no mask.
        """
        return self.logits(self.states(ids, layout, weights))

    def states(
        self, ids: Int[Tensor, "*batch"], layout: Layout | None = None, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "*batch D"]:
        check_ids("ids", ids, layout)
        layout = layout or Padded.like(ids)
        return self.decoder(self.embed(ids, layout), layout, weights)

    def embed(self, ids: Int[Tensor, "*batch"], layout: Layout) -> Float[Tensor, "*batch D"]:
        return self.dropout(self.positions(self.words(ids), layout))

    def logits(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch W"]:
        return linear(x, self.output_words)

    @property
    def output_words(self) -> Float[Tensor, "W D"] | EightBits:
        """The vectors that states are compared with: a table of their own, or the embedding."""
        return (self.head or self.words).weight

    def start(self) -> Past:
        """An empty cache, ready for the first token."""
        return Past([KeyValueCache() for _ in self.decoder.blocks])

    def step(
        self, tokens: Int[Tensor, "B T"], past: Past, weights: list[Tensor] | None = None
    ) -> Float[Tensor, "B T W"]:
        """Logits of the token after each of `tokens`, which follow those that the cache has seen."""
        check_ids("tokens", tokens, None)
        layout = Padded.like(tokens, start=past.length)
        return self.logits(self.decoder(self.embed(tokens, layout), layout, weights, past.blocks))
