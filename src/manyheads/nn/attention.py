"""Attention: every query takes a weighted mean of the values, weighted by how well it matches their keys.

    attention(Q, K, V) = softmax(Q·Kᵀ / √K) · V

Three paths compute it, and tests hold them equal wherever two of them apply:

    explicit   the formula, step by step. Takes every option and gives back the weights.
    fused      PyTorch's scaled_dot_product_attention, for padded batches (fused.py). The weights never exist.
               A narrow window over a long sequence is cut into chunks first (windowed.py).
    packed     variable-length flash attention, for batches without padding (packed.py).

`attention` takes the fused path unless the weights or another score function are asked for.
What a query may not see has weight exactly 0, and a query that may see nothing gives zeros, on every path.

B batch · H heads · G key/value heads (H a multiple of G) · T queries · S keys · K key width · V value width
"""

from typing import Literal, overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.errors import TensorError
from manyheads.nn.fused import fused_attention
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
    window          how far a query sees to its (left, right); None on a side = without end
    dropout         on the weights, applied whenever it is not 0
    return_weights  also give the weights (B, H, T, S), before dropout. The output stays the same.
    """
    check_heads(q, k, v)
    check_mask(mask, (*q.shape[:3], k.shape[2]))
    bounds = trim(narrow(window, causal), q.shape[2], k.shape[2])
    if isinstance(score, DotProduct) and not return_weights:
        fused = windowed_attention if windowed_applies(q, k, mask, bounds) else fused_attention
        return fused(q, k, v, mask=mask, window=bounds, scale=score.scale, dropout=dropout)
    mask = within(mask, bounds, q.shape[2], k.shape[2], q.device)
    out, weights = explicit_attention(q, k, v, mask=mask, score=score, dropout=dropout)
    return (out, weights) if return_weights else out


def explicit_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S V"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    score: Score = scaled_dot,
    dropout: float = 0.0,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"]]:
    """The formula, step by step: (output, weights)."""
    heads = q.shape[1]
    scores = score(q, share_heads(k, heads))
    weights = masked_softmax(scores, mask)
    return F.dropout(weights, dropout) @ share_heads(v, heads), weights


def masked_softmax(scores: Float[Tensor, "B H T S"], mask: Bool[Tensor, "..."] | None) -> Float[Tensor, "B H T S"]:
    """Softmax over the keys that may be seen: all others exactly 0, also where none may be seen.

    The lowest finite number stands in for −∞, which would turn a row without keys into NaN, and its gradient too.
    """
    dtype = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.softmax(-1, dtype).to(scores.dtype)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(-1, dtype)
    return weights.masked_fill(~mask, 0.0).to(scores.dtype)


def share_heads(x: Float[Tensor, "B G S K"], heads: int) -> Float[Tensor, "B H S K"]:
    """Grouped heads: each key/value head serves H / G neighbouring query heads."""
    groups = x.shape[1]
    return x if groups == heads else x.repeat_interleave(heads // groups, dim=1)


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Shapes that fit, or one error that shows all three."""
    if not q.ndim == k.ndim == v.ndim == 4:
        raise TensorError(
            f"attention takes q (B,H,T,K), k (B,G,S,K) and v (B,G,S,V), got {shapes(q, k, v)}",
            hint="heads come before positions: x.view(B, T, H, K).transpose(1, 2)",
        )
    if q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0]:
        raise TensorError(
            f"q and k must agree in batch and width, k and v in batch, heads and length, got {shapes(q, k, v)}"
        )
    if q.shape[1] % k.shape[1]:
        raise TensorError(f"query heads must be a multiple of key/value heads, got {shapes(q, k, v)}")
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise TensorError(f"q, k and v must be of one floating-point dtype, got {q.dtype}, {k.dtype}, {v.dtype}")


def shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"


def check_mask(mask: Tensor | None, scores: tuple[int, ...]) -> None:
    """A mask is boolean and broadcasts to the shape of the scores."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TensorError(
            f"a mask must be boolean, True = may attend, got {mask.dtype}",
            hint="an additive float mask becomes boolean by `mask == 0`",
        )
    fits = mask.ndim <= 4 and all(m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores), strict=False))
    if not fits:
        raise TensorError(
            f"a mask must broadcast to (B, H, T, S) = {scores}, got {tuple(mask.shape)}",
            hint="a mask over keys (B, S) becomes mask[:, None, None, :]",
        )
