"""The Triton kernels of a norm and of the sum before it (add_norm.py). Imported only where Triton is installed.

Optional arguments may be None: no code is then generated for them.

N tokens · D width, padded by a mask to a power of 2
"""

import triton
import triton.language as tl

__all__ = ["backward_rows", "forward_rows", "sum_partial"]


@triton.jit
def dropped(numbers, seed, row, DROPOUT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """`numbers` (ROWS, WIDTH) of the given rows after dropout.

    The mask is a function of the seed and of each number's place, so the backward pass draws the same one again. One
    draw serves four neighbours: a draw for each would cost more than reading them.
    """
    four = row[:, None].to(tl.uint32) * (WIDTH // 4) + tl.arange(0, WIDTH // 4)[None, :].to(tl.uint32)
    a, b, c, d = tl.randint4x(seed, four)
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), [ROWS, WIDTH]).to(tl.uint32, bitcast=True)
    BOUND: tl.constexpr = int(DROPOUT * 4294967296.0)
    return tl.where(drawn >= BOUND, numbers * (1.0 / (1.0 - DROPOUT)), 0.0)


@triton.jit
def forward_rows(
    x, y, seed, weight, bias, total, normed, mean, scale, next_seed,
    N, D, EPS, DROPOUT: tl.constexpr, CENTRED: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """total = x + dropout(y), normed = norm(total). Programs take blocks of ROWS rows in turn."""
    column = tl.arange(0, WIDTH)
    inside = column < D
    weights = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    if bias is not None:
        biases = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    mine = tl.load(seed)
    for start in range(tl.program_id(0) * ROWS, N, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * D + column[None, :]
        there = (row < N)[:, None] & inside[None, :]
        out = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
        added = tl.load(y + place, mask=there, other=0.0).to(tl.float32)
        if DROPOUT > 0:
            added = dropped(added, mine, row, DROPOUT, WIDTH, ROWS)
        out += added
        tl.store(total + place, out.to(total.dtype.element_ty), mask=there)
        if CENTRED:
            middle = tl.sum(out, 1) / D
            tl.store(mean + row, middle, mask=row < N)
            out = tl.where(there, out - middle[:, None], 0.0)
        scales = tl.rsqrt(tl.sum(out * out, 1) / D + EPS)
        tl.store(scale + row, scales, mask=row < N)
        out = out * scales[:, None] * weights[None, :]
        if bias is not None:
            out += biases[None, :]
        tl.store(normed + place, out.to(normed.dtype.element_ty), mask=there)
    if tl.program_id(0) == 0:
        tl.store(next_seed, mine + 1)


@triton.jit
def backward_rows(
    gradient, total_gradient, total, mean, scale, weight, seed, dx, dy, partial,
    N, D, DROPOUT: tl.constexpr, CENTRED: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """dx of each row, and dy from it; for the gradients of weight and bias, the sums over a program's own rows.

    gradient        of the norm's output
    total_gradient  of the sum itself, or None
    dy              None if nothing was added
    """
    column = tl.arange(0, WIDTH)
    inside = column < D
    weights = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    # One row of sums for each row of the tile, added up at the end: until then, warps need not wait for each other.
    weight_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    bias_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    if DROPOUT > 0:
        mine = tl.load(seed)
    for start in range(tl.program_id(0) * ROWS, N, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        place = row[:, None].to(tl.int64) * D + column[None, :]
        there = (row < N)[:, None] & inside[None, :]
        wanted = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
        normed = tl.load(total + place, mask=there, other=0.0).to(tl.float32)
        if total_gradient is not None:  # read before any thread waits for a sum
            beside = tl.load(total_gradient + place, mask=there, other=0.0).to(tl.float32)
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
        change = change * scales[:, None]
        if total_gradient is not None:
            change += beside
        tl.store(dx + place, change.to(dx.dtype.element_ty), mask=there)
        if dy is not None:
            if DROPOUT > 0:
                change = dropped(change, mine, row, DROPOUT, WIDTH, ROWS)
            tl.store(dy + place, change.to(dy.dtype.element_ty), mask=there)
    tl.store(partial + tl.program_id(0) * 2 * D + column, tl.sum(weight_sum, 0), mask=inside)
    tl.store(partial + tl.program_id(0) * 2 * D + D + column, tl.sum(bias_sum, 0), mask=inside)


@triton.jit
def sum_partial(partial, total, P, COLUMNS, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """total = the sum over the P rows of `partial`, in a fixed order."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, P, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < P)[:, None] & (column < COLUMNS)[None, :]
        sums += tl.load(partial + row[:, None] * COLUMNS + column[None, :], mask=there, other=0.0)
    tl.store(total + column, tl.sum(sums, 0), mask=column < COLUMNS)
