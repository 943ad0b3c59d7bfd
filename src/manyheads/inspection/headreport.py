"""`report_heads`: what every head of a model looks at over a test set, and what is lost without it.

    report = report_heads("de-en", pairs)
    report.ranked()[0]                    the head that the model needs most
    report.save("heads.png")              also .svg, .json

`looking` measures where heads look, `roles` derives their roles from that, and `losing` measures what is lost.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from manyheads.decoding.find_reading import find_reading
from manyheads.decoding.options import Search
from manyheads.decoding.reading import Reading
from manyheads.decoding.translator import Translator
from manyheads.errors import InputError, OptionError
from manyheads.inspection.looking import ALIGNED, Looks, look_over
from manyheads.inspection.losing import Lost, Without, losses, without
from manyheads.inspection.roles import SHARE, SPREAD, role_of
from manyheads.inspection.switches import Head, every_head
from manyheads.models.transformer import Transformer
from manyheads.text.corpus import Pair

__all__ = ["HeadFigures", "HeadReport", "report_heads"]


@dataclass(frozen=True)
class HeadFigures:
    """One head: where it looks, its role, and what is lost without it.

    looks   previous, same, next, ends, aligned, entropy, evenness, distance; without those that it cannot have
    read    True if it aligns better in the step that reads a target piece than in the step that writes it
    """

    kind: str
    layer: int
    head: int
    role: str
    looks: Looks
    read: bool
    lost: Lost

    def __str__(self) -> str:
        return str(Head(self.kind, self.layer, self.head))


@dataclass(frozen=True)
class HeadReport:
    """A report on every head of a model.

    model             its name
    pairs, of         `pairs` pairs were used, spread evenly over the `of` given
    cut               pairs that are too long to be watched in full: only their start was
    pieces            in the targets, ends included
    log_probability   of the targets, per piece, with all heads; bleu, chrf: of the translations
    search            how the translations were found: beam, length_penalty
    signatures        how they were scored
    reading           the attention that alignments are read from, as given to `--align-head`
    share, spread     the thresholds of the rule for roles
    """

    model: str
    pairs: int
    of: int
    cut: int
    pieces: int
    log_probability: float
    bleu: float
    chrf: float
    search: dict[str, float]
    signatures: dict[str, str]
    reading: str
    share: float
    spread: float
    heads: tuple[HeadFigures, ...]

    def ranked(self, by: str = "log_probability") -> list[HeadFigures]:
        """The heads by what is lost without them, the most first; by "log_probability", "bleu" or "chrf"."""
        return sorted(self.heads, key=lambda head: -getattr(head.lost, by))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def check(self, model: Transformer) -> None:
        """Raise OptionError unless the report has exactly the heads of this model."""
        if {Head(one.kind, one.layer, one.head) for one in self.heads} != set(every_head(model)):
            raise OptionError(f"a report must be on the heads of the model it is shown with, got one on {self.model!r}")

    def save(self, path: str | Path) -> Path:
        """Save in the format that the suffix names: .svg, .png or .json.

        A page also shows a sentence: `inspect(model, text, report=report)`.
        """
        from manyheads.inspection.saving import save_report

        return save_report(self, Path(path))


def all_at_once(heads: Sequence[Head]) -> Iterable[Head]:
    return heads


def report_heads(
    model: str | Path | Translator,
    pairs: Sequence[Pair],
    *,
    limit: int | None = None,
    follow: Callable[[Sequence[Head]], Iterable[Head]] = all_at_once,
    **options: float,
) -> HeadReport:
    """Measure what every head does with pairs of lines, and what is lost when each is switched off in turn.

    limit     the most pairs to use, spread evenly over those given
    follow    takes the heads and yields them one by one, as a progress bar does
    options   those of a search: beam, length_penalty, …
    """
    translator = single(Translator.of(model, "auto", "fp32"))
    some, search = spread_over(pairs, limit), translator.search(**({"beam": 1} | options))
    sources, targets = translator.encode_pairs(some)
    reading = translator.reading() if translator.recipe.decode.alignment else find_reading(translator, some)
    looks = look_over(translator.single, sources, targets, reading, translator.longest_aligned)
    whole = without(translator, some, search, ())
    if not isfinite(sum(whole.log_probabilities)):
        raise InputError("the model's numbers are not finite for these pairs: there is nothing to report")
    gone = {head: without(translator, some, search, (head,)) for head in follow(every_head(translator.single))}
    return assemble(translator, some, len(pairs), search, looks, whole, gone, reading)


def single(translator: Translator) -> Translator:
    """A translator of the model whose attention is read: of an ensemble, the first."""
    return Translator(translator.single, translator.vocabulary, translator.recipe, translator.folder)


def spread_over(pairs: Sequence[Pair], limit: int | None) -> list[Pair]:
    """The first pair and others at equal distances, because files are often sorted."""
    if not pairs:
        raise InputError("a report on heads needs pairs of lines, got none")
    if limit is not None and limit < 1:
        raise OptionError(f"a report on heads needs at least 1 pair, got a limit of {limit}")
    count = min(len(pairs), limit or len(pairs))
    return [pairs[n * len(pairs) // count] for n in range(count)]


def figures_of(head: Head, looks: Looks, lost: Lost) -> HeadFigures:
    told = {name: value for name, value in looks.items() if name not in ALIGNED}
    written, read = (looks.get(name) for name in ALIGNED)
    if written is not None and read is not None:
        told["aligned"] = max(written, read)
    return HeadFigures(*head, role_of(looks), told, (read or 0) > (written or 0), lost)


def assemble(
    translator: Translator,
    pairs: Sequence[Pair],
    of: int,
    search: Search,
    looks: Mapping[Head, Looks],
    whole: Without,
    gone: Mapping[Head, Without],
    reading: Reading,
) -> HeadReport:
    found, pieces, ids = losses(pairs, whole, gone), sum(whole.pieces), translator.encode_pairs(pairs)
    return HeadReport(
        model=translator.folder.name if translator.folder else "",
        pairs=len(pairs),
        of=of,
        cut=sum(
            max(len(read), 1 + len(written)) > translator.longest_aligned for read, written in zip(*ids, strict=True)
        ),
        pieces=pieces,
        log_probability=sum(whole.log_probabilities) / pieces,
        bleu=found.bleu,
        chrf=found.chrf,
        search={"beam": search.beam, "length_penalty": search.length_penalty},
        signatures=found.signatures,
        reading=str(reading),
        share=SHARE,
        spread=SPREAD,
        heads=tuple(figures_of(head, looks[head], lost) for head, lost in found.heads.items()),
    )
