"""A graph as it was read: vertices, their strongest links, the path that was taken, and the best path of every length.

    graph = found.graph
    graph.vertices[7].text                      what a vertex says
    graph.path                                  the vertices that the translation is made of

The numbers come from decoding itself: `write_at_once` reports them as it runs.

L vertices · T words
"""

from dataclasses import dataclass
from math import exp, isfinite

from manyheads.decoding.hypothesis import length_penalty
from manyheads.decoding.seen import Graph
from manyheads.inspection.sides import name_pieces
from manyheads.text.tokenizer import Tokenizer

__all__ = ["FIRST_VERTEX", "LAST_VERTEX", "LINKS", "Link", "PathLength", "ReadGraph", "Vertex", "read_graph"]

LINKS = 6
"""Links kept per vertex, besides those of the path: all of them would be quadratic in the number of vertices."""
FIRST_VERTEX, LAST_VERTEX = "⟨first⟩", "⟨last⟩"
"""They have no word: paths start at the first and end at the last."""


@dataclass(frozen=True)
class Link:
    """A link to a later vertex."""

    to: int
    log_probability: float


@dataclass(frozen=True)
class Vertex:
    """One vertex.

    text, id          its likeliest word; the first and the last vertex have none
    log_probability   of that word
    links             the strongest links from here, the strongest first
    covered           their total probability
    """

    text: str
    id: int | None
    log_probability: float | None
    links: list[Link]
    covered: float


@dataclass(frozen=True)
class PathLength:
    """The best path of `length` words. Lengths are compared by `score`."""

    length: int
    log_probability: float
    score: float


@dataclass(frozen=True)
class ReadGraph:
    """`path` lists the vertices taken, without the first and the last; `lengths` has the best path of each length."""

    vertices: list[Vertex]
    path: list[int]
    lengths: list[PathLength]

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The links of the path, from the first vertex to the last."""
        return list(zip([0, *self.path], [*self.path, len(self.vertices) - 1], strict=True))


def read_graph(tokenizer: Tokenizer, graph: Graph, penalty: float) -> ReadGraph:
    """The graph of the first sentence."""
    last, count = int(graph.last[0]), int(graph.lengths[0])
    path = graph.path[0, :count].tolist()
    words, log_p = graph.words[0].tolist(), graph.log_probability[0].tolist()
    texts = [FIRST_VERTEX, *name_pieces(tokenizer, words[1:last]), LAST_VERTEX]
    onward = dict(zip([0, *path], [*path, last], strict=True))
    vertices = []
    for n, text in enumerate(texts):
        says = 0 < n < last
        links = strongest(graph.links[0, n].tolist(), onward.get(n))
        covered = sum(exp(link.log_probability) for link in links)
        vertices.append(Vertex(text, words[n] if says else None, log_p[n] if says else None, links, covered))
    lengths = [
        PathLength(n, value, value / length_penalty(n, penalty))
        for n, value in enumerate(graph.by_length[0].tolist(), 1)
        if isfinite(value)
    ]
    return ReadGraph(vertices, path, lengths)


def strongest(row: list[float], taken: int | None) -> list[Link]:
    """The strongest links of a vertex, and the link that was taken, however weak it is."""
    order = sorted((n for n, value in enumerate(row) if isfinite(value)), key=lambda n: -row[n])
    kept = [n for place, n in enumerate(order) if place < LINKS or n == taken]
    return [Link(n, row[n]) for n in kept]
