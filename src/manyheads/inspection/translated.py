"""An encoder-decoder on a text and its translation: Inspection, which `inspect` returns for most models.

T target pieces · S source pieces · H heads
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from manyheads.decoding.batching import evaluating
from manyheads.decoding.beam import beam_search, continuations
from manyheads.decoding.beamlog import BeamLog, Node
from manyheads.decoding.control import draws, guided_search
from manyheads.decoding.forced import forced as forced_pairs
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.guided import unwatched
from manyheads.decoding.hypothesis import length_penalty
from manyheads.decoding.options import Search
from manyheads.decoding.translator import Translator
from manyheads.decoding.wishes import Wishes
from manyheads.errors import InputError, OptionError, brief, choose
from manyheads.inspection.choices import read_choices
from manyheads.inspection.inspected import Translated, check_by_itself, check_finite, check_text
from manyheads.inspection.sides import read_side
from manyheads.inspection.switches import INSTEAD, Head, head_means, switched_off
from manyheads.inspection.trace import trace
from manyheads.text.tokenizer import BEGIN, END

if TYPE_CHECKING:
    from manyheads.inspection.comparison import Comparison
    from manyheads.inspection.headreport import HeadReport
    from manyheads.inspection.replay import Replay

__all__ = ["Inspection", "as_line", "translate_text"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inspection(Translated):
    """What an encoder-decoder did. The target starts with the begin token.

    score         log_probability divided by the length penalty
    beam          every continuation that the search considered; empty without a search, or if it was not by one beam
    replay        what the heads of a run did with this pair during training
    report        what every head does over a test set, if that was measured
    """

    translator: Translator
    score: float
    beam: tuple[Node, ...] = ()
    replay: "Replay | None" = None
    report: "HeadReport | None" = None

    def log_probabilities(self, rows: int) -> list[float]:
        source, (_, *written) = self.ids("source"), self.ids("target")
        return forced_pairs(self.translator.single, [source] * rows, [written] * rows)

    def told(self) -> dict[str, Any]:
        return {"translation": self.translation, "score": self.score, **super().told()}

    def as_json(self) -> dict[str, Any]:
        return super().as_json() | ({} if self.report is None else {"heads": self.report.as_json()})

    def compare(self, other: "Inspection") -> "Comparison":
        """This inspection and another, side by side."""
        from manyheads.inspection.comparison import Comparison

        return Comparison(self, other)


def translate_text(
    translator: Translator,
    text: str,
    target: str | None = None,
    *,
    prefix: str = "",
    off: Collection[Head] = (),
    instead: str = "zero",
    part: int = 1,
    ids: Sequence[int] | None = None,
    replay: bool = False,
    report: "HeadReport | None" = None,
    **options: float,
) -> Inspection:
    """Let a model translate a text (or write the target that is given) and keep what every head did.

    prefix    what its output starts with
    part      which part of a long text, counted from 1
    ids       the target as ids, with its end if it has one: unfinished hypotheses of a search can be inspected, too
    replay    instead of a text: the pair that a run watched during training, with what its heads did then
    report    what every head does over a test set (`report_heads`), to be shown beside it
    options   those of a search: beam, length_penalty, …
    """
    check_by_itself(translator)
    if report is not None:
        report.check(translator.single)
    if replay and (prefix or off or ids is not None or part != 1 or options):
        raise OptionError("a replay shows the unchanged model of a run on one pair: it takes no other options")
    if replay:
        return replace(replayed(translator, text, target), report=report)
    parts, by_mean = translator.read([as_line(check_text(text))])[0], choose("instead", instead, INSTEAD)
    if not 1 <= part <= len(parts):
        raise OptionError(f"part must be from 1 to {len(parts)} for this text, got {part}")
    source, search = parts[part - 1], translator.search(**options)
    given = checked_ids(translator, ids) if ids is not None else None if target is None else forced(translator, target)

    def write() -> tuple[list[int], tuple[Node, ...]]:
        return (given, ()) if given is not None else found(translator, source, search, prefix)

    means = head_means(translator.single, source, [BEGIN, *write()[0]][:-1]) if by_mean and off else None
    with switched_off(translator.single, off, means):
        written, beam = write()
        found_here = look(translator, source, written, search, given is not None, (part, len(parts)), tuple(off), beam)
    typed = {"source": text, "target": target if ids is None else None}
    return replace(found_here, typed=typed, means=means, report=report)


def replayed(translator: Translator, text: str, target: str | None) -> Inspection:
    """The pair of a run's replay, traced through its model as it is now."""
    from manyheads.inspection.replay import read_replay

    if text or target is not None:
        raise OptionError(
            f"a replay has its own text and target, got {brief(text or target)}",
            hint="leave out the replay to inspect another text",
        )
    found = read_replay(translator.folder, translator.vocabulary, translator.single.config)
    source, (_, *written) = found.pair
    seen = look(translator, list(source), written, translator.search(), True, (1, 1), (), ())
    return replace(seen, typed={"source": seen.source.text, "target": seen.translation}, replay=found)


def as_line(text: str) -> str:
    """The text as one line, which is what a model reads and writes."""
    return " ".join(text.split("\n"))


def forced(translator: Translator, target: str) -> list[int]:
    """The ids of a given target, with its end."""
    ids = translator.vocabulary.target.encode([as_line(target)])[0]
    most = most_looked_at(translator)
    if len(ids) >= most:
        raise InputError(f"a target must have at most {most - 1:,} pieces for this model, got {len(ids):,}")
    return [*ids, END]


def most_looked_at(translator: Translator) -> int:
    """Most pieces of a target, its end included. Each looks at each, and all those weights are kept."""
    return min(translator.longest - 1, translator.longest_aligned)


def checked_ids(translator: Translator, ids: Sequence[int]) -> list[int]:
    """Check ids from outside: each must be a piece, and only the last may be an end."""
    size = translator.vocabulary.target.size
    most = most_looked_at(translator)
    if not 0 < len(ids) <= most:
        raise InputError(f"a target must have from 1 to {most:,} pieces for this model, got {len(ids):,}")
    for n, piece in enumerate(ids):
        if not (END < piece < size or (piece == END and n == len(ids) - 1)):
            raise InputError(
                f"ids of a target must be from {END + 1} to {size - 1:,}, with {END} only at the end, got {piece}"
            )
    return list(ids)


def found(translator: Translator, source: list[int], search: Search, prefix: str) -> tuple[list[int], tuple[Node, ...]]:
    """The ids that a model writes, with their end if it was reached, and everything that the search considered.

    It runs without CUDA graphs, since heads may be switched off.
    """
    script, log = translator.script(source, Wishes(prefix=prefix), search), BeamLog(search.length_penalty)
    limits = [search.limit(len(source), translator.longest)]
    rows = torch.tensor([source], device=translator.device)
    groups = search.sample or search.diversity or search.alternatives
    watch = unwatched if groups else log.watch
    with evaluating(translator.model):
        if script is not None:
            best = guided_search(translator.model, rows, [0], [script], search, watch)[0][0]
        elif search.sample:
            drawn = draws(search, [0])
            (best,) = decode_one_by_one(translator.model, rows, limits, search.length_penalty, drawn)
        else:
            how = {"beam": search.beam, "alpha": search.length_penalty}
            best = beam_search(translator.model, rows, limits, **how, follow=watch(continuations))[0][0]
    if not best.finite:
        raise InputError("the model's numbers are not finite for this text: there is nothing to inspect")
    return [*best.ids, END] if best.finished else best.ids, tuple(log.nodes())


def look(
    translator: Translator,
    source: list[int],
    written: list[int],
    search: Search,
    forced: bool,
    part: tuple[int, int],
    off: tuple[Head, ...],
    beam: tuple[Node, ...],
) -> Inspection:
    """Trace one pass over what was read and written, and assemble everything known about it."""
    target = [BEGIN, *written]
    passed = check_finite(trace(translator.single, source, target[:-1]))
    tokenizers = {"source": translator.vocabulary.source, "target": translator.vocabulary.target}
    choices = read_choices(tokenizers["target"], passed.logits, written)
    log_probability = sum(choice.log_probability for choice in choices)
    return Inspection(
        model=translator.single,
        folder=translator.folder,
        sides={"source": read_side(tokenizers["source"], source), "target": read_side(tokenizers["target"], target)},
        tokenizers=tokenizers,
        typed={},
        trace=passed,
        off=off,
        choices=choices,
        forced=forced,
        translator=translator,
        score=log_probability / length_penalty(len(written), search.length_penalty),
        reading=translator.reading() if translator.recipe.decode.alignment else None,
        part=part[0],
        parts=part[1],
        beam=beam,
    )
