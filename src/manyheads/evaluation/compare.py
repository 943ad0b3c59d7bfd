"""`manyheads.compare`: is one model better than another, or was it luck?

Both tests are sacreBLEU's. Paired bootstrap resampling: the test set is drawn anew a thousand times from its own
sentences; 95 % of the scores lie within ± of a score, and p is how often the difference, shifted to a mean of 0, is as
large as the one observed. (It is hardly ever above a half.) Approximate randomisation: in ten thousand trials the
outputs of two models are swapped at random, sentence by sentence, and p is how often the two sets then differ by more
than the models do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from manyheads.decoding.loading import translator_of
from manyheads.decoding.translator import Translator
from manyheads.errors import OptionError, choose
from manyheads.evaluation.errorrate import ErrorRate
from manyheads.evaluation.rates import group_references, wrong_symbols
from manyheads.text.corpus import Counts, Pair, Paths, check_paths, files_of, names_sides
from manyheads.text.parallel import read_dev

__all__ = ["FEWEST", "Comparison", "Difference", "Figure", "compare", "compare_outputs"]

TESTS = {"bootstrap": "bs", "randomisation": "ar"}
TRIALS = 10_000
RESAMPLES = 1_000
SHOWN = 5
FEWEST = 30
"""Pairs from which on resampling can be trusted."""


@dataclass(frozen=True)
class Figure:
    """A model's score, half the width of its 95 % interval, and p against the first model, for which p is None."""

    score: float
    interval: float
    p: float | None


@dataclass(frozen=True)
class Difference:
    """A pair whose outputs differ much, and the chrF of each output."""

    source: str
    target: str
    outputs: list[str]
    chrf: list[float]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    metrics       for each metric, a figure per model
    signatures    for each metric, how it was computed
    differences   the largest first
    not_finite    for each model, lines whose output is blank, or lacks a part, because its numbers were not finite
    precision     that the models computed in; if they differ, one per model, in order
    """

    models: list[str]
    metrics: dict[str, list[Figure]]
    signatures: dict[str, str]
    differences: list[Difference]
    lines: int
    left_out: int = 0
    not_finite: list[int] = field(default_factory=list)
    precision: str | None = None

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    models: Sequence[str | Path | Translator],
    data: Paths,
    *,
    test: str = "bootstrap",
    source: str | None = None,
    target: str | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **options: float,
) -> Comparison:
    """Translate the sources of `data` with each model, and compare all models with the first.

    The test is paired "bootstrap" resampling or approximate "randomisation". `source` and `target` are what the files
    call the sides; options are those of `Search`. As in `evaluate`, figures are of full precision unless `precision`
    says otherwise.
    """
    choose("test", test, TESTS)
    if len(models) < 2:
        raise OptionError(f"a comparison needs two models or more, got {len(models)}")
    outputs, kinds, precisions, broken, counts, pairs, reading, named = {}, set(), [], [], Counts(), [], None, False
    for number, model in enumerate(models, 1):  # one after the other, so that only one is in memory
        translator = translator_of(model, device, precision).naming(source, target)
        if reading is None:
            reading = translator.recipe.data.reading
            corpora = check_paths(data, "--data", reading)
            pairs, named = read_dev(corpora, counts), any(map(names_sides, files_of(corpora)))
        elif named and sides_of(translator) != (reading.source, reading.target):
            raise OptionError(
                f"compared models must use the same names for the sides of a file, got {reading.source!r}, {reading.target!r} and "
                + ", ".join(map(repr, sides_of(translator))),
                hint="--source and --target give the names used in this file",
            )
        name = f"model {number}" if isinstance(model, Translator) else str(model)
        name = name if name not in outputs else f"{name} ({number})"
        found = translator.translate_distinct([source for source, _ in pairs], translator.search(**options))
        outputs[name] = [one.text for one in found]
        broken.append(sum(not one.finite for one in found))
        kinds.add(translator.vocabulary.target.kind)
        precisions.append(translator.precision)
    compared = compare_outputs(pairs, outputs, test=test, symbols=kinds == {"symbols"}, left_out=counts.left_out)
    precision = ", ".join(precisions if len(set(precisions)) > 1 else precisions[:1])
    return replace(compared, not_finite=broken, precision=precision)


def sides_of(translator: Translator) -> tuple[str | None, str | None]:
    """What its recipe calls the sides."""
    return translator.recipe.data.source, translator.recipe.data.target


def compare_outputs(
    pairs: Sequence[Pair],
    outputs: Mapping[str, list[str]],
    *,
    test: str = "bootstrap",
    symbols: bool,
    left_out: int = 0,
) -> Comparison:
    """Compare outputs, by the names of models, against the targets of pairs.

    With `symbols`, compare error rates, too (see `score_outputs`).
    """
    targets = [target for _, target in pairs]
    tested = paired_test(test, outputs, {"bleu": BLEU(), "chrf": CHRF()}, [targets])
    if symbols:
        groups = group_references(pairs)
        first = {source: n for n, (source, _) in reversed(list(enumerate(pairs)))}
        distinct = {name: [texts[first[source]] for source in groups] for name, texts in outputs.items()}
        references = list(groups.values())
        rates = {
            "wer": ErrorRate("wer", references, lambda output, right: (output not in right, 1)),
            "per": ErrorRate("per", references, wrong_symbols),
        }
        tested |= paired_test(test, distinct, rates, None)
    return Comparison(
        models=list(outputs),
        metrics={name: figures for name, (figures, _) in tested.items()},
        signatures={name: signature for name, (_, signature) in tested.items()},
        differences=largest_differences(pairs, list(outputs.values())),
        lines=len(pairs),
        left_out=left_out,
    )


def paired_test(
    kind: str,
    outputs: Mapping[str, list[str]],
    metrics: Mapping[str, Metric],
    references: Sequence[Sequence[str]] | None,
) -> dict[str, tuple[list[Figure], str]]:
    """For each metric, a figure per model, and the signature."""
    found = {}
    samples = TRIALS if kind == "randomisation" else RESAMPLES
    for name, metric in metrics.items():  # one at a time: sacreBLEU has names of its own for them
        test = PairedTest(list(outputs.items()), {name: metric}, references, TESTS[kind], samples, RESAMPLES)
        signatures, results = test()
        ((its_own, signature),) = signatures.items()
        found[name] = figures(results[its_own]), str(signature)
    return found


def figures(results: Sequence[Any]) -> list[Figure]:
    first, *others = (round(float(one.score), 4) for one in results)
    intervals = [round(float(one.ci), 4) for one in results]
    # For equal scores, sacreBLEU would report that their difference is never due to chance.
    p = [1.0 if score == first else round(one.p_value, 4) for score, one in zip(others, results[1:], strict=True)]
    return list(map(Figure, (first, *others), intervals, (None, *p)))


def largest_differences(pairs: Sequence[Pair], outputs: Sequence[list[str]]) -> list[Difference]:
    """The pairs whose chrF, sentence by sentence, is furthest apart.

    A pair that occurs twice is shown once.
    """
    chrf = CHRF()
    found = {}
    for (source, target), *texts in zip(pairs, *outputs, strict=True):
        if len(set(texts)) > 1:
            scores = [round(chrf.sentence_score(text, [target]).score, 1) for text in texts]
            found[source, target] = Difference(source, target, texts, scores)
    return sorted(found.values(), key=lambda one: min(one.chrf) - max(one.chrf))[:SHOWN]
