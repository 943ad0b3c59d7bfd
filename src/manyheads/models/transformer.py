"""The Transformer: an encoder reads the source, a decoder writes the target, one token after the other.

    memory = model.encode(source)                   the encoder's output
    logits = model.decode(target, memory)           all positions at once, for training (teacher forcing)
    logits = model(source, target)                  both
    states = model.states(target, memory)           the states behind these logits: model.logits(states)
    cache  = model.start(memory)                    … and for decoding step by step:
    logits = model.step(tokens, cache)              the next tokens, after those the cache has seen
    logits = model.step_beams(tokens, cache, 16)    … of several beams per sentence, in a cache of fixed size

B batch · T target tokens · S source tokens · D model width · W words of the target vocabulary
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.errors import OptionError, TensorError
from manyheads.models.config import TransformerConfig
from manyheads.models.initialise import initialise
from manyheads.models.parts import Embed, build_decoder, build_encoder
from manyheads.nn import BeamCache, DecoderCache, Layout, Memory, Padded, Room
from manyheads.nn.checks import check_ids
from manyheads.nn.eightbits import EightBits
from manyheads.nn.linear import Linear, linear
from manyheads.nn.table import Table

__all__ = ["PADDING", "Transformer"]

PADDING = 0
"""The id that fills up the shorter rows of a batch, in every vocabulary."""


class Transformer(nn.Module):
    """An encoder-decoder Transformer over `vocabulary` source and target words (or `(source, target)` of each)."""

    def __init__(self, config: TransformerConfig, vocabulary: int | tuple[int, int]) -> None:
        super().__init__()
        if not isinstance(config, TransformerConfig):
            raise OptionError(
                f"a Transformer is built from a TransformerConfig, got {type(config).__name__}",
                hint="for a recipe, pass recipe.model: Transformer(recipe.model, recipe.data.vocabulary)",
            )
        source_words, target_words = check_vocabulary(vocabulary, config.tie)
        self.config = config
        self.words = Table(source_words, config.width)
        self.target_words = None if config.tie == "all" else Table(target_words, config.width)
        self.head = Linear(config.width, target_words, bias=False) if config.tie == "none" else None
        self.embed_source, self.embed_target = Embed(config), Embed(config)
        self.encoder, self.decoder = build_encoder(config), build_decoder(config)
        initialise(self)

    def forward(
        self, source: Int[Tensor, "*source"], target: Int[Tensor, "*target"],
        source_layout: Layout | None = None, target_layout: Layout | None = None,
    ) -> Float[Tensor, "*target W"]:  # fmt: skip
        """Logits of the token after each target token.

        Ids are padded (B, T), or packed (N) with their layouts, each at least 0 and below its vocabulary.
        Without a layout, id 0 is padding in the source. Padding of the target is left to the loss: `ignore_index=0`.
        """
        return self.decode(target, self.encode(source, source_layout), target_layout)

    def encode(
        self, source: Int[Tensor, "*source"], layout: Layout | None = None, weights: list[Tensor] | None = None
    ) -> Memory:
        """The memory that the decoder reads. Without a layout, id 0 is padding."""
        check_ids("source", source, layout)
        layout = layout or Padded.like(source, keep=source != PADDING)
        x = self.embed_source(self.words(source), layout)
        if self.config.cross == "same":
            return Memory(tuple(map(self.encoder.norm, self.encoder.states(x, layout, weights))), layout)
        return Memory((self.encoder(x, layout, weights),) * self.config.depth, layout)

    def decode(
        self,
        target: Int[Tensor, "*target"],
        memory: Memory,
        layout: Layout | None = None,
        weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "*target W"]:
        """Logits at every position of a known target: each sees the tokens up to itself, never beyond.

        Padding after a target needs no mask: no token before it ever looks there.
        """
        return self.logits(self.states(target, memory, layout, weights, cross_weights))

    def states(
        self,
        target: Int[Tensor, "*target"],
        memory: Memory,
        layout: Layout | None = None,
        weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "*target D"]:
        """The states that `decode` computes logits from."""
        check_ids("target", target, layout)
        layout = layout or Padded.like(target)
        if not isinstance(memory, Memory):
            raise TensorError(f"memory must be the output of encode, got {type(memory).__name__}")
        check_same_batch(memory.layout, layout)
        x = self.embed_target((self.target_words or self.words)(target), layout)
        return self.decoder(x, layout, memory.states, memory.layout, None, weights, cross_weights)

    def logits(self, x: Float[Tensor, "*target D"]) -> Float[Tensor, "*target W"]:
        """The score of each target word."""
        return linear(x, self.output_words)

    @property
    def output_words(self) -> Float[Tensor, "W D"] | EightBits:
        """The vectors that states are compared with: a table of their own, or the embedding they are tied to."""
        return (self.head or self.target_words or self.words).weight

    def start(self, memory: Memory) -> DecoderCache:
        """An empty cache, ready for the first token."""
        return self.decoder.start(memory)

    def step(
        self,
        tokens: Int[Tensor, "B T"],
        cache: DecoderCache,
        weights: list[Tensor] | None = None,
        cross_weights: list[Tensor] | None = None,
    ) -> Float[Tensor, "B T W"]:
        """Logits of the token after each of `tokens`, which follow those that the cache has seen."""
        check_ids("tokens", tokens, None)
        layout = Padded.like(tokens, start=cache.length)
        check_same_batch(cache, layout)
        x = self.embed_target((self.target_words or self.words)(tokens), layout)
        x = self.decoder(
            x, layout, cache.memory, cache.memory_layout, cache.past, weights, cross_weights, cache.readers
        )
        return self.logits(x)

    def start_beams(self, room: Room) -> BeamCache:
        """An empty cache of fixed size, for k beams per sentence."""
        return BeamCache.empty(self.decoder.blocks, room)  # type: ignore[arg-type]

    def step_beams(self, tokens: Int[Tensor, "B k"], cache: BeamCache, steps: int) -> Float[Tensor, "B k W"]:
        """Logits of the token after each of `tokens`, the newest of k beams per sentence. Every shape is fixed.

        Only the first `steps` steps are attended to: the cache must have seen fewer. `cache.advance` ends the step.
        """
        x = self.embed_target((self.target_words or self.words)(tokens), cache.layout)
        return self.logits(self.decoder.step_beams(x, cache, steps))


def check_same_batch(source: Layout | DecoderCache, target: Layout) -> None:
    if source.batch != target.batch:
        raise TensorError(f"there must be as many targets as sources, got {target.batch} and {source.batch}")


def check_vocabulary(vocabulary: int | tuple[int, int], tie: str) -> tuple[int, int]:
    """(source, target) words."""
    source, target = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
    if source < 1 or target < 1:
        raise OptionError(f"a vocabulary needs at least one word, got {source} source and {target} target words")
    if tie == "all" and source != target:
        raise OptionError(
            f"tie = 'all' needs one joint vocabulary, got {source} source and {target} target words",
            hint="tie = 'target' shares only the target's embedding with the output",
        )
    return source, target
