"""The shapes of Transformers: every number and choice needed to build one, checked before anything is built.

Nothing here imports torch, so that recipes can be read, listed and refused at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal

from manyheads.sections import Section, between

__all__ = ["EncoderConfig", "LanguageModelConfig", "ParallelConfig", "StackConfig", "TransformerConfig"]

SPREAD = 64
"""A predicted target length differs from the length of the source by at most this many tokens."""

Positions = Literal["sinusoidal", "sinusoidal-split", "learned", "rotary", "none"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"]


@dataclass(frozen=True)
class StackConfig(Section):
    """What every Transformer has: a stack of attention and feed-forward blocks.

    The defaults are those of the paper's base model.

    width                  width of the model: numbers in the vector of a token
    layers                 blocks; in an encoder-decoder, of the encoder, and of the decoder unless decoder_layers is
                           set
    heads                  attention heads in each layer
    kv_heads               key/value heads, each shared by a group of heads (default: one for each head)
    key_width              width of queries and keys in a head (default: width / heads)
    value_width            width of values in a head (default: key_width)
    feedforward            width of the hidden layer of the feed-forward sublayers
    activation             activation of the hidden layer of the feed-forward sublayers
    dropout                dropout on the embeddings and on the output of every sublayer
    attention_dropout      dropout on the attention weights; 0 keeps every fast path available
    feedforward_dropout    dropout on the hidden layer of the feed-forward sublayers
    drop_path              probability of skipping a sublayer for a sentence; grows from 0 to this over the depth
    norm                   where norms are: "pre" (before each sublayer) or "post" (after the residual, as in the paper)
    normaliser             kind of norm: "layer" or "rms"
    norm_eps               added to the variance in a norm
    positions              how positions are encoded: "sinusoidal" (sines and cosines alternate), "sinusoidal-split"
                           (all sines, then all cosines), "learned", "rotary" or "none"
    max_length             rows of the table of learned positions
    score                  attention score: "scaled-dot", "dot" or "additive"
    qk_norm                normalise queries and keys in each head
    bias                   biases on the attention projections
    feedforward_bias       biases in the feed-forward layers
    window                 [left, right]: how far an encoder's self-attention sees to either side (default: everything)
    """

    width: int = between(1, 65_536, default=512)
    layers: int = between(1, 1_000, default=6)
    heads: int = between(1, 1_024, default=8)
    kv_heads: int | None = between(1, 1_024, default=None)
    key_width: int | None = between(1, 65_536, default=None)
    value_width: int | None = between(1, 65_536, default=None)
    feedforward: int = between(1, 1_048_576, default=2_048)
    activation: Activation = "relu"
    dropout: float = between(0, 0.99, default=0.1)
    attention_dropout: float = between(0, 0.99, default=0.0)
    feedforward_dropout: float = between(0, 0.99, default=0.0)
    drop_path: float = between(0, 0.99, default=0.0)
    norm: Literal["pre", "post"] = "post"
    normaliser: Literal["layer", "rms"] = "layer"
    norm_eps: float = between(1e-12, 1e-2, default=1e-5)
    positions: Positions = "sinusoidal"
    max_length: int = between(1, 1_048_576, default=1_024)
    score: Literal["scaled-dot", "dot", "additive"] = "scaled-dot"
    qk_norm: bool = False
    bias: bool = False
    feedforward_bias: bool = True
    window: tuple[int, int] | None = between(0, 1_048_576, default=None)

    @property
    def head_width(self) -> int:
        """Width of a query and a key in one head."""
        return self.key_width or self.width // self.heads

    @property
    def packs_well(self) -> bool:
        """Whether there is a kernel for this attention over packed sentences.

        Without one, each sentence is padded for attention to the longest that there might be.
        """
        plain = self.score != "additive" and not self.attention_dropout
        alike = (self.value_width or self.head_width) == self.head_width
        return plain and alike and self.head_width <= 256 and self.head_width % 8 == 0

    def rules(self) -> Iterator[str]:
        if self.key_width is None and self.width % self.heads:
            yield f"heads must divide the width, got width {self.width} and {self.heads} heads (or set key_width)"
        if self.kv_heads and self.heads % self.kv_heads:
            yield f"heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}"
        if self.positions.startswith("sinusoidal") and self.width % 2:
            yield f"sinusoidal positions need an even width, got {self.width}"
        if self.positions == "rotary" and self.head_width % 2:
            yield f"rotary positions need an even key_width, got {self.head_width}"


@dataclass(frozen=True)
class TransformerConfig(StackConfig):
    """An encoder-decoder Transformer.

    decoder_layers         decoder blocks (default: layers)
    cross                  encoder layer that a decoder block reads: the "last", or the one at the "same" depth
    tie                    what shares one embedding table: "all" of source, target and output; "target" and output;
                           "none"
    """

    decoder_layers: int | None = between(1, 1_000, default=None)
    cross: Literal["last", "same"] = "last"
    tie: Literal["all", "target", "none"] = "all"

    @property
    def depth(self) -> int:
        """Number of decoder blocks."""
        return self.decoder_layers or self.layers

    @property
    def causal(self) -> bool:
        """Whether a target token sees only the tokens before it."""
        return True

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        if self.cross == "same" and self.depth != self.layers:
            yield f"cross = 'same' needs as many decoder as encoder layers, got {self.depth} and {self.layers}"


@dataclass(frozen=True)
class ParallelConfig(TransformerConfig):
    """An encoder-decoder that writes all of its tokens at once: each sees all places of the target.

    writes                 how it writes: "mask" predicts the number of places and fills in masked ones over several
                           iterations; "end" does so on more places than are needed and cuts at the first end; "graph"
                           writes the vertices of a graph, of which one path is read
    places                 for "end" and "graph": places for each source token
    """

    writes: Literal["mask", "end", "graph"] = "mask"
    places: float = between(0.1, 64, default=4.0)

    @property
    def causal(self) -> bool:
        return False

    def places_for(self, source: int, target: int = 0) -> int:
        """Places that a pair takes, from its numbers of tokens (the end of the source included).

        They are enough for the target, if it is known, and at least as many as there will be when it is not. The
        first and the last vertex of a graph write nothing; a target is followed by an end.
        """
        if self.writes == "mask":
            return max(1, target)
        return max(ceil(self.places * source), target) + (2 if self.writes == "graph" else 1)


@dataclass(frozen=True)
class EncoderConfig(StackConfig):
    """An encoder alone. The defaults are those of BERT.

    segments               kinds of text that a token can be in, each with a learned vector; 0 = no distinction
    embed_norm             normalise the sum of a token's vectors before the first block
    """

    width: int = between(1, 65_536, default=768)
    layers: int = between(1, 1_000, default=12)
    heads: int = between(1, 1_024, default=12)
    feedforward: int = between(1, 1_048_576, default=3_072)
    activation: Activation = "gelu"
    norm_eps: float = between(1e-12, 1e-2, default=1e-12)
    positions: Positions = "learned"
    max_length: int = between(1, 1_048_576, default=512)
    bias: bool = True
    segments: int = between(0, 1_024, default=2)
    embed_norm: bool = True


@dataclass(frozen=True)
class LanguageModelConfig(StackConfig):
    """A decoder alone. The defaults are those of GPT-2.

    tie                    use one table for the tokens that are read and those that are written
    """

    width: int = between(1, 65_536, default=768)
    layers: int = between(1, 1_000, default=12)
    heads: int = between(1, 1_024, default=12)
    feedforward: int = between(1, 1_048_576, default=3_072)
    activation: Activation = "gelu-tanh"
    norm: Literal["pre", "post"] = "pre"
    positions: Positions = "learned"
    bias: bool = True
    tie: bool = True
