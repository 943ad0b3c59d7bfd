"""Attention in a narrow window over a long sequence, in chunks: cost grows with length × window, not with length².

The queries are cut into chunks; each chunk attends to itself and to as many keys on either side as its window reaches.

    queries              | chunk |
    keys       |  left   | chunk |  right  |

B batch · H heads · G key/value heads · T queries, as many as keys · N chunks · C queries of a chunk
W keys that a chunk sees · K, V widths
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from manyheads.nn.fused import fused_attention
from manyheads.nn.masks import Window, band_mask

__all__ = ["windowed_applies", "windowed_attention"]

SMALLEST_CHUNK = 64


def windowed_applies(q: Tensor, k: Tensor, mask: Tensor | None, window: Window) -> bool:
    """True for self-attention with a window on both sides and at most a mask over keys, if it saves ⅔ of the work."""
    left, right = window
    if left is None or right is None or q.shape[2] != k.shape[2]:
        return False
    over_keys = mask is None or (mask.ndim == 4 and mask.shape[1] == mask.shape[2] == 1 and mask.shape[3] > 1)
    return over_keys and q.shape[2] >= 3 * (chunk_size(left, right) + left + right)


def chunk_size(left: int, right: int) -> int:
    """As many queries as each has neighbours: half of each small score matrix is then inside the window."""
    return max(SMALLEST_CHUNK, left + right)


def windowed_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G T K"],
    v: Float[Tensor, "B G T V"],
    *,
    mask: Bool[Tensor, "#B 1 1 T"] | None = None,
    window: Window,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T V"]:
    """The same result as `fused_attention` for the same arguments, where `windowed_applies`."""
    left, right = (side or 0 for side in window)
    batch, length = q.shape[0], q.shape[2]
    chunk = chunk_size(left, right)
    filler = -length % chunk
    q = F.pad(q, (0, 0, 0, filler)).unflatten(2, (-1, chunk))  # (B, H, N, C, K)
    k, v = (neighbourhoods(F.pad(x, (0, 0, left, right + filler)), chunk, left + right) for x in (k, v))

    inside = torch.ones(1, 1, 1, length, dtype=torch.bool, device=q.device) if mask is None else mask
    inside = F.pad(inside, (left, right + filler)).unfold(-1, chunk + left + right, chunk)  # (#B, 1, 1, N, W)
    places = torch.arange(chunk + left + right, device=q.device)
    seen = inside.squeeze(1).transpose(1, 2) & band_mask(places[left : left + chunk], places, (left, right))
    seen = seen.expand(batch, -1, -1, -1).flatten(0, 1).unsqueeze(1)  # (B·N, 1, C, W)

    chunks = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # (B·N, H, C or W, K)
    out = fused_attention(*chunks, mask=seen, scale=scale, dropout=dropout)
    return out.unflatten(0, (batch, (length + filler) // chunk)).transpose(1, 2).flatten(2, 3)[:, :, :length]


def neighbourhoods(x: Float[Tensor, "B G padded K"], chunk: int, reach: int) -> Float[Tensor, "B G N W K"]:
    """The keys or values that each chunk sees: its own and those within reach of its window."""
    return x.unfold(2, chunk + reach, chunk).transpose(-1, -2)
