"""`inspect`: one sentence through a model, with everything that its attentions did.

    found = inspect("de-en", "Ein Hund schläft.")
    found.translation                      what the model wrote
    found.attention["cross"][2]            where the heads of layer 2 looked: (heads, target pieces, source pieces)
    found.save("look.html")                a page to look at; also .svg, .png, .json

T target pieces · S source pieces · H heads
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.batching import evaluating
from manyheads.decoding.beam import beam_search, continuations
from manyheads.decoding.beamlog import BeamLog, Node
from manyheads.decoding.control import draws, guided_search
from manyheads.decoding.greedy import decode_one_by_one
from manyheads.decoding.guided import unwatched
from manyheads.decoding.hypothesis import length_penalty
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.translator import Translator
from manyheads.decoding.wishes import Wishes
from manyheads.errors import InputError, OptionError, brief, choose
from manyheads.inspection.choices import Choice, read_choices
from manyheads.inspection.sides import Side, read_side
from manyheads.inspection.switches import INSTEAD, Head, Means, head_means, switched_off
from manyheads.inspection.trace import Trace, attentions, trace
from manyheads.text.tokenizer import BEGIN, END

if TYPE_CHECKING:
    from manyheads.inspection.attribution import Attribution
    from manyheads.inspection.comparison import Comparison
    from manyheads.inspection.headreport import HeadReport
    from manyheads.inspection.replay import Replay

__all__ = ["SCHEMA", "Inspection", "inspect"]

SCHEMA = "inspection/1"


@dataclass(frozen=True, eq=False)
class Inspection:
    """
    source, target   the texts as pieces and words; the target begins with its begin
    trace            the pass: row t reads target piece t and writes piece t + 1
    choices          for each row, what else could have been written
    score            log_probability over the length penalty
    forced           the target was given; else the model has found it
    reading          which cross-attention says what belongs together, if the recipe names it
    part, parts      a long text is read in parts; this is one of them
    off              heads that the model went without
    means            what these gave instead of nothing
    typed            the texts as they were given; of the target None, where the model has found it
    beam             every continuation that the search has weighed; none where nothing was searched for, or not by one beam
    replay           what a run's heads did with this pair while it was trained
    report           what every head does over a test set, if that was looked at
    """

    translator: Translator
    source: Side
    target: Side
    trace: Trace
    choices: list[Choice]
    log_probability: float
    score: float
    forced: bool
    reading: Reading | None
    part: int = 1
    parts: int = 1
    off: tuple[Head, ...] = ()
    beam: tuple[Node, ...] = ()
    typed: tuple[str, str | None] = ("", None)
    means: Means | None = None
    replay: "Replay | None" = None
    report: "HeadReport | None" = None

    @property
    def translation(self) -> str:
        return self.target.text

    @cached_property
    def attention(self) -> Mapping[str, list[Float[Tensor, "H T S"]]]:
        """Of each kind (encoder, decoder, cross), layer by layer, the weights of every head."""
        return self.trace.weights()

    def without(self) -> AbstractContextManager[None]:
        """While this lasts, the model goes without the heads that this inspection went without."""
        return switched_off(self.translator.single, self.off, self.means)

    def off_means(self) -> list[list[float]] | None:
        """What each head that is off gives instead of nothing."""
        if self.means is None:
            return None
        layers = attentions(self.translator.single)
        return [self.means[layers[kind][layer]][head].tolist() for kind, layer, head in self.off]

    def whole_means(self) -> Means:
        """What heads give on average to these pieces, while all are on."""
        source, target = ([piece.id for piece in side.pieces] for side in (self.source, self.target))
        return head_means(self.translator.single, source, target[:-1])

    def as_json(self) -> dict[str, Any]:
        """All weights as nested lists, [layer][head][query][key]."""
        return {
            "schema": SCHEMA,
            "source": asdict(self.source),
            "target": asdict(self.target),
            "translation": self.translation,
            "score": self.score,
            "log_probability": self.log_probability,
            "forced": self.forced,
            "steps": [asdict(choice) for choice in self.choices],
            "attention": {kind: [one.tolist() for one in layers] for kind, layers in self.attention.items()},
            **({} if self.report is None else {"heads": self.report.as_json()}),
        }

    def compare(self, other: "Inspection") -> "Comparison":
        """This one and another, side by side."""
        from manyheads.inspection.comparison import Comparison

        return Comparison(self, other)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows."""
        from manyheads.inspection.notebook import forms_of

        return forms_of(self)

    def attribute(self, method: str) -> "Attribution":
        """What each written piece owes to what was read: "leave-one-out", "gradient-x-input", "integrated-gradients" or
        "value-zeroing"."""
        from manyheads.inspection.attribution import attribute

        return attribute(self, method)

    def save(self, path: str | Path, **how: Any) -> Path:
        """Write it as what the name ends in: .html, .svg, .png or .json.

        Of an SVG or PNG it is said what is drawn: view ("matrix", "map", "lines", "heads"), kind, layer, head, pieces. Of a page, which
        attributions it has: attribution=["leave-one-out", …]; by default those that are computed quickly.
        """
        from manyheads.inspection.saving import save

        return save(self, Path(path), **how)


def inspect(
    model: str | Path | Translator,
    text: str = "",
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

    prefix    what its output begins with
    off       heads that it goes without
    instead   what these give: "zero", or the "mean" of what they give to this sentence while all heads are on
    part      which part of a long text, counted from 1
    ids       the target piece by piece, and its end if it has one: what a search has left unfinished can be looked at, too
    replay    instead of a text: the pair that a run looked at while it was trained, with what its heads did then
    report    what every head does over a test set (`report_heads`), to be shown beside it
    options   those of a search: beam, length_penalty, …
    """
    translator = Translator.of(model, "auto", "fp32")
    if report is not None:
        report.check(translator.single)
    if replay and (prefix or off or ids is not None or part != 1 or options):
        raise OptionError("a replay shows a run's model as it is on one pair: it goes with no other options")
    if replay:
        return replace(replayed(translator, text, target), report=report)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"an inspection needs a text to read, got {brief(text)}")
    parts, by_mean = translator.read([as_line(text)])[0], choose("instead", instead, INSTEAD)
    if not 1 <= part <= len(parts):
        raise OptionError(f"the text is read in {len(parts)} parts, counted from 1, got part {part}")
    source, search = parts[part - 1], translator.search(**options)
    given = checked_ids(translator, ids) if ids is not None else None if target is None else forced(translator, target)

    def write() -> tuple[list[int], tuple[Node, ...]]:
        return (given, ()) if given is not None else found(translator, source, search, prefix)

    means = head_means(translator.single, source, [BEGIN, *write()[0]][:-1]) if by_mean and off else None
    with switched_off(translator.single, off, means):
        written, beam = write()
        found_here = look(translator, source, written, search, given is not None, (part, len(parts)), tuple(off), beam)
    return replace(found_here, typed=(text, target if ids is None else None), means=means, report=report)


def replayed(translator: Translator, text: str, target: str | None) -> Inspection:
    """The pair of a run's replay, through its model as it is now."""
    from manyheads.inspection.replay import read_replay

    if text or target is not None:
        raise OptionError(
            f"a replay has a text and a target of its own, got {brief(text or target)}",
            hint="without a replay, a model reads what it is given",
        )
    found = read_replay(translator.folder, translator.vocabulary, translator.single.config)
    source, (_, *written) = found.pair
    seen = look(translator, list(source), written, translator.search(), True, (1, 1), (), ())
    return replace(seen, typed=(seen.source.text, seen.translation), replay=found)


def as_line(text: str) -> str:
    """What a model reads and writes is a line."""
    return " ".join(text.split("\n"))


def forced(translator: Translator, target: str) -> list[int]:
    """The ids of a given target, with its end."""
    ids = translator.vocabulary.target.encode([as_line(target)])[0]
    if len(ids) >= translator.longest - 1:
        raise InputError(
            f"a target has at most {translator.longest - 2:,} pieces for this model, got one of {len(ids):,}"
        )
    return [*ids, END]


def checked_ids(translator: Translator, ids: Sequence[int]) -> list[int]:
    """They come from outside: each must be a piece, and an end can only be the last."""
    size = translator.vocabulary.target.size
    if not 0 < len(ids) < translator.longest:
        raise InputError(
            f"a target has from 1 to {translator.longest - 1:,} pieces for this model, got one of {len(ids):,}"
        )
    for n, piece in enumerate(ids):
        if not (END < piece < size or (piece == END and n == len(ids) - 1)):
            raise InputError(
                f"a piece of a target is from {END + 1} to {size - 1:,}, and {END} at its end, got {piece}"
            )
    return list(ids)


def found(translator: Translator, source: list[int], search: Search, prefix: str) -> tuple[list[int], tuple[Node, ...]]:
    """The ids of what a model writes, with their end if it was reached, and what else was weighed.

    Nothing is recorded to be replayed: heads may be switched off.
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
            drawn = draws(search, [0], limits[0])
            (best,) = decode_one_by_one(translator.model, rows, limits, search.length_penalty, drawn)
        else:
            how = {"beam": search.beam, "alpha": search.length_penalty}
            best = beam_search(translator.model, rows, limits, **how, follow=watch(continuations))[0][0]
    if not best.finite:
        raise InputError("the model's numbers are not finite for this text: there is nothing to look at")
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
    """One pass over what was read and written, and everything that is told about it."""
    target = [BEGIN, *written]
    passed = trace(translator.single, source, target[:-1])
    if not passed.logits.isfinite().all():
        raise InputError("the model's numbers are not finite for this text: there is nothing to look at")
    choices = read_choices(translator.vocabulary.target, passed.logits, written)
    log_probability = sum(choice.log_probability for choice in choices)
    alignment = translator.recipe.decode.alignment
    return Inspection(
        translator,
        read_side(translator.vocabulary.source, source),
        read_side(translator.vocabulary.target, target),
        passed,
        choices,
        log_probability,
        log_probability / length_penalty(len(written), search.length_penalty),
        forced,
        translator.reading() if alignment else None,
        *part,
        off,
        beam,
    )
