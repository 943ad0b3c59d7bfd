"""The Triton kernels of sums and maxima over paths (paths.py). This module is imported only where Triton is installed.

Each word depends on the one before, so one program handles one sentence and walks from word to word; what it needs of
the previous word it has written itself. A batch has enough sentences to keep a GPU busy. Only `links_used` has a
program for each tile of links. Everything is a logarithm, in float32.

B sentences · T words · L vertices, of which a sentence uses those up to its last
"""

import triton
import triton.language as tl

__all__ = ["links_used", "trace_ways", "ways_ahead", "ways_back"]


@triton.jit
def ways_ahead(words, links, ahead, lengths, last, T, L, BEST: tl.constexpr, TILE: tl.constexpr):
    """ahead[t, j] = words[t, j] + log Σᵢ exp(ahead[t − 1, i] + links[i, j]).

    With BEST, the maximum replaces the sum.
    """
    sentence = tl.program_id(0).to(tl.int64)
    vertices, count = tl.load(last + sentence) + 1, tl.load(lengths + sentence)
    words += sentence * T * L
    links += sentence * L * L
    ahead += sentence * T * L
    for start in range(0, vertices, TILE):
        j = start + tl.arange(0, TILE)
        first = tl.load(links + j, mask=j < vertices, other=float("-inf"))
        tl.store(ahead + j, first + tl.load(words + j, mask=j < vertices, other=0.0), mask=j < vertices)
    for t in range(1, count):
        tl.debug_barrier()  # wait for what other threads write about the previous word
        for start in range(0, vertices, TILE):
            j = start + tl.arange(0, TILE)
            most = tl.full([TILE], float("-inf"), tl.float32)
            total = tl.zeros([TILE], tl.float32)
            for begin in range(0, start + TILE, TILE):  # links go forward
                i = begin + tl.arange(0, TILE)
                before = tl.load(ahead + (t - 1) * L + i, mask=i < vertices, other=float("-inf"))
                there = (i < vertices)[:, None] & (j < vertices)[None, :]
                link = tl.load(links + i[:, None] * L + j[None, :], mask=there, other=float("-inf"))
                both = before[:, None] + link
                higher = tl.maximum(most, tl.max(both, 0))
                if not BEST:
                    shift = tl.where(higher == float("-inf"), 0.0, higher)
                    total = total * tl.exp(most - shift) + tl.sum(tl.exp(both - shift[None, :]), 0)
                most = higher
            found = most + tl.load(words + t * L + j, mask=j < vertices, other=0.0)
            if not BEST:
                found += tl.log(tl.where(most == float("-inf"), 1.0, total))
            tl.store(ahead + t * L + j, found, mask=j < vertices)


@triton.jit
def ways_back(words, links, back, lengths, last, T, L, TILE: tl.constexpr):
    """back[t, i] = log Σⱼ exp(links[i, j] + words[t + 1, j] + back[t + 1, j]).

    For the last word it is the link to the last vertex.
    """
    sentence = tl.program_id(0).to(tl.int64)
    end, count = tl.load(last + sentence), tl.load(lengths + sentence)
    vertices = end + 1
    words += sentence * T * L
    links += sentence * L * L
    back += sentence * T * L
    for start in range(0, vertices, TILE):
        i = start + tl.arange(0, TILE)
        to_last = tl.load(links + i * L + end, mask=i < vertices, other=float("-inf"))
        tl.store(back + (count - 1) * L + i, to_last, mask=i < vertices)
    for step in range(1, count):
        t = count - 1 - step
        tl.debug_barrier()
        for start in range(0, vertices, TILE):
            i = start + tl.arange(0, TILE)
            most = tl.full([TILE], float("-inf"), tl.float32)
            total = tl.zeros([TILE], tl.float32)
            for begin in range(start, vertices, TILE):
                j = begin + tl.arange(0, TILE)
                after = tl.load(back + (t + 1) * L + j, mask=j < vertices, other=float("-inf"))
                after += tl.load(words + (t + 1) * L + j, mask=j < vertices, other=0.0)
                there = (i < vertices)[:, None] & (j < vertices)[None, :]
                both = tl.load(links + i[:, None] * L + j[None, :], mask=there, other=float("-inf")) + after[None, :]
                higher = tl.maximum(most, tl.max(both, 1))
                shift = tl.where(higher == float("-inf"), 0.0, higher)
                total = total * tl.exp(most - shift) + tl.sum(tl.exp(both - shift[:, None]), 1)
                most = higher
            found = most + tl.log(tl.where(most == float("-inf"), 1.0, total))
            tl.store(back + t * L + i, found, mask=i < vertices)


@triton.jit
def links_used(
    words, links, ahead, back, total, gradient, used, lengths, last, T, L, TILE: tl.constexpr,
):  # fmt: skip
    """used[i, j] = gradient · Σₜ exp(ahead[t − 1, i] + links[i, j] + words[t, j] + back[t, j] − total).

    One program handles one tile of links.
    """
    sentence = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * TILE + tl.arange(0, TILE)
    j = tl.program_id(2) * TILE + tl.arange(0, TILE)
    vertices, count = tl.load(last + sentence) + 1, tl.load(lengths + sentence)
    there = (i < vertices)[:, None] & (j < vertices)[None, :]
    place = sentence * L * L + i[:, None] * L + j[None, :]
    link = tl.load(links + place, mask=there, other=float("-inf")) - tl.load(total + sentence)
    uses = tl.zeros([TILE, TILE], tl.float32)
    if tl.program_id(2) >= tl.program_id(1):  # links go forward
        for t in range(1, count):
            row = (sentence * T + t) * L
            before = tl.load(ahead + row - L + i, mask=i < vertices, other=float("-inf"))
            after = tl.load(back + row + j, mask=j < vertices, other=float("-inf"))
            after += tl.load(words + row + j, mask=j < vertices, other=0.0)
            uses += tl.exp(before[:, None] + link + after[None, :])
    inside = (i < L)[:, None] & (j < L)[None, :]
    tl.store(used + place, uses * tl.load(gradient + sentence), mask=inside)


@triton.jit
def trace_ways(scores, links, path, lengths, last, T, L, WIDTH: tl.constexpr):
    """Follow each path from its end back to its start; past its end, `path` is left as it was."""
    sentence = tl.program_id(0).to(tl.int64)
    count, here = tl.load(lengths + sentence), tl.load(last + sentence)
    i = tl.arange(0, WIDTH)
    for step in range(count):
        t = count - 1 - step
        ways = tl.load(scores + (sentence * T + t) * L + i, mask=i < L, other=float("-inf"))
        ways += tl.load(links + (sentence * L + i) * L + here, mask=i < L, other=float("-inf"))
        here = tl.minimum(tl.argmax(ways, 0), L - 1).to(tl.int64)  # if numbers are not finite, argmax may be anything
        tl.store(path + sentence * T + t, here)
