"""AdamW, clipping and the moving average as Triton kernels, in two passes over the parameters.

Only fused_update.py uses them.

    norm   = √Σ g²                               a pass over the gradients: 4 bytes per parameter
    g      ← g · min(1, clip / norm)             with everything below, a second pass: 36 bytes per parameter
    m      ← m + (1 − β₁)·(g − m)
    v      ← β₂·v + (1 − β₂)·g²
    w      ← w − rate·decay·w − rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
    a      ← a + weight·(w − a)                  the moving average, even when nothing else moves

Tensors may be anywhere in memory: kernels find them by their addresses, in a table on the device. All of them are cut
into chunks of BLOCK elements; for each chunk, its tensor and its start in that tensor are stored. Whatever changes from
step to step is read from the device, so a CUDA graph of these launches is right for every step. Sums are taken in a
fixed order: the same gradients give the same bits.

Rows of the table of addresses (LANES columns, one per tensor): weights, gradients (0 = none), m, v, averages.
"""

import triton
import triton.language as tl

__all__ = ["BATCH", "BLOCK", "PARTS", "move_chunk", "note_addresses", "settle_step", "sum_squares"]

BLOCK = 2048
PARTS = 8
"""Chunks whose squares one program adds up, so that a single program can add up the sums."""

BATCH = 128
"""Addresses passed by one launch: a kernel's arguments have room for 4 KiB."""


@triton.jit
def note_addresses(row, tensors, nothing, BATCH: tl.constexpr):
    """Store the addresses of tensors, 0 for `nothing`. As arguments they are part of a graph: no copy to keep alive."""
    none = nothing.to(tl.int64)
    for n in tl.static_range(BATCH):
        address = tensors[n].to(tl.int64)
        tl.store(row + n, tl.where(address == none, 0, address))


@triton.jit
def floats_at(addresses, tensor):
    """A tensor's pointer. Addresses and starts of chunks are multiples of 16, so four numbers are read at once."""
    return tl.multiple_of(tl.load(addresses + tensor).to(tl.pointer_type(tl.float32)), 16)


@triton.jit
def start_of(starts, chunk):
    return tl.multiple_of(tl.load(starts + chunk), 16)


@triton.jit
def squares_of(gradients, sizes, owners, starts, chunk, BLOCK: tl.constexpr):
    tensor, start = tl.load(owners + chunk), start_of(starts, chunk)
    size, places = tl.load(sizes + tensor), start + tl.arange(0, BLOCK)
    some = tl.zeros([BLOCK], tl.float32)
    if tl.load(gradients + tensor) != 0:
        if start + BLOCK <= size:  # with a mask they would be read one by one
            some = tl.load(floats_at(gradients, tensor) + places)
        else:
            some = tl.load(floats_at(gradients, tensor) + places, mask=places < size, other=0.0)
    return some * some


@triton.jit
def sum_squares(addresses, sizes, owners, starts, sums, chunks, LANES, BLOCK: tl.constexpr, PARTS: tl.constexpr):  # fmt: skip
    """Σ g² of PARTS chunks."""
    total = tl.zeros([BLOCK], tl.float32)
    for part in range(PARTS):
        chunk = tl.program_id(0) * PARTS + part
        if chunk < chunks:
            total += squares_of(addresses + LANES, sizes, owners, starts, chunk, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(total))


@triton.jit
def settle_step(
    addresses, sums, outcome, steps, decays, factors, rate, clip, LANES,
    SUMS: tl.constexpr, TENSORS: tl.constexpr, LOG2_BETA1: tl.constexpr, LOG2_BETA2: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program: the norm, whether the step is skipped, and the factors of every tensor's update.

    outcome   norm · 1 if the step is skipped · factor of the gradients
    factors   rows of LANES: rate·decay · rate / (1 − β₁ᵗ) · 1 / √(1 − β₂ᵗ)
    """
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, SUMS, BLOCK):
        places = start + tl.arange(0, BLOCK)
        total += tl.load(sums + places, mask=places < SUMS, other=0.0)
    norm = tl.sqrt_rn(tl.sum(total))
    moves = tl.where(norm < float("inf"), 1.0, 0.0)  # NaN is not below it either
    tl.store(outcome, norm)
    tl.store(outcome + 1, 1.0 - moves)
    tl.store(outcome + 2, tl.minimum(tl.div_rn(clip, norm + 1e-6), 1.0))

    its_rate = tl.load(rate)  # float64: 1 − 0.98ᵗ has only five digits left in float32
    for start in range(0, TENSORS, BLOCK):
        places = start + tl.arange(0, BLOCK)
        inside = places < TENSORS
        given = tl.load(addresses + LANES + places, mask=inside, other=0) != 0
        step = tl.load(steps + places, mask=inside, other=0.0) + tl.where(given, moves, 0.0)
        tl.store(steps + places, step, mask=inside)
        t = tl.maximum(step, 1.0).to(tl.float64)
        shrink = its_rate * tl.load(decays + places, mask=inside, other=0.0)
        tl.store(factors + places, shrink.to(tl.float32), mask=inside)
        tl.store(factors + LANES + places, (its_rate / (1 - tl.exp2(t * LOG2_BETA1))).to(tl.float32), mask=inside)
        last = 1 / tl.sqrt(1 - tl.exp2(t * LOG2_BETA2))
        tl.store(factors + 2 * LANES + places, last.to(tl.float32), mask=inside)


@triton.jit
def move_chunk(
    addresses, sizes, owners, starts, outcome, factors, weight, LANES,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr,
    AVERAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The update of the parameters of one chunk."""
    chunk = tl.program_id(0)
    tensor, start = tl.load(owners + chunk), start_of(starts, chunk)
    size = tl.load(sizes + tensor)
    places = start + tl.arange(0, BLOCK)
    if start + BLOCK <= size:
        move(addresses, tensor, places, None, outcome, factors, weight, LANES, BETA1, BETA2, EPS, AVERAGE)
    else:
        inside = places < size
        move(addresses, tensor, places, inside, outcome, factors, weight, LANES, BETA1, BETA2, EPS, AVERAGE)


@triton.jit
def move(
    addresses, tensor, places, inside, outcome, factors, weight, LANES,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr, AVERAGE: tl.constexpr,
):  # fmt: skip
    weights = floats_at(addresses, tensor) + places
    w = tl.load(weights, mask=inside)
    if (tl.load(addresses + LANES + tensor) != 0) & (tl.load(outcome + 1) == 0):
        means = floats_at(addresses + 2 * LANES, tensor) + places
        squares = floats_at(addresses + 3 * LANES, tensor) + places
        g = tl.load(floats_at(addresses + LANES, tensor) + places, mask=inside) * tl.load(outcome + 2)
        m, v = tl.load(means, mask=inside), tl.load(squares, mask=inside)
        m += (1 - BETA1) * (g - m)
        v = BETA2 * v + (1 - BETA2) * g * g
        w -= tl.load(factors + tensor) * w
        far = tl.load(factors + LANES + tensor) * m
        w -= tl.div_rn(far, tl.sqrt_rn(v) * tl.load(factors + 2 * LANES + tensor) + EPS)
        tl.store(means, m, mask=inside)
        tl.store(squares, v, mask=inside)
        tl.store(weights, w, mask=inside)
    if AVERAGE:
        averages = floats_at(addresses + 4 * LANES, tensor) + places
        a, share = tl.load(averages, mask=inside), tl.load(weight).to(tl.float32)
        # From the nearer end, as torch.lerp does.
        a = tl.where(share < 0.5, a + share * (w - a), w - (w - a) * (1 - share))
        tl.store(averages, a, mask=inside)
