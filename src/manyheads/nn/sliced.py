"""Attention whose gradient a CPU is asked for in half precision: a few sentences at a time, computed in float32.

In bfloat16 the backward pass of PyTorch's kernel costs 30 µs more for each sentence and head than in float32, however
short they are. So it is given float32, cut from the batch a few sentences at a time: copies of a whole batch would be
written to memory and read again, these stay in the cache. Nothing but queries, keys and values waits for the backward
pass, which computes the attention once more.

B batch · H heads · G key/value heads · T queries · S keys · K width of a head · V value width
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.nn.watched import check_first_derivative, is_watched

__all__ = ["in_slices", "slices_apply"]

SHORT = 128
"""Keys up to which this is faster. From about 160 on, products of half precision are worth their 30 µs."""

SLICE = 1 << 17
"""Numbers of the queries that a thread is given at a time: with all that is computed from them, as many as its cache
holds. Twice or half as many are about as fast."""

HALF = (torch.bfloat16, torch.float16)

Kernel = Callable[..., Tensor]
"""(q, k, v, mask) → output"""


def slices_apply(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S V"], dropout: float
) -> bool:
    """Whether `in_slices` is faster: on a CPU, for short sentences in half precision, if there will be a gradient.

    PyTorch's kernels have a gradient of that gradient for other widths of values than of keys, and where somebody has
    turned the fast ones off: these are left to it.
    """
    return (
        q.is_cpu
        and not is_watched()
        and torch.is_grad_enabled()
        and q.requires_grad
        and k.shape[2] <= SHORT
        and not dropout  # what is drawn would be drawn again
        and len(q) == len(k) == len(v)
        and k.shape[3] == v.shape[3]
        and torch.backends.cuda.flash_sdp_enabled()  # the CPU's too, despite the name
        and precision(q) in HALF
    )


def precision(x: Tensor) -> torch.dtype:
    """The one that a product with x has on a CPU."""
    lowered = x.dtype != torch.float64 and torch.is_autocast_enabled("cpu")
    return torch.get_autocast_dtype("cpu") if lowered else x.dtype


def in_slices(
    kernel: Kernel, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G S K"], v: Float[Tensor, "B G S K"],
    mask: Tensor | None,
) -> Float[Tensor, "B H T K"]:  # fmt: skip
    """What the kernel returns, in the precision of a product with q."""
    dtype = precision(q)
    return InSlices.apply(kernel, q.to(dtype), k.to(dtype), v.to(dtype), mask).transpose(1, 2)  # type: ignore[no-any-return]


class InSlices(torch.autograd.Function):
    """The output has its heads last but one, (B, T, H, K), as the layer behind it reads them."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(q, k, v, mask)
        out = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format)
        with torch.autocast("cpu", enabled=False):
            for some in slices(q):
                one = kernel(q[some].float(), k[some].float(), v[some].float(), part_of(mask, some))
                out[some] = one.transpose(1, 2)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        check_first_derivative("attention in half precision on a CPU")
        q, k, v, mask = ctx.saved_tensors
        results = [torch.empty_like(x) for x in (q, k, v)]
        with torch.autocast("cpu", enabled=False), torch.enable_grad():
            for some in slices(q):
                given = [x[some].detach().float().requires_grad_() for x in (q, k, v)]
                out = ctx.kernel(*given, part_of(mask, some)).transpose(1, 2)
                for whole, one in zip(results, torch.autograd.grad(out, given, gradient[some].float()), strict=True):
                    whole[some] = one
        return None, *results, None


def slices(q: Float[Tensor, "B H T K"]) -> Iterator[slice]:
    """Neighbouring sentences, with as many numbers as all threads hold in their caches."""
    each = max(1, SLICE * torch.get_num_threads() * len(q) // max(1, q.numel()))
    return (slice(start, start + each) for start in range(0, len(q), each))


def part_of(mask: Tensor | None, some: slice) -> Tensor | None:
    """The mask of these sentences; one for all of them serves any."""
    return mask[some] if mask is not None and mask.ndim == 4 and len(mask) > 1 else mask
