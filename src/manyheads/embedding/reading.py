"""Rows of ids as an encoder takes them: batches of about one length, padded.

B rows · T tokens of the longest
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.batching import pad
from manyheads.nn import Padded

__all__ = ["batches_of_rows", "lay_out"]

TOKENS_AT_ONCE, TOKENS_ON_A_GPU = 2_048, 65_536
"""Padding included. On a CPU, more than fits into its caches is no faster."""


def batches_of_rows(rows: Sequence[Sequence[int]], device: torch.device) -> Iterator[list[int]]:
    """Indices of rows of about one length, the longest first. Rows without ids are left out.

    So a batch that does not fit in memory shows at once.
    """
    order = sorted((n for n in range(len(rows)) if rows[n]), key=lambda n: -len(rows[n]))
    room, start = TOKENS_AT_ONCE if device.type == "cpu" else TOKENS_ON_A_GPU, 0
    while start < len(order):
        count = max(1, room // len(rows[order[start]]))
        yield order[start : start + count]
        start += count


def lay_out(rows: list[list[int]], device: torch.device) -> tuple[Int[Tensor, "B T"], Padded]:
    """The ids and their layout. Where nothing is padded there is nothing to mask, which is faster."""
    lengths, ids = [len(row) for row in rows], pad(rows).to(device)
    return ids, Padded.like(ids) if min(lengths) == max(lengths) else Padded.from_lengths(lengths, device)
