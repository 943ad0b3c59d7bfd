"""Attention over packed batches: sequences laid end to end, with no work spent on padding.

On a GPU in half precision this is one kernel: our own for short sentences (ragged.py), variable-length flash attention
for long ones. Cases that neither supports (see `varlen_applies`) go through padding instead: slower, same answer.

N query tokens · M key tokens · H heads · G key/value heads · K key width · V value width
"""

import inspect
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.nn.attention import attend
from manyheads.nn.checks import check_packed
from manyheads.nn.layout import Packed
from manyheads.nn.masks import Window, band_mask, narrow
from manyheads.nn.ragged import parts_of, ragged_applies, ragged_attention
from manyheads.nn.scores import DotProduct, Score, scaled_dot

__all__ = ["packed_attention"]

if torch.cuda.is_available():
    # This imports the compiler too, which takes as long as importing PyTorch itself: skip it without a GPU.
    from torch.nn.attention.varlen import varlen_attn

    # PyTorch 2.11 supports grouped heads but has no such argument; 2.13 requires it.
    GROUPED: dict[str, Any] = {"enable_gqa": True} if "enable_gqa" in inspect.signature(varlen_attn).parameters else {}


def packed_attention(
    q: Float[Tensor, "N H K"],
    k: Float[Tensor, "M G K"],
    v: Float[Tensor, "M G V"],
    *,
    queries: Packed,
    keys: Packed,
    causal: bool = False,
    window: Window | None = None,
    score: Score = scaled_dot,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Float[Tensor, "N H V"] | tuple[Float[Tensor, "N H V"], Float[Tensor, "B H T S"]]:
    """Sequence b of the queries attends to sequence b of the keys, and to nothing else.

    Options as in `attention`; the weights, if requested, are padded.
    """
    check_packed(q, k, v, queries, keys)
    bounds = narrow(window, causal)
    out, weights = attend_packed(q, k, v, queries, keys, bounds, score, dropout, return_weights)
    return out if weights is None else (out, weights)


def attend_packed(
    q: Float[Tensor, "N H K"],
    k: Float[Tensor, "M G K"],
    v: Float[Tensor, "M G V"],
    queries: Packed,
    keys: Packed,
    window: Window,
    score: Score,
    dropout: float,
    return_weights: bool,
) -> tuple[Float[Tensor, "N H V"], Float[Tensor, "B H T S"] | None]:
    """`packed_attention` by the path that suits the arguments, which are not checked: (output, weights or None)."""
    if isinstance(score, DotProduct) and not return_weights and dropout == 0.0:
        if k.shape == v.shape and ragged_applies(q, q.shape[-1], queries, keys, window):
            kv = torch.cat((k, v), 1)
            return ragged_attention(q, kv, q.shape[1], queries, keys, window, score.scale), None
        if varlen_applies(q, v):
            return varlen(q, k, v, queries, keys, window, score.scale), None
    padded = (queries.pad(q).transpose(1, 2), keys.pad(k).transpose(1, 2), keys.pad(v).transpose(1, 2))
    mask = packed_mask(queries, keys, window)
    out, weights = attend(*padded, mask, (None, None), score, dropout, return_weights)
    return queries.pack(out.transpose(1, 2)), weights


def attend_joined(
    q: Float[Tensor, "N A K"],
    kv: Float[Tensor, "M both K"] | None,
    heads: int,
    queries: Packed,
    keys: Packed,
    window: Window,
    score: Score,
    dropout: float,
) -> Float[Tensor, "N {heads} K"]:
    """`attend_packed` of heads side by side, as a projection returns them.

    Keys and values follow the queries in `q`, or are in `kv`.
    """
    if isinstance(score, DotProduct) and dropout == 0.0 and ragged_applies(q, q.shape[-1], queries, keys, window):
        return ragged_attention(q, kv, heads, queries, keys, window, score.scale)
    parts = parts_of(q, kv, heads)
    return attend_packed(*parts, queries, keys, window, score, dropout, return_weights=False)[0]


def varlen_applies(q: Tensor, v: Tensor) -> bool:
    """True if variable-length flash attention supports this. Decided by types and shapes alone."""
    width = q.shape[-1]
    return (
        q.is_cuda
        and q.dtype in (torch.float16, torch.bfloat16)
        and v.shape[-1] == width
        and width <= 256
        and width % 8 == 0
    )


def varlen(
    q: Tensor, k: Tensor, v: Tensor, queries: Packed, keys: Packed, window: Window, scale: float | None
) -> Tensor:
    left, right = (-1 if side is None else side for side in window)
    grouped = GROUPED if q.shape[1] != k.shape[1] else {}
    segments = (queries.offsets, keys.offsets, queries.longest, keys.longest)
    out = varlen_attn(q, k, v, *segments, scale=scale, window_size=(left, right), **grouped)
    return cast(Tensor, out)  # a tuple only if more outputs are requested


def packed_mask(queries: Packed, keys: Packed, window: Window) -> Bool[Tensor, "B 1 T S"]:
    """Which of its sequence's keys each query sees; with more keys than queries, the queries are the last positions."""
    key_positions = torch.arange(keys.longest, device=keys.offsets.device)
    shift = keys.lengths - queries.lengths
    query_positions = torch.arange(queries.longest, device=shift.device) + shift[:, None]
    inside = key_positions < keys.lengths[:, None]
    return (inside[:, None] & band_mask(query_positions, key_positions, window))[:, None]
