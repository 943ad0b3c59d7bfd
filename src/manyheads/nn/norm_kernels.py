"""The kernels of a norm's backward pass (norms.py), in Triton. Nothing here is imported where there is no Triton.

N tokens · D width, a power of 2 or masked up to one
"""

import triton
import triton.language as tl

__all__ = ["backward_rows", "sum_partial"]


@triton.jit
def backward_rows(
    gradient, x, mean, scale, weight, dx, partial,
    N, D, CENTRED: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Each program walks over every so-manieth few rows: dx of each; of the weight's and bias' gradients the sum over its own."""
    column = tl.arange(0, WIDTH)
    inside = column < D
    weights = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    # A row of sums for each row of the tile, added up at the end: warps need not wait for each other before.
    weight_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    bias_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    programs = tl.num_programs(0)
    for start in range(tl.program_id(0) * ROWS, N, programs * ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * D + column[None, :]
        there = (row < N)[:, None] & inside[None, :]
        wanted = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
        normed = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
        scales = tl.load(scale + row, mask=row < N, other=0.0)
        if CENTRED:
            normed = normed - tl.load(mean + row, mask=row < N, other=0.0)[:, None]
        normed = tl.where(there, normed * scales[:, None], 0.0)
        weight_sum += wanted * normed
        bias_sum += wanted
        push = wanted * weights[None, :]
        along = tl.sum(push * normed, 1) / D
        change = push - normed * along[:, None]
        if CENTRED:
            change = change - (tl.sum(push, 1) / D)[:, None]
        tl.store(dx + place, (change * scales[:, None]).to(dx.dtype.element_ty), mask=there)
    tl.store(partial + tl.program_id(0) * 2 * D + column, tl.sum(weight_sum, 0), mask=inside)
    tl.store(partial + tl.program_id(0) * 2 * D + D + column, tl.sum(bias_sum, 0), mask=inside)


@triton.jit
def sum_partial(partial, total, P, COLUMNS, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """total = the sum over the P rows of `partial`, in one order."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, P, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < P)[:, None] & (column < COLUMNS)[None, :]
        sums += tl.load(partial + row[:, None] * COLUMNS + column[None, :], mask=there, other=0.0)
    tl.store(total + column, tl.sum(sums, 0), mask=column < COLUMNS)
