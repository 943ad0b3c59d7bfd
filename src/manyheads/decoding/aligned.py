"""Alignments of what was just translated: of every alternative, and of lines that were translated in parts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

from manyheads.decoding.alignment import align_ids
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.links import Link
from manyheads.decoding.reading import Reading
from manyheads.decoding.textmodel import TextModel
from manyheads.decoding.translation import Translation
from manyheads.text.units import move_units

__all__ = ["with_alignments"]

Parts = list[list[int]]
"""The ids of the parts of a line, each with its end."""


def with_alignments(
    model: TextModel,
    lines: Sequence[str],
    sources: Sequence[Parts],
    found: Sequence[list[list[Hypothesis]]],
    translations: Sequence[Translation],
    reading: Reading,
) -> list[Translation]:
    """Add alignments to the translations of lines. `found` has the hypotheses of each part of each line."""
    jobs = [
        written(parts, hypotheses, one) for parts, hypotheses, one in zip(sources, found, translations, strict=True)
    ]
    every = list(chain.from_iterable(jobs))
    links = iter(align_ids(model, [source for source, _ in every], [target for _, target in every], reading))
    return [
        attach(model, line, job, list(islice(links, len(job))), one)
        for line, job, one in zip(lines, jobs, translations, strict=True)
    ]


Job = list[tuple[list[int], list[int]]]
"""(source ids, target ids): one for each alternative of a line in one part, otherwise one for each part."""


def written(parts: Parts, hypotheses: list[list[Hypothesis]], translation: Translation) -> Job:
    if len(parts) == 1:
        return [(parts[0], one.ids) for one in hypotheses[0][: len(translation.n_best)]]
    return [(part, several[0].ids) for part, several in zip(parts, hypotheses, strict=True)]


def attach(
    model: TextModel, line: str, job: Job, links: list[tuple[Link, ...]], translation: Translation
) -> Translation:
    if translation.parts != 1:
        links = [join_links(model, line, job, links, translation.text)]
    alternatives = zip(translation.n_best, links, strict=True)
    return replace(translation, n_best=tuple(replace(one, alignment=its_own) for one, its_own in alternatives))


def join_links(model: TextModel, line: str, job: Job, links: list[tuple[Link, ...]], text: str) -> tuple[Link, ...]:
    """Turn links between the words of parts into links between the words of the line."""
    source, target = model.vocabulary.source, model.vocabulary.target
    from_source = move_units([source.decode(ids) for ids, _ in job], line, source.kind != "characters")
    from_target = move_units([target.decode(ids) for _, ids in job], text, target.kind != "characters")
    moved = {
        (there[s], here[t])
        for there, here, part in zip(from_source, from_target, links, strict=True)
        for s, t in part
        if s in there and t in here
    }
    return tuple(sorted(moved))
