"""Attention in one kernel: PyTorch's scaled_dot_product_attention, with a mask only where it needs one.

B batch · H heads · G key/value heads · T queries · S keys · K key width · V value width
"""

from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from manyheads.nn.masks import Window, within
from manyheads.nn.sliced import in_slices, slices_apply

__all__ = ["fused_attention"]

# Every backend but cuDNN's, which returns garbage, and NaN gradients, for a query that may attend to nothing.
SAFE_WITH_MASK = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def fused_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S V"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    window: Window = (None, None),
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T V"]:
    """The same as `attention` for dot-product scores, but shapes are not checked."""
    if slices_apply(q, k, v, dropout):
        return in_slices(partial(in_one_kernel, window=window, scale=scale), q, k, v, mask)
    return in_one_kernel(q, k, v, mask, window, scale, dropout)


def in_one_kernel(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S V"],
    mask: Tensor | None, window: Window, scale: float | None, dropout: float = 0.0,
) -> Float[Tensor, "B H T V"]:  # fmt: skip
    """A plain causal window needs no mask in memory."""
    grouped = bool(q.shape[1] != k.shape[1])  # under tracing, the comparison is a tensor
    if mask is None and window == (None, 0) and q.shape[2] == k.shape[2]:
        return F.scaled_dot_product_attention(q, k, v, None, dropout, True, scale=scale, enable_gqa=grouped)
    mask = within(mask, window, q.shape[2], k.shape[2], q.device)
    if mask is None or not q.is_cuda:
        mask = mask if mask is None else torch.atleast_2d(mask)  # kernels require both axes, queries and keys
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale, enable_gqa=grouped)
    # No fast CUDA kernel takes both a mask and grouped heads: expanding the heads first is 6 times faster than the
    # kernel that takes both.
    k, v = share_heads(k, q.shape[1]), share_heads(v, q.shape[1])
    with without_cudnn():
        return F.scaled_dot_product_attention(q, k, v, torch.atleast_2d(mask), dropout, scale=scale)


def share_heads(x: Float[Tensor, "B G S K"], heads: int) -> Float[Tensor, "B H S K"]:
    """Grouped heads, expanded: each key/value head serves H / G neighbouring query heads."""
    groups = x.shape[1]
    return x if groups == heads else x.repeat_interleave(heads // groups, dim=1)


def without_cudnn() -> AbstractContextManager[Any]:
    """A context for calls with a mask, which uses only `SAFE_WITH_MASK`."""
    # torch.compile supports only sdpa_kernel. Run eagerly it costs 20 µs per call, as much as launching all attention.
    return sdpa_kernel(SAFE_WITH_MASK) if torch.compiler.is_compiling() else CudnnOff()


class CudnnOff(AbstractContextManager[None]):
    """Turns cuDNN's attention off while any thread is inside: the switch is global to the process."""

    lock, inside, was_on = Lock(), 0, True

    def __enter__(self) -> None:
        with CudnnOff.lock:
            if CudnnOff.inside == 0:
                CudnnOff.was_on = torch.backends.cuda.cudnn_sdp_enabled()
                torch.backends.cuda.enable_cudnn_sdp(False)
            CudnnOff.inside += 1

    def __exit__(self, *_: object) -> None:
        with CudnnOff.lock:
            CudnnOff.inside -= 1
            if CudnnOff.inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(CudnnOff.was_on)
