"""Sums and maxima over paths on a GPU: the same results as in paths.py, from a few kernels (path_kernels.py).

B sentences · T words · L vertices
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.nn.kernels import kernels

__all__ = ["best_ways", "count_uses", "sum_ahead", "trace_back"]

TILE = 32
"""Vertices along each side of a tile of links."""


def sum_ahead(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"]
) -> Float[Tensor, "B T L"]:
    return ways_ahead(words, links, lengths, last, best=False)


def best_ways(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], last: Int[Tensor, " B"]
) -> Float[Tensor, "B T L"]:
    return ways_ahead(words, links, torch.full_like(last, words.shape[1]), last, best=True)


def ways_ahead(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"],
    best: bool,
) -> Float[Tensor, "B T L"]:  # fmt: skip
    words, links = words.float().contiguous(), links.float().contiguous()
    sentences, steps, vertices = words.shape
    ahead = torch.full_like(words, -torch.inf)
    kernels("path").ways_ahead[sentences,](words, links, ahead, lengths, last, steps, vertices, BEST=best, TILE=TILE)
    return ahead


def count_uses(
    words: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"],
    ahead: Float[Tensor, "B T L"], total: Float[Tensor, " B"], gradient: Float[Tensor, " B"],
) -> tuple[Float[Tensor, "B T L"], Float[Tensor, "B L L"]]:  # fmt: skip
    kinds = words.dtype, links.dtype
    words, links, gradient = (x.float().contiguous() for x in (words, links, gradient))
    sentences, steps, vertices = words.shape
    back = torch.full_like(words, -torch.inf)
    kernels("path").ways_back[sentences,](words, links, back, lengths, last, steps, vertices, TILE=TILE)
    of_links, tiles = torch.empty_like(links), -(-vertices // TILE)
    kernels("path").links_used[sentences, tiles, tiles](
        words, links, ahead, back, total, gradient, of_links, lengths, last, steps, vertices, TILE=TILE
    )
    of_words = (ahead + back - total[:, None, None]).exp() * gradient[:, None, None]
    return of_words.to(kinds[0]), of_links.to(kinds[1])


def trace_back(
    scores: Float[Tensor, "B T L"], links: Float[Tensor, "B L L"], lengths: Int[Tensor, " B"], last: Int[Tensor, " B"],
    path: Int[Tensor, "B T"],
) -> Int[Tensor, "B T"]:  # fmt: skip
    sentences, steps, vertices = scores.shape
    width = 1 << (vertices - 1).bit_length()
    kernels("path").trace_ways[sentences,](
        scores.contiguous(), links.float().contiguous(), path, lengths, last, steps, vertices, WIDTH=width
    )
    return path
