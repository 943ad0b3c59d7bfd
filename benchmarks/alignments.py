"""Alignment error of heads, of their means and of attribution methods: `python -m benchmarks.alignments`.

benchmarks/alignments.tsv holds 50 pairs spread over the bundled development set, aligned by one person who had not seen
the model's links: 1-2 is a sure link (source word, target word), 1?2 a possible one.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from manyheads import Translator, inspect
from manyheads.decoding.alignment import link_words, watch
from manyheads.decoding.links import Link
from manyheads.decoding.reading import every_reading
from manyheads.inspection.attribution import METHODS

GOLD = Path(__file__).with_suffix(".tsv")


class Aligned(NamedTuple):
    source: str
    target: str
    sure: set[Link]
    possible: set[Link]
    """Includes the sure links."""


def read_gold() -> list[Aligned]:
    rows = [line.split("\t") for line in GOLD.read_text(encoding="utf-8").splitlines()]
    return [Aligned(source, target, links(marked, "-"), links(marked, "-?")) for source, target, marked in rows]


def links(text: str, marks: str) -> set[Link]:
    found = [link for link in text.split() if any(mark in link for mark in marks)]
    return {(int(source), int(target)) for source, target in (link.replace("?", "-").split("-") for link in found)}


def error_rate(gold: Sequence[Aligned], found: Iterable[Iterable[Link]]) -> float:
    """The AER of Och and Ney, in percent: sure links must be found, possible ones may be."""
    pairs = [(one, set(links)) for one, links in zip(gold, found, strict=True)]
    right = sum(len(links & one.sure) + len(links & one.possible) for one, links in pairs)
    return 100 * (1 - right / sum(len(links) + len(one.sure) for one, links in pairs))


def diagonal(one: Aligned) -> list[Link]:
    source, target = (text.count(" ") + 1 for text in (one.source, one.target))
    return [(t * source // target, t) for t in range(target)] + [(s, s * target // source) for s in range(source)]


def read(translator: Translator, gold: Sequence[Aligned], reading: str | None = None) -> float:
    """The error rate of one head, or of a layer's mean."""
    found = translator.align([(one.source, one.target) for one in gold], reading)
    return error_rate(gold, [one.links for one in found])


def mean_of_all(translator: Translator, gold: Sequence[Aligned]) -> float:
    """The error rate of the mean of all heads of all layers, at the step that writes a word."""
    sources, targets = translator.encode_pairs([(one.source, one.target) for one in gold])
    found: list[tuple[Link, ...]] = [()] * len(gold)
    for n, layers in watch(translator.single, sources, targets, translator.longest_aligned):
        weights = torch.cat(layers).mean(0)[:-1]
        units = translator.vocabulary.source.units(sources[n][:-1]), translator.vocabulary.target.units(targets[n])
        found[n] = link_words(weights, *units)
    return error_rate(gold, found)


def attributed(translator: Translator, gold: Sequence[Aligned], method: str) -> float:
    """The error rate of an attribution method, by the size of what is owed, for or against."""
    return error_rate(gold, [links_by(translator, one, method) for one in gold])


def links_by(translator: Translator, one: Aligned, method: str) -> tuple[Link, ...]:
    inspection = inspect(translator, one.source, target=one.target)
    owed = torch.from_numpy(inspection.attribute(method).source).abs()
    source, target = ([piece.id for piece in side.pieces] for side in (inspection.source, inspection.target))
    units = translator.vocabulary.source.units(source), translator.vocabulary.target.units(target[1:])
    return link_words(owed, *units)


def table(translator: Translator, gold: Sequence[Aligned]) -> list[dict]:
    config, named = translator.recipe.transformer, str(translator.reading())
    every = {str(one): one for one in every_reading(config.depth, config.heads)}
    rates = {name: read(translator, gold, name) for name in every}
    head, layer = (
        min((name for name, one in every.items() if (one.head is None) == mean), key=rates.__getitem__)
        for mean in (False, True)
    )
    rows = [("found without these pairs", named, rates[named]), ("best head, by these pairs", head, rates[head])]
    rows += [("best mean of a layer, by these pairs", layer, rates[layer])]
    rows += [("mean of all heads", None, mean_of_all(translator, gold))]
    rows += [(f"attribution: {method}", None, attributed(translator, gold, method)) for method in METHODS]
    rows += [("diagonal", None, error_rate(gold, [diagonal(one) for one in gold]))]
    return [{"links": links, "reading": reading, "error_rate": round(rate, 1)} for links, reading, rate in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="de-en")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gold = read_gold()
    rows = table(Translator.load(options.model, "cpu"), gold)
    for row in rows:
        print(f"{row['links']:<40} {row['reading'] or '':<10} {row['error_rate']:>6.1f}")
    if options.json:
        command = f"python -m benchmarks.alignments --model {options.model} --json {options.json}"
        found = {"command": command, "model": options.model, "pairs": len(gold), "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
