"""Multi-head attention: several attentions side by side, each on its own projection of the input.

    MultiHead(X, M) = Concat(head_1 … head_H) · W_O,   head_i = attention(X·Wq_i, M·Wk_i, M·Wv_i)

M is X itself (self-attention) or another sequence, the memory (cross-attention).
One matrix holds the projections of all heads: cutting X·W into H parts is the same as H small projections.

B batch · T queries · S keys · H heads · G key/value heads · D model width · K key width · V value width
"""

from typing import Any, Literal, overload

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.errors import OptionError, TensorError, choose
from manyheads.nn.attention import attention
from manyheads.nn.cache import KeyValue, KeyValueCache
from manyheads.nn.layout import Layout, Packed, Padded
from manyheads.nn.masks import Window, check_window
from manyheads.nn.packed import packed_attention
from manyheads.nn.probability import check_probability
from manyheads.nn.rotary import Rotary
from manyheads.nn.scores import Additive, Score, dot, scaled_dot
from manyheads.nn.unchanged import unchanged

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """Self-attention `mha(x)`, cross-attention `mha(x, memory)`.

    heads          number of query heads
    kv_heads       number of key/value heads, shared by groups of query heads (default: one for each)
    key_width      width of a query and a key in each head (default: width / heads)
    value_width    width of a value in each head (default: key_width)
    bias           biases on the projections of queries, keys and values
    output_bias    bias on the output projection (default: as `bias`)
    causal         no query looks ahead
    window         how far a query sees to its (left, right)
    score          "scaled-dot", "dot" or "additive"
    rotary         turns queries and keys by their positions
    qk_norm        normalise queries and keys, head by head, before they meet
    dropout        on the attention weights, in training (default 0: fused packed kernels have none)
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
        self.heads, self.kv_heads = check_head_counts(heads, kv_heads)
        self.key_width = check_divides(width, heads) if key_width is None else check_size("key_width", key_width)
        self.value_width = self.key_width if value_width is None else check_size("value_width", value_width)
        self.causal, self.dropout = causal, check_probability("dropout", dropout)
        self.window = None if window is None else check_window(window)
        self.sizes = (heads * self.key_width, self.kv_heads * self.key_width, self.kv_heads * self.value_width)
        self.input = nn.Linear(width, sum(self.sizes), bias=bias)
        self.output = nn.Linear(heads * self.value_width, width, bias=bias if output_bias is None else output_bias)
        self.query_norm = nn.RMSNorm(self.key_width) if qk_norm else unchanged
        self.key_norm = nn.RMSNorm(self.key_width) if qk_norm else unchanged
        self.rotate = rotary or unchanged
        self.score = build_score(score, heads, self.key_width)

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
        """
        x               (B, T, D), or packed (N, D) with its layout
        memory          what to attend to: a sequence like x, or its `keys_values` computed before; None = x
        layout          padding and positions of x; None = no padding, positions counted on from the cache or from 0
        memory_layout   the same for the memory
        mask            True = may attend, beside what padding, causality and window allow; broadcasts to (B, H, T, S)
        cache           keys and values of the tokens before x, to which those of x are added
        return_weights  also give the weights of every head. The output stays the same.
        """
        check_sequence("x", x, layout, self.input.in_features)
        if cache is not None:
            check_cache(layout, memory)
            layout = layout or Padded.like(x, start=cache.length)
        if memory is None:
            q, k, v = self.input(x).split_with_sizes(self.sizes, dim=-1)
            k, v = self._keys_values(k, v, layout)
            if cache is not None:
                k, v = cache.append(k, v)
            memory_layout = layout
        else:
            q = F.linear(x, *self._halves()[0])
            k, v = memory if isinstance(memory, KeyValue) else self.keys_values(memory, memory_layout)
        y, weights = self._attend(self._queries(q, layout), k, v, layout, memory_layout, mask, return_weights)
        y = self.output(y)
        return y if weights is None else (y, weights)

    def keys_values(self, memory: Float[Tensor, "*memory D"], layout: Layout | None = None) -> KeyValue:
        """What cross-attention reads of a memory, computed once to be read at many steps."""
        check_sequence("memory", memory, layout, self.input.in_features)
        k, v = F.linear(memory, *self._halves()[1]).split_with_sizes(self.sizes[1:], dim=-1)
        return self._keys_values(k, v, layout)

    def _halves(self) -> list[tuple[Tensor, Tensor | None]]:
        """(weight, bias) of the queries, and of the keys and values."""
        cut = (self.sizes[0], self.sizes[1] + self.sizes[2])
        biases = (None, None) if self.input.bias is None else self.input.bias.split(cut)
        return list(zip(self.input.weight.split(cut), biases, strict=True))

    def _queries(self, q: Tensor, layout: Layout | None) -> Tensor:
        q = self.query_norm(q.unflatten(-1, (self.heads, -1)))
        return heads_first(self.rotate(q, layout and layout.positions), layout)

    def _keys_values(self, k: Tensor, v: Tensor, layout: Layout | None) -> KeyValue:
        k = self.key_norm(k.unflatten(-1, (self.kv_heads, -1)))
        v = v.unflatten(-1, (self.kv_heads, -1))
        return KeyValue(heads_first(self.rotate(k, layout and layout.positions), layout), heads_first(v, layout))

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
        """(…, H·V) by the path that the layout calls for, and the weights if asked for."""
        dropout = self.dropout if self.training else 0.0
        options: Any = {"causal": self.causal, "window": self.window, "score": self.score, "dropout": dropout}
        options["return_weights"] = return_weights
        out: Any
        if isinstance(layout, Packed):
            out = packed_attention(q, k, v, queries=layout, keys=check_packed(memory_layout, mask), **options)
        else:
            out = attention(q, k, v, mask=visible(memory_layout, mask, k.shape[2]), **options)
        out, weights = out if return_weights else (out, None)
        return (out if isinstance(layout, Packed) else out.transpose(1, 2)).flatten(-2), weights

    def extra_repr(self) -> str:
        grouped = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"heads={self.heads}{grouped}, key_width={self.key_width}, value_width={self.value_width}"


def heads_first(x: Tensor, layout: Layout | None) -> Tensor:
    """(B, T, H, K) to (B, H, T, K); packed stays (N, H, K)."""
    return x if isinstance(layout, Packed) else x.transpose(1, 2)


def visible(layout: Layout | None, mask: Tensor | None, keys: int) -> Tensor | None:
    """The padding of the keys and the caller's mask as one mask."""
    if isinstance(layout, Packed):
        raise TensorError("padded queries attend to a padded memory, got a packed memory_layout")
    if layout is None or layout.keep is None:
        return mask
    if layout.keep.shape[1] != keys:
        raise TensorError(
            f"padding is known for {layout.keep.shape[1]} keys, got {keys}",
            hint="with a cache, say what is padding with a mask over all keys: (B, 1, 1, S)",
        )
    padding = layout.keep[:, None, None, :]
    return padding if mask is None else padding & mask


def build_score(name: str, heads: int, key_width: int) -> Score:
    known: dict[str, Score] = {"scaled-dot": scaled_dot, "dot": dot, "additive": Additive(heads, key_width)}
    return choose("score", name, known)


def check_head_counts(heads: int, kv_heads: int | None) -> tuple[int, int]:
    kv_heads = heads if kv_heads is None else kv_heads
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise OptionError(f"heads must be a multiple of kv_heads, both at least 1, got {heads} and {kv_heads}")
    return heads, kv_heads


def check_divides(width: int, heads: int) -> int:
    """Width of one head, when the heads share the model's width evenly."""
    if width % heads:
        raise OptionError(
            f"heads must divide the width, got width {width} and {heads} heads",
            hint="or set key_width, the width of one head, by itself",
        )
    return width // heads


def check_size(name: str, size: int) -> int:
    if size < 1:
        raise OptionError(f"{name} must be at least 1, got {size}")
    return size


def check_sequence(name: str, x: Tensor, layout: Layout | None, width: int) -> None:
    wanted = ("packed (N, D)", 2) if isinstance(layout, Packed) else ("padded (B, T, D)", 3)
    if x.ndim != wanted[1] or x.shape[-1] != width:
        raise TensorError(
            f"{name} must be {wanted[0]} with D = {width}, got {tuple(x.shape)}",
            hint="a packed batch comes with its layout: Packed.from_lengths([5, 3])",
        )


def check_cache(layout: Layout | None, memory: object) -> None:
    if memory is not None:
        raise TensorError(
            "a cache is for self-attention, got one together with a memory",
            hint="a memory does not grow: compute its keys_values once and pass them as the memory",
        )
    if isinstance(layout, Packed):
        raise TensorError("a cache grows by columns of a padded batch, got a packed layout")


def check_packed(layout: Layout | None, mask: Tensor | None) -> Packed:
    if not isinstance(layout, Packed):
        raise TensorError(
            f"packed queries attend to a packed memory: memory_layout must be Packed, got {type(layout).__name__}"
        )
    if mask is not None:
        raise TensorError(
            f"a packed batch takes no dense mask, got one of shape {tuple(mask.shape)}",
            hint="causal and window are options of the layer; for any other mask use a padded batch",
        )
    return layout
