"""Masks: which query may look at which key.

One convention everywhere: **True = may attend**. A mask is a boolean tensor that broadcasts to
(B, H, T, S); masks are combined with `&`. A query that may attend to nothing gets zeros.

B batch · H heads · T queries · S keys
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from manyheads.errors import OptionError

__all__ = ["Window", "band_mask", "causal_mask", "document_mask", "padding_mask", "window_mask"]

Window = tuple[int | None, int | None]
"""How far a query sees to its (left, right); None = unlimited. With (3, 0) it sees itself and three positions back."""


def padding_mask(lengths: Int[Tensor, " B"], longest: int) -> Bool[Tensor, "B 1 1 S"]:
    """Every query may attend to the first `lengths[b]` of `longest` keys."""
    keep = torch.arange(longest, device=lengths.device) < lengths[:, None]
    return keep[:, None, None, :]


def causal_mask(queries: int, keys: int | None = None, device: torch.device | None = None) -> Bool[Tensor, "T S"]:
    """No query may look ahead. With more keys than queries, the queries are the last positions of the sequence."""
    return window_mask(queries, keys, window=(None, 0), device=device)


def window_mask(
    queries: int, keys: int | None = None, *, window: Window, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """A query sees `window[0]` keys to its left, itself, and `window[1]` to its right.

    With more keys than queries, the queries are the last positions of the sequence, as in decoding with a cache.
    """
    keys = queries if keys is None else keys
    key_positions = torch.arange(keys, device=device)
    query_positions = torch.arange(keys - queries, keys, device=device)
    return band_mask(query_positions, key_positions, window)


def band_mask(
    query_positions: Int[Tensor, "*#batch T"], key_positions: Int[Tensor, "*#batch S"], window: Window
) -> Bool[Tensor, "*batch T S"]:
    """True where −left ≤ key position − query position ≤ right."""
    left, right = check_window(window)
    distance = key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)
    mask = torch.ones_like(distance, dtype=torch.bool)
    if left is not None:
        mask = mask & (distance >= -left)
    if right is not None:
        mask = mask & (distance <= right)
    return mask


def document_mask(query_documents: Int[Tensor, "B T"], key_documents: Int[Tensor, "B S"]) -> Bool[Tensor, "B 1 T S"]:
    """For rows that hold several documents: a query sees only the keys with its own document's number."""
    return (query_documents[:, :, None] == key_documents[:, None, :])[:, None]


def check_window(window: Window) -> Window:
    """Return `window` if each side is None or at least 0; otherwise raise."""
    pair = isinstance(window, (tuple, list)) and len(window) == 2
    if not pair or any(side is not None and (type(side) is not int or side < 0) for side in window):
        raise OptionError(
            f"a window is (left, right), each None or at least 0, got {window}",
            hint="(64, 0) sees itself and 64 positions back; (None, 0) is causal",
        )
    return window


def narrow(window: Window | None, causal: bool) -> Window:
    """`window` and `causal` as one window: causality is a right side of 0."""
    left, right = (None, None) if window is None else check_window(window)
    return (left, 0) if causal else (left, right)


def trim(window: Window, queries: int, keys: int) -> Window:
    """The window with None for any side that reaches beyond the sequence, where it forbids nothing."""
    left, right = window
    return (
        None if left is None or left >= keys - 1 else left,
        None if right is None or right >= queries - 1 else right,
    )


def within(
    mask: Bool[Tensor, "..."] | None, window: Window, queries: int, keys: int, device: torch.device
) -> Bool[Tensor, "..."] | None:
    """`mask` and `window` as one mask; None if neither forbids anything."""
    if window == (None, None):
        return mask
    band = window_mask(queries, keys, window=window, device=device)
    return band if mask is None else mask & band
