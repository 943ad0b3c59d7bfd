"""Attention: every query takes a weighted mean of the values, weighted by how well it matches their keys.

    attention(q, k, v) = softmax(q·kᵀ / √K) · v

Three paths compute it, and tests check that they agree wherever two of them apply:

    explicit   the formula, step by step. Supports every option and returns the weights.
    fused      PyTorch's scaled_dot_product_attention, for padded batches (fused.py). The weights are never stored.
               A narrow window over a long sequence is cut into chunks first (windowed.py).
    packed     our own kernel or variable-length flash attention, for batches without padding (packed.py).

`attention` takes the fused path unless the weights or another score function are requested.
On every path, a key that a query may not see has weight exactly 0, and a query that may see no key returns zeros.

B batch · H heads · G key/value heads (H a multiple of G) · T queries · S keys · K key width · V value width
"""

from contextlib import nullcontext
from typing import Literal, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.nn.checks import check_heads, check_mask
from manyheads.nn.dropout import dropout as drop
from manyheads.nn.fused import fused_attention, share_heads
from manyheads.nn.masks import Window, narrow, trim, within
from manyheads.nn.scores import DotProduct, Score, scaled_dot
from manyheads.nn.windowed import windowed_applies, windowed_attention

__all__ = ["attention", "explicit_attention"]


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False,
    window: Window | None = None, score: Score = scaled_dot, dropout: float = 0.0,
    return_weights: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False,
    window: Window | None = None, score: Score = scaled_dot, dropout: float = 0.0,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S V"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    window: Window | None = None,
    score: Score = scaled_dot,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"]]:
    """softmax(score(q, k)) · v, over the keys that `mask`, `causal` and `window` all allow.

    mask            True = may attend; broadcasts to (B, H, T, S)
    causal          no query looks ahead; with more keys than queries, the queries are the last ones
    window          how far a query sees to its (left, right); None on a side = unlimited
    dropout         on the weights, applied whenever it is not 0
    return_weights  also return the weights (B, H, T, S), before dropout. The output stays the same.
    """
    check_heads(q, k, v)
    check_mask(mask, (*q.shape[:3], k.shape[2]))
    bounds = narrow(window, causal)
    out, weights = attend(q, k, v, mask, bounds, score, dropout, return_weights)
    return out if weights is None else (out, weights)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S V"],
    mask: Bool[Tensor, "..."] | None,
    window: Window,
    score: Score,
    dropout: float,
    return_weights: bool,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"] | None]:
    """`attention` by the path that suits the arguments, which are not checked: (output, weights or None)."""
    if return_weights or not isinstance(score, DotProduct):
        mask = within(mask, trim(window, q.shape[2], k.shape[2]), q.shape[2], k.shape[2], q.device)
        out, weights = explicit_attention(q, k, v, mask=mask, score=score, dropout=dropout)
        return out, weights if return_weights else None
    k, v, mask = crop(k, v, mask, q.shape[2], window)
    window = trim(window, q.shape[2], k.shape[2])
    fused = windowed_attention if windowed_applies(q, k, mask, window) else fused_attention
    return fused(q, k, v, mask=mask, window=window, scale=score.scale, dropout=dropout), None


def explicit_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S V"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    score: Score = scaled_dot,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"]]:
    """The formula, step by step: (output, weights). Scores and weights are at least float32, as inside the kernels."""
    heads = q.shape[1]
    wide = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False) if not q.is_meta else nullcontext():
        scores = score(q.to(wide), share_heads(k, heads).to(wide))
        weights = masked_softmax(scores, mask)
    return drop(weights, dropout).to(v.dtype) @ share_heads(v, heads), weights


def masked_softmax(scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, "B H T S"]:
    """Softmax over the keys that may be seen; all others get exactly 0, even where none may be seen.

    The lowest finite number replaces −∞, which would make a row without keys NaN, and its gradient too.
    """
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


def crop(
    k: Tensor, v: Tensor, mask: Tensor | None, queries: int, window: Window
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Drop the keys left of every query's window, so that decoding with a window costs the window, not the past."""
    left, keys = window[0], k.shape[2]
    if left is None or queries + left >= keys:
        return k, v, mask
    first = keys - queries - left
    mask = mask if mask is None or mask.ndim == 0 or mask.shape[-1] == 1 else mask[..., first:]
    return k[:, :, first:], v[:, :, first:], mask
