"""Multi-head attention: several attentions side by side, each on its own projection of the input.

    MultiHead(X, M) = Concat(head_1 … head_H) · W_O,   head_i = attention(X·Wq_i, M·Wk_i, M·Wv_i)

M is X itself (self-attention) or another sequence, the memory (cross-attention).
One matrix holds the projections of all heads: splitting X·W into H parts is the same as H small projections.

B batch · T queries · S keys · H heads · G key/value heads · D model width · K key width · V value width
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, overload

from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.errors import OptionError, TensorError, choose
from manyheads.nn.attention import attend
from manyheads.nn.cache import KeyValue, KeyValueCache
from manyheads.nn.checks import (
    check_batch,
    check_cache,
    check_divides,
    check_head_counts,
    check_layout,
    check_mask,
    check_memory,
    check_probability,
    check_segments,
    check_sequence,
    check_size,
)
from manyheads.nn.eightbits import EightBits
from manyheads.nn.layout import Layout, Packed, Padded
from manyheads.nn.linear import Linear, linear
from manyheads.nn.masks import Window, narrow
from manyheads.nn.packed import attend_joined, attend_packed
from manyheads.nn.rotary import Rotary
from manyheads.nn.scores import Additive, Score, dot, scaled_dot
from manyheads.nn.unchanged import unchanged

if TYPE_CHECKING:
    from manyheads.nn.beams import BeamPast

__all__ = ["MultiHeadAttention"]

Projection = tuple[Tensor | EightBits, Tensor | None]  # weight, bias


class MultiHeadAttention(nn.Module):
    """Self-attention `mha(x)`, cross-attention `mha(x, memory)`. For users of torch.nn: docs/guides/from-torch.md.

    heads          number of query heads
    kv_heads       number of key/value heads, shared by groups of query heads (default: one for each)
    key_width      width of a query and a key in each head (default: width / heads)
    value_width    width of a value in each head (default: key_width)
    bias           biases on the projections of queries, keys and values
    output_bias    bias on the output projection (default: as `bias`)
    causal         no query looks ahead
    window         how far a query sees to its (left, right)
    score          "scaled-dot", "dot" or "additive"
    rotary         rotates queries and keys by their positions
    qk_norm        normalise queries and keys, head by head, before they are compared
    dropout        on the attention weights, in training (default 0: fused packed kernels do not support it)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = False,
        output_bias: bool | None = None,
        causal: bool = False,
        window: Window | None = None,
        score: str = "scaled-dot",
        rotary: Rotary | None = None,
        qk_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width, (self.heads, self.kv_heads) = check_size("width", width), check_head_counts(heads, kv_heads)
        self.key_width = check_divides(width, heads) if key_width is None else check_size("key_width", key_width)
        self.value_width = self.key_width if value_width is None else check_size("value_width", value_width)
        self.bounds, self.dropout = narrow(window, causal), check_probability("dropout", dropout)
        self.sizes = (heads * self.key_width, self.kv_heads * self.key_width, self.kv_heads * self.value_width)
        self.input = Linear(width, sum(self.sizes), bias=bias)
        self.output = Linear(heads * self.value_width, width, bias=bias if output_bias is None else output_bias)
        self.query_norm = HeadNorm(self.key_width) if qk_norm else unchanged
        self.key_norm = HeadNorm(self.key_width) if qk_norm else unchanged
        self.rotate = unchanged if rotary is None else check_rotary(rotary, self.key_width)
        self.score = build_score(score, heads, self.key_width)
        # Nothing happens to queries and keys between the projection and attention: they can stay in one tensor.
        self.joined = self.value_width == self.key_width and rotary is None and not qk_norm

    @overload
    def forward(
        self, x: Tensor, memory: Tensor | KeyValue | None = None, *, layout: Layout | None = None,
        memory_layout: Layout | None = None, mask: Tensor | None = None, cache: KeyValueCache | None = None,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def forward(
        self, x: Tensor, memory: Tensor | KeyValue | None = None, *, layout: Layout | None = None,
        memory_layout: Layout | None = None, mask: Tensor | None = None, cache: KeyValueCache | None = None,
        return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...  # fmt: skip
    def forward(
        self,
        x: Float[Tensor, "*batch D"],
        memory: Float[Tensor, "*memory D"] | KeyValue | None = None,
        *,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "*batch D"] | tuple[Float[Tensor, "*batch D"], Float[Tensor, "B H T S"]]:
        """Attend from every position of x to the memory, or to x itself.

        x               (B, T, D), or packed (N, D) with its layout
        memory          what to attend to: a sequence like x, or its precomputed `keys_values`; None = x
        layout          padding and positions of x; None = no padding, positions continue from the cache or start at 0
        memory_layout   the same for the memory
        mask            True = may attend, within what padding, causality and window allow; broadcasts to (B, H, T, S)
        cache           keys and values of the tokens before x; those of x are appended
        return_weights  also return the weights of every head. The output stays the same.
        """
        check_sequence("x", x, layout, self.width)
        if memory is None and memory_layout is not None:
            raise TensorError(f"memory_layout needs a memory, got {type(memory_layout).__name__} and no memory")
        if cache is not None:
            check_cache(layout, memory)
            check_mask(mask, (x.shape[0], self.heads, x.shape[1], cache.length + x.shape[1]))  # before the cache grows
            layout = layout or Padded.like(x, start=cache.length)
        if self.joined and isinstance(layout, Packed) and not isinstance(memory, KeyValue) and not return_weights:
            return self.output(self._attend_joined(x, memory, layout, memory_layout, mask))
        q, k, v = self.projected(x, memory, layout, memory_layout)
        k, v = (k, v) if cache is None else cache.append(k, v)
        memory_layout = layout if memory is None else memory_layout
        y, weights = self._attend(q, k, v, layout, memory_layout, mask, return_weights)
        y = self.output(y)
        return y if weights is None else (y, weights)

    def projected(
        self,
        x: Float[Tensor, "*batch D"],
        memory: Float[Tensor, "*memory D"] | KeyValue | None = None,
        layout: Layout | None = None,
        memory_layout: Layout | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values by head as attention uses them: normalised and rotated, if this layer does so."""
        if memory is None:
            q, k, v = self.input(x).split_with_sizes(self.sizes, dim=-1)
            k, v = self._keys_values(k, v, layout)
            return self._queries(q, layout), k, v
        for_queries, for_memory = self._halves()
        q = self._queries(linear(x, *for_queries), layout)
        if isinstance(memory, KeyValue):
            k, v = memory
            check_layout("memory", (k.shape[0], k.shape[2]) if k.ndim == 4 else k.shape[:1], memory_layout)
        else:
            k, v = self._read(memory, memory_layout, for_memory)
        return q, k, v

    def keys_values(self, memory: Float[Tensor, "*memory D"], layout: Layout | None = None) -> KeyValue:
        """The keys and values that cross-attention reads from a memory, computed once for many steps."""
        return self._read(memory, layout, self._halves()[1])

    def step_beams(self, x: Float[Tensor, "B k D"], layout: Padded, past: "BeamPast") -> Float[Tensor, "B k D"]:
        """Self-attention of the newest token of each of k beams, which `past` lets see only its own hypothesis."""
        q, k, v = self.input(x).split_with_sizes(self.sizes, dim=-1)
        k, v = past.append(*self._keys_values(k, v, layout))
        out, _ = attend(
            self._queries(q, layout), k, v, past.within(self.bounds[0]), (None, None), self.score, 0.0, False
        )
        return self.output(out.transpose(1, 2).flatten(-2))

    def _halves(self) -> tuple[Projection, Projection]:
        """The projection of the queries, and the projection of the keys and values."""
        cut = (self.sizes[0], self.sizes[1] + self.sizes[2])
        query_weight, memory_weight = self.input.weight.split_with_sizes(cut)
        query_bias, memory_bias = (None, None) if self.input.bias is None else self.input.bias.split_with_sizes(cut)
        return (query_weight, query_bias), (memory_weight, memory_bias)

    def _read(self, memory: Tensor, layout: Layout | None, projection: Projection) -> KeyValue:
        check_sequence("memory", memory, layout, self.width)
        k, v = linear(memory, *projection).split_with_sizes(self.sizes[1:], dim=-1)
        return self._keys_values(k, v, layout)

    def _queries(self, q: Tensor, layout: Layout | None) -> Tensor:
        heads = self.query_norm(q.unflatten(-1, (self.heads, -1)))
        return heads_first(self.rotate(heads, layout and layout.positions), layout)

    def _keys_values(self, k: Tensor, v: Tensor, layout: Layout | None) -> KeyValue:
        heads = self.key_norm(k.unflatten(-1, (self.kv_heads, -1)))
        heads = self.rotate(heads, layout and layout.positions)
        return KeyValue(heads_first(heads, layout), heads_first(v.unflatten(-1, (self.kv_heads, -1)), layout))

    def _attend_joined(
        self, x: Tensor, memory: Tensor | None, layout: Packed, memory_layout: Layout | None, mask: Tensor | None
    ) -> Tensor:
        """The heads side by side, (N, H·V), for packed sequences, whose projections stay in one tensor."""
        if memory is None:
            memory_layout, q, kv = layout, self.input(x), None
        else:
            check_sequence("memory", memory, memory_layout, self.width)
            for_queries, for_memory = self._halves()
            q, kv = linear(x, *for_queries), linear(memory, *for_memory).unflatten(-1, (-1, self.key_width))
        check_memory(layout, memory_layout, mask, banded=self.bounds != (None, None))
        assert isinstance(memory_layout, Packed)  # check_memory has made sure of it
        check_segments(layout, memory_layout)
        q, dropout = q.unflatten(-1, (-1, self.key_width)), self.dropout if self.training else 0.0
        out = attend_joined(q, kv, self.heads, layout, memory_layout, self.bounds, self.score, dropout)
        return out.flatten(-2)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        layout: Layout | None,
        memory_layout: Layout | None,
        mask: Tensor | None,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """The heads side by side, (…, H·V), by the path that the layout calls for; and the weights if requested."""
        check_memory(layout, memory_layout, mask, banded=self.bounds != (None, None))
        how = (self.bounds, self.score, self.dropout if self.training else 0.0, return_weights)
        if isinstance(layout, Packed) and isinstance(memory_layout, Packed):
            check_segments(layout, memory_layout)
            out, weights = attend_packed(q, k, v, layout, memory_layout, *how)
            return out.flatten(-2), weights
        check_batch(q, k)
        check_mask(mask, (*q.shape[:3], k.shape[2]))
        out, weights = attend(q, k, v, visible(memory_layout, mask), *how)
        return out.transpose(1, 2).flatten(-2), weights

    def extra_repr(self) -> str:
        grouped = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        seen = f", window={self.bounds}" if self.bounds != (None, None) else ""
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"heads={self.heads}{grouped}, key_width={self.key_width}, value_width={self.value_width}{seen}{dropout}"


class HeadNorm(nn.RMSNorm):
    """RMSNorm in the dtype of its input: autocast would leave queries and keys in float32, with values in half."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).to(x.dtype)


def heads_first(x: Tensor, layout: Layout | None) -> Tensor:
    """(B, T, H, K) to (B, H, T, K); packed stays (N, H, K)."""
    return x if isinstance(layout, Packed) else x.transpose(1, 2)


def visible(layout: Layout | None, mask: Tensor | None) -> Tensor | None:
    """The padding of the keys and the caller's mask as one mask."""
    if not isinstance(layout, Padded) or layout.keep is None:
        return mask
    padding = layout.keep[:, None, None, :]
    return padding if mask is None else padding & mask


def build_score(name: str, heads: int, key_width: int) -> Score:
    known: dict[str, Callable[[], Score]] = {
        "scaled-dot": lambda: scaled_dot,
        "dot": lambda: dot,
        "additive": lambda: Additive(heads, key_width),
    }
    return choose("score", name, known)()


def check_rotary(rotary: Rotary, key_width: int) -> Rotary:
    if rotary.key_width != key_width:
        raise OptionError(
            f"rotary positions must be built for the key width {key_width}, got Rotary({rotary.key_width})"
        )
    return rotary
