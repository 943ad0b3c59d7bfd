"""The mathematics: pure functions first, thin modules around them.

attention · explicit_attention · fused_attention · packed_attention     three paths, one answer
causal_mask · window_mask · padding_mask · document_mask                True = may attend
scaled_dot · dot · Additive                                             how well a query matches a key
MultiHeadAttention · KeyValueCache · BeamCache                          many heads, and their caches for decoding
Padded · Packed                                                         how a batch lies in memory
SinusoidalPositions · LearnedPositions · Rotary                         the position of a token
FeedForward · PreNorm · PostNorm · DropPath                             the rest of a block
EncoderBlock · DecoderBlock · Encoder · Decoder                         blocks, and stacks of them
"""

from manyheads.nn.attention import attention, explicit_attention
from manyheads.nn.beams import BeamCache, Room
from manyheads.nn.blocks import Decoder, DecoderBlock, DecoderCache, Encoder, EncoderBlock, Memory
from manyheads.nn.cache import KeyValue, KeyValueCache
from manyheads.nn.feedforward import FeedForward
from manyheads.nn.fused import fused_attention
from manyheads.nn.layout import Layout, Packed, Padded
from manyheads.nn.masks import Window, causal_mask, document_mask, padding_mask, window_mask
from manyheads.nn.multihead import MultiHeadAttention
from manyheads.nn.packed import packed_attention
from manyheads.nn.positions import LearnedPositions, SinusoidalPositions, sinusoids
from manyheads.nn.residual import DropPath, PostNorm, PreNorm, Residual
from manyheads.nn.rotary import Rotary, rotate
from manyheads.nn.scores import Additive, DotProduct, Score, dot, scaled_dot

__all__ = [
    "Additive", "BeamCache", "Decoder", "DecoderBlock", "DecoderCache", "DotProduct", "DropPath", "Encoder", "EncoderBlock",
    "FeedForward", "KeyValue", "KeyValueCache", "Layout", "LearnedPositions", "Memory", "MultiHeadAttention",
    "Packed", "Padded", "PostNorm", "PreNorm", "Residual", "Room", "Rotary", "Score", "SinusoidalPositions",
    "Window", "attention", "causal_mask", "document_mask", "dot", "explicit_attention", "fused_attention",
    "packed_attention", "padding_mask", "rotate", "scaled_dot", "sinusoids", "window_mask",
]  # fmt: skip
