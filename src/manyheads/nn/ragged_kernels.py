"""The Triton kernels of ragged attention (ragged.py). This module is imported only where Triton is installed.

A program handles a block of neighbouring tokens and one head. Each of its tokens may see one contiguous range of tokens
on the other side: its own sentence there, cut short by the window. The program walks over everything that any of its
tokens may see, and masks what each token may not. Short sentences share a block, long ones take several; no program
waits for the longest sentence of the batch.

No two programs write to the same address: gradients are bitwise reproducible.

N query tokens · M key tokens · H heads · G key/value heads · K width of a head · row: the number of a sentence
"""

import triton
import triton.language as tl

__all__ = ["backward_keys", "backward_queries", "forward"]


@triton.jit
def seen(token, tokens, rows, offsets, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """The range [first, last) that each token may see on the other side; empty past the last token."""
    inside = token < tokens
    row = tl.load(rows + token, mask=inside, other=0)
    first = tl.load(offsets + row, mask=inside, other=2147483647)
    last = tl.load(offsets + row + 1, mask=inside, other=0)
    if LEFT >= 0:
        first = tl.maximum(first, token - LEFT)
    if RIGHT >= 0:
        last = tl.minimum(last, token + RIGHT + 1)
    return first, last


@triton.jit
def tile(base, token, tokens, stride, head, head_stride, K: tl.constexpr):
    """Load (tokens of the block, K) of one head; zeros past the last token."""
    place = base + token.to(tl.int64)[:, None] * stride + head * head_stride + tl.arange(0, K)[None, :]
    return tl.load(place, mask=(token < tokens)[:, None], other=0.0)


@triton.jit
def put(base, token, tokens, stride, head, head_stride, value, K: tl.constexpr):
    place = base + token.to(tl.int64)[:, None] * stride + head * head_stride + tl.arange(0, K)[None, :]
    tl.store(place, value, mask=(token < tokens)[:, None])


@triton.jit
def forward(
    q, k, v, out, logsum,
    query_rows, key_offsets,
    N, M, scale,
    q_token, q_head, k_token, k_head, v_token, v_head,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, H: tl.constexpr, GROUP: tl.constexpr, K: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """out = softmax(q·kᵀ·scale)·v, and log2 Σ exp2 of the scores, which the backward pass needs."""
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    head = tl.program_id(1)
    first, last = seen(query, N, query_rows, key_offsets, LEFT, RIGHT)
    queries = tile(q, query, N, q_token, head, q_head, K)
    highest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, K], tl.float32)
    for start in range(tl.min(first), tl.max(last), KEYS):
        key = start + tl.arange(0, KEYS)
        keys = tile(k, key, M, k_token, head // GROUP, k_head, K)
        values = tile(v, key, M, v_token, head // GROUP, v_head, K)
        scores = tl.dot(queries, keys.T) * (scale * 1.4426950408889634)  # powers of 2 from here on
        may = (key[None, :] >= first[:, None]) & (key[None, :] < last[:, None])
        scores = tl.where(may, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        against = tl.where(higher == float("-inf"), 0.0, higher)  # −∞: the query has seen no key yet
        weights = tl.exp2(scores - against[:, None])
        fade = tl.exp2(highest - against)
        total = total * fade + tl.sum(weights, 1)
        mixed = mixed * fade[:, None] + tl.dot(weights.to(values.dtype), values)
        highest = higher
    sees = total > 0
    mixed = mixed / tl.where(sees, total, 1.0)[:, None]
    put(out, query, N, H * K, head, K, mixed.to(out.dtype.element_ty), K)
    tl.store(
        logsum + head.to(tl.int64) * N + query,
        tl.where(sees, highest + tl.log2(tl.where(sees, total, 1.0)), 0.0),
        mask=query < N,
    )


@triton.jit
def backward_queries(
    q, k, v, out, logsum, gradient, agreement, dq,
    query_rows, key_offsets,
    N, M, scale,
    q_token, q_head, k_token, k_head, v_token, v_head, g_token, g_head, dq_token, dq_head,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, H: tl.constexpr, GROUP: tl.constexpr, K: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dq, and out·gradient for each query, which `backward_keys` reads."""
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    head = tl.program_id(1)
    first, last = seen(query, N, query_rows, key_offsets, LEFT, RIGHT)
    queries = tile(q, query, N, q_token, head, q_head, K)
    wanted = tile(gradient, query, N, g_token, head, g_head, K)
    given = tile(out, query, N, H * K, head, K, K)
    agreed = tl.sum(wanted.to(tl.float32) * given.to(tl.float32), 1)
    tl.store(agreement + head.to(tl.int64) * N + query, agreed, mask=query < N)
    sums = tl.load(logsum + head.to(tl.int64) * N + query, mask=query < N, other=0.0)
    change = tl.zeros([QUERIES, K], tl.float32)
    for start in range(tl.min(first), tl.max(last), KEYS):
        key = start + tl.arange(0, KEYS)
        keys = tile(k, key, M, k_token, head // GROUP, k_head, K)
        values = tile(v, key, M, v_token, head // GROUP, v_head, K)
        scores = tl.dot(queries, keys.T) * (scale * 1.4426950408889634)
        may = (key[None, :] >= first[:, None]) & (key[None, :] < last[:, None])
        weights = tl.where(may, tl.exp2(scores - sums[:, None]), 0.0)
        push = weights * (tl.dot(wanted, values.T) - agreed[:, None])
        change += tl.dot(push.to(keys.dtype), keys)
    put(dq, query, N, dq_token, head, dq_head, (change * scale).to(dq.dtype.element_ty), K)


@triton.jit
def backward_keys(
    q, k, v, logsum, gradient, agreement, dk, dv,
    key_rows, query_offsets,
    N, M, scale,
    q_token, q_head, k_token, k_head, v_token, v_head, g_token, g_head, dk_token, dk_head, dv_token, dv_head,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, GROUP: tl.constexpr, K: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """dk and dv: the same walk from the side of the keys, over the queries that may see them."""
    key = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    shared = tl.program_id(1)
    first, last = seen(key, M, key_rows, query_offsets, RIGHT, LEFT)
    keys = tile(k, key, M, k_token, shared, k_head, K)
    values = tile(v, key, M, v_token, shared, v_head, K)
    key_change = tl.zeros([KEYS, K], tl.float32)
    value_change = tl.zeros([KEYS, K], tl.float32)
    for member in range(GROUP):
        head = shared * GROUP + member
        for start in range(tl.min(first), tl.max(last), QUERIES):
            query = start + tl.arange(0, QUERIES)
            queries = tile(q, query, N, q_token, head, q_head, K)
            wanted = tile(gradient, query, N, g_token, head, g_head, K)
            sums = tl.load(logsum + head.to(tl.int64) * N + query, mask=query < N, other=0.0)
            agreed = tl.load(agreement + head.to(tl.int64) * N + query, mask=query < N, other=0.0)
            scores = tl.dot(keys, queries.T) * (scale * 1.4426950408889634)
            may = (query[None, :] >= first[:, None]) & (query[None, :] < last[:, None])
            weights = tl.where(may, tl.exp2(scores - sums[None, :]), 0.0)
            value_change += tl.dot(weights.to(wanted.dtype), wanted)
            push = weights * (tl.dot(values, wanted.T) - agreed[None, :])
            key_change += tl.dot(push.to(queries.dtype), queries)
    put(dk, key, M, dk_token, shared, dk_head, (key_change * scale).to(dk.dtype.element_ty), K)
    put(dv, key, M, dv_token, shared, dv_head, value_change.to(dv.dtype.element_ty), K)
