"""Checks of everything that the layers of this package are given, with their error messages.

Options are checked when a layer is built. Tensors are checked by shape and dtype alone, never by value:
reading a value would make the CPU wait for the GPU, and stop `torch.compile`.
"""

import torch
from torch import Tensor

from manyheads.errors import OptionError, TensorError
from manyheads.nn.layout import Layout, Packed, Padded

__all__ = [
    "check_batch", "check_cache", "check_divides", "check_head_counts", "check_heads", "check_ids", "check_layout",
    "check_mask", "check_memory", "check_packed", "check_probability", "check_segments", "check_sequence", "check_size",
]  # fmt: skip

PACKED_HINT = "a packed batch needs its layout: Packed.from_lengths([5, 3])"


def check_size(name: str, size: int) -> int:
    if size < 1:
        raise OptionError(f"{name} must be at least 1, got {size}")
    return size


def check_probability(name: str, p: float) -> float:
    if not 0.0 <= p < 1.0:
        raise OptionError(f"{name} is a probability, at least 0 and below 1, got {p}")
    return p


def check_head_counts(heads: int, kv_heads: int | None) -> tuple[int, int]:
    kv_heads = heads if kv_heads is None else kv_heads
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise OptionError(f"heads must be a multiple of kv_heads, both at least 1, got {heads} and {kv_heads}")
    return heads, kv_heads


def check_divides(width: int, heads: int) -> int:
    """Width of one head, if the heads divide the model's width evenly."""
    if width % heads:
        raise OptionError(
            f"heads must divide the width, got width {width} and {heads} heads",
            hint="or set key_width, the width of one head, explicitly",
        )
    return width // heads


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless q (B, H, T, K), k (B, G, S, K) and v (B, G, S, V) fit; the error shows all three."""
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
        raise TensorError(f"q, k and v must have the same floating-point dtype, got {q.dtype}, {k.dtype}, {v.dtype}")


def shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"


def check_mask(mask: Tensor | None, scores: tuple[int, ...]) -> None:
    """Raise unless the mask is boolean and broadcasts to the shape of the scores."""
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TensorError(
            f"a mask must be boolean, True = may attend, got {mask.dtype}",
            hint="convert an additive mask with `mask == 0`, a mask of ones and zeros with `mask.bool()`",
        )
    fits = mask.ndim <= 4 and all(m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores), strict=False))
    if not fits:
        raise TensorError(
            f"a mask must broadcast to (B, H, T, S) = {scores}, got {tuple(mask.shape)}",
            hint="pass a mask over keys (B, S) as mask[:, None, None, :], a mask (B, T, S) as mask[:, None]",
        )


def check_sequence(name: str, x: Tensor, layout: Layout | None, width: int) -> None:
    """Raise unless x is (B, T, D), or (N, D) with a packed layout, of the given width and the shape of its layout."""
    packed = isinstance(layout, Packed)
    axes = 2 if packed else 3
    if x.ndim != axes or x.shape[-1] != width:
        raise TensorError(
            f"{name} must be {'packed (N, D)' if packed else 'padded (B, T, D)'} with D = {width}, got {tuple(x.shape)}",
            hint=PACKED_HINT if x.ndim != axes else None,
        )
    check_layout(name, x.shape[:-1], layout)


def check_layout(name: str, shape: tuple[int, ...], layout: Layout | None) -> None:
    if layout is None:
        return
    if not isinstance(layout, (Padded, Packed)):
        raise TensorError(
            f"the layout of {name} must be Padded or Packed, got {type(layout).__name__}",
            hint="Padded.like(x, keep=mask), True = a token; or Padded.from_lengths([5, 3])",
        )
    if shape != layout.shape:
        raise TensorError(
            f"{name} must have the shape of its layout, {layout.shape}, got {tuple(shape)}",
            hint="for rows padded beyond the longest: Padded.from_lengths(lengths, to=length)",
        )


def check_ids(name: str, ids: Tensor, layout: Layout | None) -> None:
    """Raise unless ids are integers, at least one of them, in the shape that the layout calls for."""
    packed = isinstance(layout, Packed)
    if ids.ndim != (1 if packed else 2) or ids.numel() == 0:
        kind = "packed (N)" if packed else "padded (B, T)"
        raise TensorError(
            f"{name} must be {kind} with at least one token, got {tuple(ids.shape)}",
            hint=PACKED_HINT if ids.ndim == 1 else None,
        )
    if ids.dtype not in (torch.int64, torch.int32):
        raise TensorError(f"{name} must be ids of dtype int64 or int32, got {ids.dtype}")
    check_layout(name, ids.shape, layout)


def check_packed(q: Tensor, k: Tensor, v: Tensor, queries: Packed, keys: Packed) -> None:
    """Raise unless the packed tensors are as long as their layouts and fit one another as in `check_heads`."""
    for name, x, layout in (("q", q, queries), ("k", k, keys), ("v", v, keys)):
        if x.ndim != 3 or x.shape[:1] != layout.shape:
            raise TensorError(f"{name} must be (N, heads, width) with N = {layout.shape[0]}, got {tuple(x.shape)}")
    check_heads(*(x.transpose(0, 1)[None] for x in (q[:1], k[:1], v[:1])))
    check_segments(queries, keys)


def check_segments(queries: Packed, keys: Packed) -> None:
    if queries.batch != keys.batch:
        raise TensorError(
            f"there must be as many sequences of queries as of keys, got {queries.batch} and {keys.batch}"
        )


def check_batch(q: Tensor, k: Tensor) -> None:
    if q.shape[0] != k.shape[0]:
        raise TensorError(f"x and memory must have the same batch, got {q.shape[0]} and {k.shape[0]}")


def check_memory(layout: Layout | None, memory_layout: Layout | None, mask: Tensor | None, banded: bool) -> None:
    """Raise unless both layouts are of one kind, and mask, padding and window have one meaning for them."""
    packed = isinstance(layout, Packed)
    if packed != isinstance(memory_layout, Packed):
        raise TensorError(
            f"x and memory must both be padded or both be packed, got {kind(layout)} queries and {kind(memory_layout)} keys",
            hint="both need a layout: x and the memory, or source and target",
        )
    if has_padding(layout) and memory_layout is None:
        raise TensorError(
            "cross-attention with padding needs a memory_layout (layout describes only x), "
            "got padding in layout, no memory_layout",
            hint="memory_layout=Padded.like(memory, keep=mask), or Padded.like(memory) if it has no padding",
        )
    if packed and mask is not None:
        raise TensorError(
            f"a packed batch takes no dense mask, got one of shape {tuple(mask.shape)}",
            hint="causal and window are options of the layer; for any other mask use a padded batch",
        )
    if banded and memory_layout is not layout and (has_padding(layout) or has_padding(memory_layout)):
        raise TensorError(
            "a causal or windowed layer counts from the end of both sequences, got cross-attention with padding",
            hint="pack both sequences, or use a layer without causal and window, and pass a mask",
        )


def has_padding(layout: Layout | None) -> bool:
    return isinstance(layout, Padded) and layout.keep is not None


def kind(layout: Layout | None) -> str:
    return "packed" if isinstance(layout, Packed) else "padded"


def check_cache(layout: Layout | None, memory: object) -> None:
    if memory is not None:
        raise TensorError(
            "a cache is for self-attention, got one together with a memory",
            hint="a memory does not grow: compute its keys_values once and pass them as the memory",
        )
    if isinstance(layout, Packed):
        raise TensorError("a cache needs a padded batch, got a packed layout")
    if has_padding(layout):
        raise TensorError(
            "a cache does not remember padding, got a layout with padding",
            hint="mask the padding at every step, with a mask over all keys: (B, 1, 1, S)",
        )
