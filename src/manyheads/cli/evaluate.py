"""`manyheads evaluate`: score a model on data it has not seen."""

import json
from dataclasses import replace
from typing import Any

from rich.table import Table
from rich.text import Text

from manyheads.cli.alive import working
from manyheads.cli.options import (
    NOT_FINITE,
    Beam,
    Device,
    Files,
    Iterations,
    Json,
    Judges,
    Length,
    LengthPenalty,
    Model,
    Others,
    Out,
    Precision,
    SourceName,
    TargetName,
    finite,
    load_models,
    say,
)
from manyheads.decoding.said_length import length_options
from manyheads.errors import OptionError

__all__ = ["evaluate"]


def evaluate(
    model: Model,
    /,
    *,
    data: Files,
    source: SourceName = None,
    target: TargetName = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    iterations: Iterations = None,
    length: Length = None,
    judges: Judges = (),
    others: Others = (),
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "fp32",
) -> None:
    """Score a model on a test set.

    ```
    manyheads evaluate de-en --data test.tsv
    manyheads evaluate runs/de-en --data test.de test.en --beam 5 --json
    manyheads evaluate runs/lm --data texts.txt
    manyheads evaluate runs/mood --data labelled.tsv
    ```

    What is measured, and what --data holds, depends on the model:

    - translator: its translations of the sources, against the targets
    - language model: how well it predicts texts, one per line
    - pre-trained encoder: how well it predicts hidden words of texts, one per line
    - classifier: how often it labels texts correctly
    - encoder: how well its vectors find the other text of a pair

    Parameters
    ----------
    data
        For a translator or an encoder, a file of pairs (TSV, JSONL, TMX, PO), or two files, one for each side; for a
        language model or a pre-trained encoder, texts, one per line; for a classifier, labelled texts, LABEL TAB TEXT.
    as_json
        Print one JSON object:

        - translator: bleu, chrf, perplexity (of the model alone, without judges; null if not finite), exact, signature,
          chrf_signature, lines, left_out, not_finite (lines), precision, seconds; for phones also wer and per
        - language model: perplexity, bits_per_byte, tokens, lines, left_out, truncated, precision, seconds
        - pre-trained encoder: loss, perplexity and accuracy (in percent) of hidden pieces, tokens (the hidden ones),
          lines, left_out, truncated, precision, seconds
        - classifier: loss (null if not finite), accuracy, macro_f1, classes (count, precision, recall, f1 of each),
          lines, left_out, truncated, not_finite, precision, seconds
        - encoder: mrr, accuracy_at_1, lines, left_out, truncated, not_finite, precision, seconds
    """
    from manyheads.evaluation.api import evaluate as evaluate_model
    from manyheads.modelfolder import task_of_folder

    if (task := task_of_folder(model)) in ON_TEXTS:
        kind, names_sides, score = ON_TEXTS[task]
        said = {
            "beam": beam,
            "length_penalty": length_penalty,
            "iterations": iterations,
            "length": length,
            "with": others,
            "judge": judges,
        }
        refuse_options(kind, **said, **({} if names_sides else {"source": source, "target": target}))
        with working("scoring"):
            found = score(model, data, (source, target), device, precision)
        show_texts(found, as_json)
        return
    given = {"beam": beam, "length_penalty": length_penalty, "iterations": iterations, **length_options(length)}
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    with working("translating"):
        translator = load_models(model, others, judges, device, precision).naming(source, target)
        scores = evaluate_model(translator, data, **options)
    if as_json:
        found = scores.as_object()
        print(json.dumps(found | {"perplexity": finite(found["perplexity"])}))  # noqa: T201
    else:
        show(scores.as_object())
    say(scores.not_finite, NOT_FINITE)


Names = tuple[str | None, str | None]


def refuse_options(kind: str, **given: Any) -> None:
    """Refuse options of a search or of two sides, which mean nothing to a model that is scored on texts."""
    for name, value in given.items():
        if value not in (None, ()):
            raise OptionError(f"{kind} is scored on texts as they are, got {name.replace('_', '-')} {value}")


def score_writer(model: str, data: tuple[str, ...], names: Names, device: str, precision: str) -> dict[str, Any]:
    from manyheads.generation.evaluate import evaluate_texts
    from manyheads.generation.writer import Writer

    return evaluate_texts(Writer.load(model, device, precision), data)


def score_masked(model: str, data: tuple[str, ...], names: Names, device: str, precision: str) -> dict[str, Any]:
    from manyheads.evaluation.masked import Prober, evaluate_masked

    return evaluate_masked(Prober.load(model, device, precision), data)


def score_classifier(model: str, data: tuple[str, ...], names: Names, device: str, precision: str) -> dict[str, Any]:
    from manyheads.classification.classifier import Classifier
    from manyheads.classification.evaluate import evaluate_labels

    return evaluate_labels(Classifier.load(model, device, precision), data, named_reading(model, names, labels=True))


def score_encoder(model: str, data: tuple[str, ...], names: Names, device: str, precision: str) -> dict[str, Any]:
    from manyheads.embedding.embedder import Embedder
    from manyheads.embedding.evaluate import evaluate_pairs

    return evaluate_pairs(Embedder.load(model, device, precision), data, named_reading(model, names))


def named_reading(model: str, names: Names, labels: bool = False) -> Any:
    """How to read files: as the model's recipe says, except for sides that are named on the command line."""
    from manyheads.modelfolder import find_model, recipe_in

    reading = recipe_in(find_model(model)).data.reading
    return replace(reading, source=names[0] or reading.source, target=names[1] or reading.target, labels=labels)


ON_TEXTS = {
    "generate": ("a language model", False, score_writer),
    "mask": ("a pre-trained encoder", False, score_masked),
    "classify": ("a classifier", True, score_classifier),
    "embed": ("an encoder", True, score_encoder),
}
"""Tasks whose models are scored on texts: (name of such a model, whether its files name two sides, how to score)."""


def show_texts(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({k: finite(v) if isinstance(v, float) else v for k, v in scores.items()}))  # noqa: T201
    else:
        show({name: value for name, value in scores.items() if name != "classes"})
        show_classes(scores.get("classes", {}))
    say(scores.get("truncated", 0), "longer than the model reads: only the beginning was scored")
    say(
        scores.get("not_finite", 0),
        "with numbers that are not finite, counted as wrong (--precision bf16 or fp32 holds larger ones)",
    )


def show_classes(classes: dict[str, dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("label", *next(iter(classes.values()), ())):
        table.add_column(name, justify="left" if name == "label" else "right")
    for label, one in classes.items():
        table.add_row(
            Text(label), *(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in one.values())
        )
    if classes:
        Out().print(table)


def show(scores: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in scores.items():
        table.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value}")
    Out().print(table)
