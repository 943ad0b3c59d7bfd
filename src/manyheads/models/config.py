"""The shapes of Transformers: every number and choice that building one needs, checked before anything is built.

Nothing here imports torch, so that recipes can be read, listed and refused in no time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal

from manyheads.sections import Section, between

__all__ = ["EncoderConfig", "LanguageModelConfig", "ParallelConfig", "StackConfig", "TransformerConfig"]

SPREAD = 64
"""Where the length of a target is predicted, it is at most so many tokens longer, or shorter, than its source."""

Positions = Literal["sinusoidal", "sinusoidal-split", "learned", "rotary", "none"]
Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"]


@dataclass(frozen=True)
class StackConfig(Section):
    """What every Transformer has: blocks of attention and feed-forward layers, one on top of the other. The defaults are the paper's
    base model.

    width                  of the model, at every position
    layers                 blocks; of an encoder-decoder, those of the encoder, and of the decoder unless said otherwise
    heads                  attention heads
    kv_heads               key/value heads, shared by groups of heads (default: one for each head)
    key_width              of queries and keys in a head (default: width / heads)
    value_width            of values in a head (default: key_width)
    feedforward            width of the hidden layer
    activation             of the hidden layer
    dropout                on the embeddings and on the output of every sublayer
    attention_dropout      on the attention weights; 0 keeps every fast path open
    feedforward_dropout    on the hidden layer
    drop_path              chance to skip a sublayer for a sentence; grows from 0 to this over the depth
    norm                   "pre" (before each sublayer) or "post" (after the residual: the paper)
    normaliser             "layer" or "rms"
    norm_eps               added to the variance
    positions              "sinusoidal", "sinusoidal-split", "learned", "rotary" or "none"
    max_length             rows of the table of learned positions
    score                  "scaled-dot", "dot" or "additive"
    qk_norm                normalise queries and keys, head by head
    bias                   biases on the attention projections
    feedforward_bias       biases in the feed-forward layers
    window                 an encoder's self-attention sees only so far to its [left, right]
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
        """Is there a kernel for its attention over packed sentences? All others are padded for it, each to the longest there might be."""
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

    decoder_layers         decoder blocks
    cross                  the decoder reads the "last" encoder layer, or the one at the "same" depth
    tie                    one embedding for "all" of source, target and output, for "target" and output, or "none"
    """

    decoder_layers: int | None = between(1, 1_000, default=None)
    cross: Literal["last", "same"] = "last"
    tie: Literal["all", "target", "none"] = "all"

    @property
    def depth(self) -> int:
        """Decoder blocks."""
        return self.decoder_layers or self.layers

    @property
    def causal(self) -> bool:
        """Does a target token see only those before it?"""
        return True

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        if self.cross == "same" and self.depth != self.layers:
            yield f"cross = 'same' needs as many decoder as encoder layers, got {self.depth} and {self.layers}"


@dataclass(frozen=True)
class ParallelConfig(TransformerConfig):
    """An encoder-decoder that writes all of its tokens at once: each sees all places of the target.

    writes                 "mask": masked places are filled in, several times over, as many places as a predictor of the length says;
                           "end": the same, on more places than are needed, cut at the first end;
                           "graph": the vertices of a graph, of which one path is read
    places                 for "end" and "graph": places for each source token
    """

    writes: Literal["mask", "end", "graph"] = "mask"
    places: float = between(0.1, 64, default=4.0)

    @property
    def causal(self) -> bool:
        return False

    def places_for(self, source: int, target: int = 0) -> int:
        """Places that a pair takes, by its tokens, the end of the source among them: enough for the target, if it is known, and as many
        as there will be when it is not. The first and the last vertex of a graph say nothing; behind a target stands an end."""
        if self.writes == "mask":
            return max(1, target)
        return max(ceil(self.places * source), target) + (2 if self.writes == "graph" else 1)


@dataclass(frozen=True)
class EncoderConfig(StackConfig):
    """An encoder alone. The defaults are those of BERT.

    segments               kinds of text that a token can be in, each with a vector of its own; 0 = they are not told apart
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

    tie                    one table for the tokens that are read and those that are written
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
