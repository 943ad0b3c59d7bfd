"""The Triton kernel of the gradient of max(0, x + bias) (linear_relu.py). Imported only where Triton is installed.

N tokens · F hidden width
"""

import triton
import triton.language as tl

from manyheads.nn.norm_kernels import sum_partial

__all__ = ["mask_rows", "sum_partial"]


@triton.jit
def mask_rows(gradient, y, masked, partial, N, F, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """masked = gradient × (y > 0), and the sums of it over a program's own tokens."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    # Added up over the rows of the tile at the end: until then, warps need not wait for each other.
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(tl.program_id(0) * ROWS, N, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * F + column[None, :]
        there = (row < N)[:, None] & (column < F)[None, :]
        kept = (tl.load(y + place, mask=there, other=0.0).to(tl.float32) > 0).to(tl.float32)
        wanted = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32) * kept
        tl.store(masked + place, wanted.to(masked.dtype.element_ty), mask=there)
        sums += wanted
    tl.store(partial + tl.program_id(0) * F + column, tl.sum(sums, 0), mask=column < F)
