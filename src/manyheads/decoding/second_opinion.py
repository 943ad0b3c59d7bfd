"""A second opinion: other models read what a search has found, and the hypothesis that all together find best is taken.

A search is bound by how it began; a model that reads a hypothesis as a whole might not have begun that way. Judges read
text: their pieces may differ, and a model that writes backwards (`data.backwards`) is the best judge there is, because
it makes other mistakes.

A hypothesis is scored by the mean over all models of log P / ((5 + n) / 6)^α, with n the number of tokens that it has
for that model. Every model has one vote, including each member of an ensemble.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.decoding.options import Search
from manyheads.decoding.translation import ForcedScore
from manyheads.errors import OptionError
from manyheads.modelfolder import task_of_folder

if TYPE_CHECKING:
    from manyheads.decoding.translator import Translator

__all__ = ["check_judges", "check_to_choose", "judges_of", "reconsidered"]

Found = list[list[Hypothesis]]


def judges_of(models: "Sequence[str | Path | Translator]", writer: "Translator") -> "list[Translator]":
    """The judges of a translator. Those named by their folders are loaded to its device, in its precision."""
    from manyheads.decoding.translator import Translator

    for model in models:
        if isinstance(model, (str, Path)) and task_of_folder(model) == "parallel":
            raise OptionError(f"a judge must write token by token, got {model}, which writes all at once")
    those = [Translator.of(model, str(writer.device), writer.precision) for model in models]
    if not all(judge.model.config.causal for judge in those):
        raise OptionError("a judge must write token by token, got one that writes all at once")
    return those


def reconsidered(
    writer: "Translator", judges: Sequence["Translator"], sources: Sequence[list[int]], found: Found, search: Search
) -> Found:
    """The same hypotheses for every source, the best by all opinions first.

    A hypothesis without a probability stays without one.
    """
    read, written = writer.vocabulary.source.decode, writer.vocabulary.target.decode
    pairs = [(read(ids), written(one.ids)) for ids, those in zip(sources, found, strict=True) for one in those]
    opinions = [iter(judge.score(pairs, min(64, search.batch))) for judge in judges]
    votes = [voters(judge) for judge in judges]
    ranked = []
    for those in found:
        said = [list(islice(opinion, len(those))) for opinion in opinions]
        # A judge that cannot read all of them to the end has no vote on any.
        heard = [
            (count, of_each)
            for count, of_each in zip(votes, said, strict=True)
            if not any(one.truncated for one in of_each)
        ]
        own, everybody = voters(writer), voters(writer) + sum(count for count, _ in heard)
        theirs = [
            weighted([(count, of_each[n]) for count, of_each in heard], search.length_penalty)
            for n in range(len(those))
        ]
        judged = (
            replace(one, score=known((own * one.score + more) / everybody))
            for one, more in zip(those, theirs, strict=True)
        )
        ranked.append(sorted(judged, key=lambda one: -one.score))
    return ranked


def weighted(said: Sequence[tuple[int, ForcedScore]], alpha: float) -> float:
    """The sum of the judges' opinions, given as (votes, opinion)."""
    return sum(count * one.log_probability / length_penalty(one.tokens, alpha) for count, one in said)


def voters(translator: "Translator") -> int:
    return len(translator.model.members) if isinstance(translator.model, Ensemble) else 1


def known(score: float) -> float:
    """−∞ if the score is not finite.

    Numbers too large for a model's precision are no opinion: such a hypothesis comes last.
    """
    return score if isfinite(score) else -inf


def check_judges(judges: Sequence["Translator"], writer: "Translator") -> None:
    if not judges:
        raise OptionError("a second opinion needs at least one other model, got none")
    for judge in chain([writer], judges):
        if judge.judges:
            raise OptionError("a judge and the model it judges must not have judges already, got one that does")


def check_to_choose(search: Search) -> None:
    """Refuse a search whose result leaves nothing to choose."""
    if search.beam < 2:
        what = "a sample" if search.sample else "a beam of 1"
        raise OptionError(f"a judge needs several hypotheses to choose among, got {what}", hint="--beam 5 finds five")
    if search.diversity or search.alternatives:
        raise OptionError(
            "a judge takes the best hypothesis, got a request for several that differ (diversity or alternatives)"
        )
