"""The Triton kernel of the loss over a vocabulary (vocabulary_loss.py). Imported only where Triton is installed.

One program judges one token. It reads the token's row of logits, or two rows if the token was predicted twice, and
replaces them by their gradients. With x and y the logits, p and q their softmax, d = log p − log q, and t the target:
the smoothed label, of which a share h is replaced by a row of hints, if there are any:

    loss = c₁·CE(t, p) + c₂·CE(t, q) + k₁·KL(p ‖ q) + k₂·KL(q ‖ p)
    ∂x   = c₁·(p − t) + k₁·p·( d − KL(p ‖ q)) + k₂·(p − q)
    ∂y   = c₂·(q − t) + k₂·q·(−d − KL(q ‖ p)) + k₁·(q − p)

A row is walked over three times: for its largest logit, for sums, for gradients. Memory is read once: later walks find
the row in the caches or, if walks are unrolled (UNROLL), in registers, as far as the compiler sees that they read the
same. Sums run along lanes first, and lanes are combined once per sum: few barriers, and a fixed order.

W words, in rows of ROOM logits, a multiple of 16: logits past the words are padding, and their gradient is 0.
A row of hints has W numbers.
"""

import triton
import triton.language as tl

__all__ = ["judge_rows"]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def judge_rows(
    logits, labels, hints, losses, twin, smoothing, h, c1, c2, k1, k2,
    W: tl.constexpr, ROOM: tl.constexpr, PADDING: tl.constexpr, TWICE: tl.constexpr, TAUGHT: tl.constexpr,
    BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """The logits of token n are in row n and, if it was predicted twice, in row n + twin."""
    token = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + token)
    one, other = logits + token * ROOM, logits + (token + twin) * ROOM
    hint = hints + token * W
    if label == PADDING:
        forget(one, ROOM, BLOCK)
        if TWICE:
            forget(other, ROOM, BLOCK)
        tl.store(losses + token, 0.0)
    elif TWICE:
        loss = judge_twice(one, other, label, hint, smoothing, h, c1, c2, k1, k2, W, ROOM, TAUGHT, BLOCK, UNROLL)
        tl.store(losses + token, loss)
    else:
        loss = judge_once(one, label, hint, smoothing, h, c1, W, ROOM, TAUGHT, BLOCK, UNROLL)
        tl.store(losses + token, loss)


@triton.jit
def judge_once(
    row, label, hint, smoothing, h, c1,
    W: tl.constexpr, ROOM: tl.constexpr, TAUGHT: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    wanted, peak = look_at(row, label, W, ROOM, BLOCK, UNROLL)
    total, offset = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    told = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, W, BLOCK, loop_unroll_factor=UNROLL):
        inside, x = read(row, start, peak, W, ROOM, BLOCK)
        total += tl.where(inside, tl.exp2(x), 0.0)
        offset += tl.where(inside, x, 0.0)
        if TAUGHT:
            told += tl.where(inside, x, 0.0) * hinted(hint, start, W, BLOCK)
    sum_p = tl.sum(total, 0)
    loss, scale = c1 * entropy(wanted, sum_p, offset, told, smoothing, h, W, TAUGHT), 1 / sum_p
    for start in tl.range(0, W, BLOCK, loop_unroll_factor=UNROLL):
        inside, x = read(row, start, peak, W, ROOM, BLOCK)
        aim = aim_at(start, label, hint, smoothing, h, W, TAUGHT, BLOCK)
        write(row, start, tl.where(inside, c1 * (tl.exp2(x) * scale - aim), 0.0), ROOM, BLOCK)
    return loss


@triton.jit
def judge_twice(
    one, other, label, hint, smoothing, h, c1, c2, k1, k2,
    W: tl.constexpr, ROOM: tl.constexpr, TAUGHT: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    wanted_p, peak_p = look_at(one, label, W, ROOM, BLOCK, UNROLL)
    wanted_q, peak_q = look_at(other, label, W, ROOM, BLOCK, UNROLL)
    total_p, total_q = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    offset_p, offset_q = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    forth, back = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    told_p, told_q = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, W, BLOCK, loop_unroll_factor=UNROLL):
        inside, x = read(one, start, peak_p, W, ROOM, BLOCK)
        inside, y = read(other, start, peak_q, W, ROOM, BLOCK)
        p, q = tl.where(inside, tl.exp2(x), 0.0), tl.where(inside, tl.exp2(y), 0.0)
        total_p, total_q = total_p + p, total_q + q
        offset_p, offset_q = offset_p + tl.where(inside, x, 0.0), offset_q + tl.where(inside, y, 0.0)
        forth, back = forth + p * (x - y), back + q * (x - y)
        if TAUGHT:
            r = hinted(hint, start, W, BLOCK)
            told_p, told_q = told_p + r * tl.where(inside, x, 0.0), told_q + r * tl.where(inside, y, 0.0)
    sum_p, sum_q = tl.sum(total_p, 0), tl.sum(total_q, 0)
    between = tl.log2(sum_p) - tl.log2(sum_q)  # d = ln 2 · (x − y − between)
    kl_pq = LN2 * (tl.sum(forth, 0) / sum_p - between)
    kl_qp = LN2 * (between - tl.sum(back, 0) / sum_q)
    loss = c1 * entropy(wanted_p, sum_p, offset_p, told_p, smoothing, h, W, TAUGHT) + k1 * kl_pq
    loss += c2 * entropy(wanted_q, sum_q, offset_q, told_q, smoothing, h, W, TAUGHT) + k2 * kl_qp
    scale_p, scale_q = 1 / sum_p, 1 / sum_q
    push_p, push_q = c1 + k2 - k1 * kl_pq, c2 + k1 - k2 * kl_qp  # the factors of p and q, without the terms in d
    for start in tl.range(0, W, BLOCK, loop_unroll_factor=UNROLL):
        inside, x = read(one, start, peak_p, W, ROOM, BLOCK)
        inside, y = read(other, start, peak_q, W, ROOM, BLOCK)
        p, q, d = tl.exp2(x) * scale_p, tl.exp2(y) * scale_q, LN2 * (x - y - between)
        aim = aim_at(start, label, hint, smoothing, h, W, TAUGHT, BLOCK)
        write(one, start, tl.where(inside, p * (push_p + k1 * d) - k2 * q - c1 * aim, 0.0), ROOM, BLOCK)
        write(other, start, tl.where(inside, q * (push_q - k2 * d) - k1 * p - c2 * aim, 0.0), ROOM, BLOCK)
    return loss


@triton.jit
def look_at(row, label, W: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """(the label's logit minus the largest one, the largest one), both · log₂ e.

    The label's logit is read here: the sums that follow make threads wait for each other before any of them overwrites
    it with a gradient.
    """
    wanted = tl.load(row + label).to(tl.float32) * LOG2E
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in tl.range(0, W, BLOCK, loop_unroll_factor=UNROLL):
        inside, x = read(row, start, 0.0, W, ROOM, BLOCK)
        highest = tl.maximum(highest, tl.where(inside, x, float("-inf")))
    peak = tl.max(highest, 0)
    return wanted - peak, peak


@triton.jit
def entropy(wanted, total, offset, told, smoothing, h, W: tl.constexpr, TAUGHT: tl.constexpr):
    """log Σ exp(x) − Σ t·x, where the smoothed label's part of the last sum is (1 − s)·x_label + s·mean(x)"""
    aimed = (1 - smoothing) * wanted + smoothing * tl.sum(offset, 0) / W
    if TAUGHT:
        aimed = (1 - h) * aimed + h * tl.sum(told, 0)
    return LN2 * (tl.log2(total) - aimed)


@triton.jit
def aim_at(start, label, hint, smoothing, h, W: tl.constexpr, TAUGHT: tl.constexpr, BLOCK: tl.constexpr):
    """t, for a block of words."""
    aim = tl.where(start + tl.arange(0, BLOCK) == label, 1 - smoothing, 0.0) + smoothing / W
    if TAUGHT:
        aim = (1 - h) * aim + h * hinted(hint, start, W, BLOCK)
    return aim


@triton.jit
def hinted(hint, start, W: tl.constexpr, BLOCK: tl.constexpr):
    column = start + tl.arange(0, BLOCK)
    return tl.load(hint + column, mask=column < W, other=0.0)


@triton.jit
def read(row, start, peak, W: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    """(which columns are words, x · log₂ e − peak). Full vectors are read, so some columns may be past the words."""
    column = start + tl.arange(0, BLOCK)
    x = tl.load(row + column, mask=column < ROOM, other=0.0).to(tl.float32)
    return column < W, x * LOG2E - peak


@triton.jit
def write(row, start, change, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    column = start + tl.arange(0, BLOCK)
    tl.store(row + column, change.to(row.dtype.element_ty), mask=column < ROOM)


@triton.jit
def forget(row, ROOM: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(0, ROOM, BLOCK):
        write(row, start, tl.zeros([BLOCK], tl.float32), ROOM, BLOCK)
