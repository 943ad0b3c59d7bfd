"""`manyheads evaluate`: how good a model is on pairs it has not seen."""

import json
from typing import Any

from rich.table import Table

from manyheads.cli.options import (
    NOT_FINITE,
    Beam,
    Data,
    Device,
    Json,
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
from manyheads.errors import OptionError

__all__ = ["evaluate"]


def evaluate(
    model: Model,
    /,
    *,
    data: Data,
    source: SourceName = None,
    target: TargetName = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    others: Others = (),
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "fp32",
) -> None:
    """Translate the sources of a test set and score them against its targets; or, of a language model, tell how surprised it is by texts.

    ```
    manyheads evaluate de-en --data test.tsv
    manyheads evaluate runs/de-en --data test.de test.en --beam 5 --json
    manyheads evaluate runs/lm --data texts.txt
    ```

    Parameters
    ----------
    as_json
        One JSON object; of a language model, which is scored on texts, a line each: perplexity, bits_per_byte, tokens, lines, left_out,
        truncated, precision, seconds. Of a translator: bleu, chrf, perplexity (null if it is not finite), exact, signature, lines, left_out, not_finite (lines),
        precision, seconds (and wer, per of phones).
    """
    from manyheads.evaluation.api import evaluate as evaluate_model
    from manyheads.modelfolder import task_of_folder

    if task_of_folder(model) == "generate":
        refuse_options(source=source, target=target, beam=beam, length_penalty=length_penalty, others=others)
        evaluate_writer(model, data, as_json, device, precision)
        return
    given = {"beam": beam, "length_penalty": length_penalty}
    options: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    scores = evaluate_model(load_models(model, others, device, precision).naming(source, target), data, **options)
    if as_json:
        found = scores.as_object()
        print(json.dumps(found | {"perplexity": finite(found["perplexity"])}))  # noqa: T201
    else:
        show(scores.as_object())
    say(scores.not_finite, NOT_FINITE)


def refuse_options(**given: Any) -> None:
    """What is said of a search, or of two sides, means nothing to a language model."""
    for name, value in given.items():
        if value not in (None, ()):
            raise OptionError(f"a language model is scored on texts as they are, got {name.replace('_', '-')} {value}")


def evaluate_writer(model: str, data: tuple[str, ...], as_json: bool, device: str, precision: str) -> None:
    from manyheads.generation.evaluate import evaluate_texts
    from manyheads.generation.writer import Writer

    scores = evaluate_texts(Writer.load(model, device, precision), data)
    if as_json:
        found = {name: finite(value) if isinstance(value, float) else value for name, value in scores.items()}
        print(json.dumps(found))  # noqa: T201
    else:
        show(scores)
    say(scores["truncated"], "longer than the model reads: their beginning is scored")


def show(scores: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in scores.items():
        table.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value}")
    Out().print(table)
