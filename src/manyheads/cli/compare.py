"""`manyheads compare`: scores of several models on one test set, with significance tests."""

import json
import sys
from typing import Any

from rich.table import Table
from rich.text import Text

from manyheads.cli.options import (
    NOT_FINITE,
    Beam,
    Data,
    Device,
    Json,
    LengthPenalty,
    Out,
    Precision,
    SourceName,
    TargetName,
    say,
)
from manyheads.errors import OptionError, how_many

__all__ = ["compare"]

NAMES = {"bleu": "BLEU", "chrf": "chrF", "wer": "word errors", "per": "phone errors"}


def compare(
    *models: str,
    data: Data,
    source: SourceName = None,
    target: TargetName = None,
    test: str = "bootstrap",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "fp32",
) -> None:
    """Compare several translators on one test set.

    ```
    manyheads compare runs/old runs/new --data test.tsv
    manyheads compare de-en runs/a runs/b --data test.de test.en --json
    ```

    Each score has its 95 % confidence interval. From the second model on it also has p: how often a difference as large
    as the one from the first model would appear by chance, if there were none (computed by sacreBLEU).

    Each model translates with the settings of its own recipe, unless --beam or --length-penalty sets one for all. Judges,
    ensembles and numbers of iterations are options of `manyheads evaluate`.

    Parameters
    ----------
    models
        Run folders or bundled models (de-en), all compared with the first.
    test
        Significance test: bootstrap (paired bootstrap resampling) or randomisation (approximate randomisation).
    as_json
        Print one JSON object: models, metrics (score, interval, p), signatures, differences, lines, left_out,
        not_finite (lines of each model), precision.
    """
    if len(models) < 2:
        raise OptionError(f"a comparison needs two models or more, got {len(models)}")
    from manyheads.evaluation.compare import FEWEST
    from manyheads.evaluation.compare import compare as compare_models

    given = {"beam": beam, "length_penalty": length_penalty}
    names = {"source": source, "target": target, "device": device, "precision": precision}
    found = compare_models(models, data, test=test, **names, **{k: v for k, v in given.items() if v is not None})
    if as_json:
        print(json.dumps(found.as_object(), ensure_ascii=False))  # noqa: T201
    else:
        show(found)
        if found.lines < FEWEST:
            print(f"{how_many(found.lines, 'pair')}: too few for p and intervals to mean much", file=sys.stderr)  # noqa: T201
        say(found.left_out, "blank on one side or too long, left out")
    for name, count in zip(found.models, found.not_finite, strict=True):
        say(count, f"of {name} {NOT_FINITE}")


def show(found: Any) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in found.metrics:
        table.add_column(NAMES[name], justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
    for row, model in enumerate(found.models):
        figures = [figures[row] for figures in found.metrics.values()]
        table.add_row(Text(model), *(cell for one in figures for cell in cells(one)))
    Out().print(table)
    for name, signature in found.signatures.items():
        print(f"{NAMES[name]}: {signature}")  # noqa: T201
    print(f"precision: {found.precision}")  # noqa: T201
    for one in found.differences:
        print(f"\n{one.source}\n{one.target}")  # noqa: T201
        for score, text in zip(one.chrf, one.outputs, strict=True):
            print(f"{score:5.1f}  {text}")  # noqa: T201


def cells(figure: Any) -> tuple[str, str]:
    return (
        f"{figure.score:.2f} ± {figure.interval:.2f}",
        "" if figure.p is None else f"{figure.p:.3f}" if figure.p >= 0.001 else "< 0.001",
    )
