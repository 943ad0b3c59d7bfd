"""Attention over packed batches of many short sentences, in Triton.

Variable-length flash attention gives every sentence its own tiles; where most sentences fill a quarter of a tile, three
quarters of the work is wasted, and its backward pass is worse. Here neighbouring sentences share a tile
(ragged_kernels.py). The launch depends on shapes alone, so a CUDA graph of it is valid for any sentences.

N query tokens · M key tokens · G key/value heads · A heads of queries, or of queries, keys and values
both: heads of keys and values · K width of a head
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.nn.kernels import HAVE_TRITON, kernels
from manyheads.nn.layout import Packed
from manyheads.nn.masks import Window

__all__ = ["ragged_applies", "ragged_attention"]

LONGEST = 1024
"""Longest sequence. Beyond this, flash attention's own tiles are full."""

WIDTHS = (16, 32, 64, 128)
TILES: dict[str, dict[str, int]] = {
    "forward": {"QUERIES": 64, "KEYS": 64, "num_warps": 4, "num_stages": 2},
    "queries": {"QUERIES": 64, "KEYS": 64, "num_warps": 4, "num_stages": 2},
    "keys": {"QUERIES": 32, "KEYS": 32, "num_warps": 2, "num_stages": 2},
}


def ragged_applies(x: Tensor, width: int, queries: Packed, keys: Packed, window: Window) -> bool:
    """True if these kernels support the case. Decided by types, shapes and plain numbers.

    A window compares positions in one sequence, so queries and keys must then have the same layout.
    """
    return (
        x.is_cuda
        and HAVE_TRITON
        and x.dtype in (torch.float16, torch.bfloat16)
        and width in WIDTHS
        and (window == (None, None) or queries is keys)
        and max(queries.longest, keys.longest) <= LONGEST
    )


def ragged_attention(
    q: Float[Tensor, "N A K"],
    kv: Float[Tensor, "M both K"] | None,
    heads: int,
    queries: Packed,
    keys: Packed,
    window: Window = (None, None),
    scale: float | None = None,
) -> Float[Tensor, "N {heads} K"]:
    """Sentence b of the queries attends to sentence b of the keys. The arguments are not checked.

    q    the queries of all heads; without `kv`, followed in the same tensor by keys and values, as one projection
         returns them. Their gradient is then one tensor, too.
    kv   keys, followed by values
    """
    left, right = (-1 if side is None else side for side in window)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    segments = (queries.offsets, queries.rows, keys.offsets, keys.rows)
    return forward(q, kv, heads, *segments, left, right, scale)[0]


def parts_of(q: Tensor, kv: Tensor | None, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Views of the queries, the keys and the values."""
    if kv is None:
        q, kv = q[:, :heads], q[:, heads:]
    keys, values = kv.chunk(2, dim=1)
    return q, keys, values


@torch.library.custom_op("manyheads::ragged_attention", mutates_args=())
def forward(
    q: Tensor, kv: Tensor | None, heads: int,
    query_offsets: Tensor, query_rows: Tensor, key_offsets: Tensor, key_rows: Tensor,
    left: int, right: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(the output, log2 of the sum that normalises each query's weights)"""
    out, logsum = empty(q, heads)
    q, k, v = parts_of(q, kv, heads)
    grid = (blocks(len(q), TILES["forward"]["QUERIES"]), heads)
    kernels("ragged").forward[grid](
        q, k, v, out, logsum, query_rows, key_offsets, len(q), len(k), scale, *strides(q, k, v),
        LEFT=left, RIGHT=right, H=heads, GROUP=heads // k.shape[1], K=q.shape[2], **TILES["forward"],
    )  # fmt: skip
    return out, logsum


@forward.register_fake
def _(q: Tensor, kv: Tensor | None, heads: int, *_: Any) -> tuple[Tensor, Tensor]:
    return empty(q, heads)


@torch.library.custom_op("manyheads::ragged_attention_backward", mutates_args=())
def backward(
    gradient: Tensor, q: Tensor, kv: Tensor | None, out: Tensor, logsum: Tensor, heads: int,
    query_offsets: Tensor, query_rows: Tensor, key_offsets: Tensor, key_rows: Tensor,
    left: int, right: int, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of q and kv; the second is empty if there is no kv."""
    changes = like(q), like(kv if kv is not None else q[:0])
    q, k, v = parts_of(q, kv, heads)
    dq, dk, dv = parts_of(changes[0], changes[1] if kv is not None else None, heads)
    agreement = torch.empty_like(logsum)
    options = {"LEFT": left, "RIGHT": right, "GROUP": heads // k.shape[1], "K": q.shape[2]}
    kernels("ragged").backward_queries[(blocks(len(q), TILES["queries"]["QUERIES"]), heads)](
        q, k, v, out, logsum, gradient, agreement, dq, query_rows, key_offsets, len(q), len(k), scale,
        *strides(q, k, v, gradient, dq), H=heads, **options, **TILES["queries"],
    )  # fmt: skip
    kernels("ragged").backward_keys[(blocks(len(k), TILES["keys"]["KEYS"]), k.shape[1])](
        q, k, v, logsum, gradient, agreement, dk, dv, key_rows, query_offsets, len(q), len(k), scale,
        *strides(q, k, v, gradient, dk, dv), **options, **TILES["keys"],
    )  # fmt: skip
    return changes


@backward.register_fake
def _(gradient: Tensor, q: Tensor, kv: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return like(q), like(kv if kv is not None else q[:0])


def keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, kv, heads, *segments, left, right, scale = inputs
    ctx.save_for_backward(q, kv, *output, *segments)
    ctx.heads, ctx.how = heads, (left, right, scale)


def differentiate(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, kv, out, logsum, *segments = ctx.saved_tensors
    gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
    dq, dkv = backward(gradient, q, kv, out, logsum, ctx.heads, *segments, *ctx.how)
    return dq, dkv if kv is not None else None, *[None] * 8


forward.register_autograd(differentiate, setup_context=keep_for_backward)


def empty(q: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Buffers for the output, and for one number per query and head."""
    tokens, _, width = q.shape
    return q.new_empty(tokens, heads, width), q.new_empty(heads, tokens, dtype=torch.float32)


def like(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def strides(*tensors: Tensor) -> list[int]:
    """The strides between tokens and between heads of each tensor; within a head, numbers are contiguous."""
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


def blocks(tokens: int, size: int) -> int:
    return -(-tokens // size)
