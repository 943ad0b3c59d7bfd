"""From the wishes for lines to guided searches, and from their results to the wishes that were not met."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice, repeat
from math import ceil

from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.glossary import Glossary
from manyheads.decoding.greedy import Sampler, decode_one_by_one
from manyheads.decoding.guided import Groups, GuidedChoice, Watch, guided_beam, unwatched
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.options import Search
from manyheads.decoding.script import Script, Scripts
from manyheads.decoding.steps import StepModel
from manyheads.decoding.wishes import Wishes
from manyheads.decoding.words import IsWord
from manyheads.errors import InputError, OptionError, brief

__all__ = [
    "blocks_with_wishes", "by_beam", "draws", "guided_search", "make_script", "rows_of_a_line", "unmet",
    "wishes_of_parts",
]  # fmt: skip

WIDEST = 24
"""A beam is widened to two places for each bank, up to this: what must appear may be a whole sentence."""


def blocks_with_wishes(
    blocks: Iterable[list[str]], wishes: Wishes | Iterable[Wishes]
) -> Iterator[tuple[int, list[str], list[Wishes]]]:
    """Yield (lines before the block, the block, the wishes for each of its lines).

    The wishes are the same for every line, or one for each, in order.
    """
    each, first = (repeat(wishes) if isinstance(wishes, Wishes) else iter(wishes)), 0
    for block in blocks:
        yield first, block, take_wishes(each, len(block))
        first += len(block)
    if not isinstance(wishes, Wishes):
        no_wishes_left(each, first)


def take_wishes(wishes: Iterator[Wishes], count: int) -> list[Wishes]:
    taken = list(islice(wishes, count))
    if len(taken) < count:
        raise InputError(f"there must be wishes for every line, got {len(taken)} for the next {count} lines")
    for one in taken:
        if not isinstance(one, Wishes):
            raise OptionError(f"the wishes for a line must be Wishes, got {brief(one)}")
    return taken


def no_wishes_left(wishes: Iterator[Wishes], lines: int) -> None:
    if next(wishes, None) is not None:
        raise InputError(f"there must be as many lines as wishes, got {lines} lines and wishes for more")


def wishes_of_parts(wishes: Wishes, parts: Sequence[str], is_word: IsWord) -> list[Wishes]:
    """The wishes for each part of a line, which may have one part or several."""
    each = [Wishes(never=wishes.never) for _ in parts]
    if parts:
        longest = max(range(len(parts)), key=lambda n: len(parts[n]))
        each[longest] = replace(each[longest], must=wishes.must)
        each[0] = replace(each[0], prefix=wishes.prefix)
    return [add_terms(one, wishes, part, is_word) for one, part in zip(each, parts, strict=True)]


def add_terms(part: Wishes, line: Wishes, source: str, is_word: IsWord) -> Wishes:
    """Add what the glossary says of one part.

    What it forbids in this part alone becomes the glossary of the part: other parts may contain it.
    """
    if not line.glossary:
        return part
    must, never = line.glossary.asked_by(source, is_word)
    here_alone = Glossary(never=tuple((source, phrase) for phrase in never if phrase not in line.never))
    return replace(part, must=(*part.must, *must), never=(*part.never, *never), glossary=here_alone)


def unmet(scripts: Scripts, wishes: Sequence[Wishes], parts: Sequence[str], whole: str) -> tuple[str, ...]:
    """The wishes that were not met.

    These are what parts lack of what they must contain, and forbidden phrases that arise where parts meet.
    """
    both = list(zip(wishes, parts, strict=True))
    lacking = [phrase for wish, text in both for phrase in scripts.lacking(wish, text)]
    there = [phrase for wish, text in both for phrase in scripts.forbidden(wish, text, whole)]
    return tuple(dict.fromkeys(lacking + there))


# ── searches ────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_script(scripts: Scripts, wishes: Wishes, search: Search, limit: int, longest: int) -> Script:
    if wishes.must and search.sample:
        raise OptionError(f"phrases that must appear need a beam search, got {brief(wishes.must[0])} and sample")
    return Script(scripts, wishes, limit, longest, min_length=search.min_length, no_repeat=search.no_repeat)


def by_beam(scripts: Sequence[Script | None], search: Search) -> Iterator[list[int]]:
    """Indices of lines that are searched alike. The width of a line's beam depends on the line alone."""

    def width(n: int) -> int:
        return beam_of(scripts[n], search)

    for _, members in groupby(sorted(range(len(scripts)), key=width), key=width):
        yield list(members)


def beam_of(script: Script | None, search: Search) -> int:
    """The width of a line's beam; 0 for a search without a script."""
    if script is None:
        return 0
    beam = max(2, ceil(search.beam / search.n_best)) if search.diversity else search.beam
    return max(beam, min(WIDEST, 2 * script.banks)) if script.banks > 1 else beam


def rows_of_a_line(script: Script | None, search: Search) -> int:
    """Hypotheses of a line that are computed together."""
    return beam_of(script, search) * groups_of(search).count if script else search.beam


def groups_of(search: Search) -> Groups:
    count = search.outputs if search.diversity or search.alternatives else 1
    return Groups(count, diversity=search.diversity, fork=search.alternatives > 0)


def guided_search(
    model: StepModel,
    source: Int[Tensor, "B S"],
    numbers: list[int],
    scripts: Sequence[Script],
    search: Search,
    watch: Watch = unwatched,
) -> list[list[Hypothesis]]:
    """Search a batch, whose scripts all have the same beam. A beam search can be watched."""
    alpha = search.length_penalty
    try:
        if search.sample:
            limits = [script.limit for script in scripts]
            choose = GuidedChoice(scripts, draws(search, numbers))
            return [[h] for h in decode_one_by_one(model, source, limits, alpha, choose)]
        beam = beam_of(scripts[0], search)
        return guided_beam(model, source, scripts, beam=beam, alpha=alpha, groups=groups_of(search), watch=watch)
    finally:
        for script in scripts:
            script.options_of.cache_clear()  # there may be scripts of many more sentences


def draws(search: Search, numbers: list[int]) -> Sampler:
    return Sampler(numbers, temperature=search.temperature, top_k=search.top_k, top_p=search.top_p, seed=search.seed)
