"""What a search considered, for the page: its nodes, and where the model looked when it wrote each of them.

S source pieces · N nodes · R rows of a batch · T tokens of the longest
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.batching import evaluating, pad
from manyheads.decoding.beamlog import FINISHED, KEPT, LEFT, path_of
from manyheads.decoding.reading import Reading
from manyheads.inspection.sides import name_pieces
from manyheads.inspection.translated import Inspection
from manyheads.nn import Memory, Padded
from manyheads.text.tokenizer import BEGIN

__all__ = ["looks_of", "search_of"]

MOST_TOKENS = 4_096
"""Tokens decoded again to see where they looked: a tenth of a second for the bundled model, on one core."""


def search_of(inspection: Inspection) -> dict[str, Any] | None:
    """Every node and what became of it, and which attention `looks_of` reads. None if no search was logged."""
    nodes = inspection.beam
    if not nodes:
        return None
    texts = name_pieces(inspection.tokenizers["target"], [node.id for node in nodes])
    reading = reading_of(inspection)
    return {
        "beam": max(Counter(node.step for node in nodes if node.status in (KEPT, LEFT)).values(), default=1),
        "layer": reading.layer,
        "head": reading.head,
        "nodes": [asdict(node) | {"text": text} for node, text in zip(nodes, texts, strict=True)],
    }


def reading_of(inspection: Inspection) -> Reading:
    """The attention that alignments are read from or, if none is known, the mean of the last layer's heads."""
    return inspection.reading or Reading(len(inspection.trace.cross) - 1, None, 0)


@torch.no_grad()
def looks_of(inspection: Inspection) -> Float[np.ndarray, "1 N S"]:
    """The weights of the row that wrote each node. All continuations of one prefix share a row.

    Finished hypotheses are run again first, then as many others as MOST_TOKENS allows. Nodes that were not reached
    get zeros.
    """
    nodes, reading = inspection.beam, reading_of(inspection)
    found = np.zeros((1, len(nodes), len(inspection.source.pieces)), "float16")
    rows = list(chosen_paths(inspection))
    weights = cross_weights(inspection, [[nodes[n].id for n in path[:-1]] for path in rows], reading.layer)
    weights = weights.mean(1) if reading.head is None else weights[:, reading.head]
    row_of: dict[int | None, tuple[int, int]] = {}  # the row that reads a node writes what follows it
    for n, path in enumerate(rows):
        row_of.update({parent: (n, step) for step, parent in enumerate([None, *path[:-1]])})
    for n, node in enumerate(nodes):
        if node.parent in row_of:
            found[0, n] = weights[row_of[node.parent]].float().cpu().numpy()
    return found


def chosen_paths(inspection: Inspection) -> Iterator[list[int]]:
    """Paths to run again: finished ones first, then the longest whose last row is not covered yet."""
    nodes, room, seen = inspection.beam, MOST_TOKENS, set[int | None]()
    order = sorted(range(len(nodes)), key=lambda n: (nodes[n].status != FINISHED, -nodes[n].step))
    for n in order:
        path = path_of(nodes, n)
        if nodes[n].parent in seen or len(path) > room:
            continue
        room -= len(path)
        seen |= {None, *path[:-1]}
        yield path


def cross_weights(inspection: Inspection, written: list[list[int]], layer: int) -> Float[Tensor, "R H T S"]:
    """The cross-attention of one layer while these prefixes are written.

    (The decoder is causal: padding after a prefix changes none of its rows.)
    """
    model = inspection.translator.single
    device, weights = model.words.weight.device, list[Tensor]()
    source = torch.tensor([[piece.id for piece in inspection.source.pieces]], device=device)
    target = pad([[BEGIN, *ids] for ids in written]).to(device)
    with evaluating(model), inspection.without():
        memory, same = model.encode(source).padded(), torch.zeros(len(target), dtype=torch.long, device=device)
        layout = cast(Padded, memory.layout).select(same)
        model.states(target, Memory(tuple(state[same] for state in memory.states), layout), None, [], weights)
    return weights[layer]
