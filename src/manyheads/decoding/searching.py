"""Ids in, hypotheses out.

Sources of about one length are searched together, each batch by the search that its options need.

B sentences · S source tokens
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from manyheads.decoding.batching import batches_by_length, evaluating, pad
from manyheads.decoding.beam import beam_search
from manyheads.decoding.control import by_beam, draws, guided_search, rows_of_a_line
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.options import Search
from manyheads.decoding.rooms import applies, resident_search
from manyheads.decoding.script import Script
from manyheads.models.transformer import Transformer

__all__ = ["search_all", "search_batch"]

Model = Transformer | Ensemble


@torch.no_grad()
def search_all(
    model: Model,
    sources: Sequence[list[int]],
    numbers: Sequence[int],
    scripts: Sequence[Script | None],
    search: Search,
    longest: int,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every source, the best first.

    sources   ids, each with its end
    numbers   one per source, from which the draws of a sample follow
    scripts   the rules for sources where something is wished for or forbidden
    longest   tokens that the model can write
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    with evaluating(model):
        for batch in batches([len(ids) for ids in sources], scripts, search):
            some = [sources[n] for n in batch], [numbers[n] for n in batch], [scripts[n] for n in batch]
            for n, hypotheses in zip(batch, search_batch(model, *some, search, longest), strict=True):
                found[n] = hypotheses
    return found


def batches(lengths: Sequence[int], scripts: Sequence[Script | None], search: Search) -> Iterator[list[int]]:
    """Indices of sources that are searched together. Those without a script are batched as if there were no others."""
    for alike in by_beam(scripts, search):
        rows = rows_of_a_line(scripts[alike[0]], search)
        for places in batches_by_length([lengths[n] for n in alike], search.batch, rows):
            yield [alike[place] for place in places]


def search_batch(
    model: Model,
    sources: list[list[int]],
    numbers: list[int],
    scripts: Sequence[Script | None],
    search: Search,
    longest: int,
) -> list[list[Hypothesis]]:
    """Search a batch, in which either all sources have a script or none has."""
    source = pad(sources).to(model.words.weight.device)
    if kept := [script for script in scripts if script]:
        return guided_search(model, source, numbers, kept, search)
    limits = [search.limit(len(ids), longest) for ids in sources]
    if not search.sample and applies(model, source, limits, search.beam):
        return resident_search(model, source, limits, beam=search.beam, alpha=search.length_penalty)
    if search.beam > 1:
        return beam_search(model, source, limits, beam=search.beam, alpha=search.length_penalty)
    decode = partial(decode_one_by_one, model, source, limits, search.length_penalty)
    if not search.sample:
        return [[hypothesis] for hypothesis in decode()]
    return [[hypothesis] for hypothesis in decode(draws(search, numbers))]
