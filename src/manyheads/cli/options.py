"""Options that several verbs share, and helpers for loading models and reporting odd lines."""

import math
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token
from rich.console import Console

from manyheads.errors import how_many

__all__ = [
    "NOT_FINITE",
    "AlignHead",
    "Beam",
    "Data",
    "Device",
    "File",
    "Files",
    "Iterations",
    "Json",
    "Judges",
    "Length",
    "LengthPenalty",
    "Model",
    "Others",
    "Out",
    "Precision",
    "Screen",
    "Settings",
    "SourceName",
    "TargetName",
    "Whole",
    "finite",
    "load_models",
    "say",
    "whole_number",
]


def whole_number(hint: type, tokens: Sequence[Token]) -> int:
    """Parse an integer strictly: 2.7 is refused, not rounded to 3."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"a whole number is needed, got {tokens[0].value!r}") from None


Whole = Annotated[int, Parameter(converter=whole_number)]
File = Annotated[str, Parameter(allow_leading_hyphen=True)]  # "-" is standard input or output
Files = Annotated[tuple[str, ...], Parameter(consume_multiple=1, negative=(), show_default=False)]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative=(), consume_multiple=1, show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]
AlignHead = Annotated[
    str | None,
    Parameter(
        name="--align-head",
        show_default=False,
        help="Cross-attention to read: LAYER or LAYER.HEAD, counted from 0 "
        "(default: from the model's recipe, as found when it was trained).",
    ),
]
Model = Annotated[str, Parameter(help="A run folder, or the name of a bundled model: de-en.")]
Others = Annotated[
    tuple[str, ...],
    Parameter(
        name="--with",
        consume_multiple=1,
        negative=(),
        show_default=False,
        help="Models to add, as an ensemble: each token is chosen by the mean of all models' probabilities.",
    ),
]
Judges = Annotated[
    tuple[str, ...],
    Parameter(
        name="--judge",
        consume_multiple=1,
        negative=(),
        show_default=False,
        help="Models that help to choose among the final hypotheses of the beam, or that choose among the candidates "
        "of a model that writes all tokens at once. Judges must write token by token.",
    ),
]
Data = Annotated[Files, Parameter(help="A file of pairs (TSV, JSONL, TMX, PO), or a source file and a target file.")]
Beam = Annotated[
    Whole | None, Parameter(help="Hypotheses kept at each step; 1 = greedy search (default: from the model's recipe).")
]
LengthPenalty = Annotated[
    float | None, Parameter(help="Exponent α of the length penalty; 0 = none (default: from the model's recipe).")
]
Iterations = Annotated[
    Whole | None,
    Parameter(
        help="For models that write all tokens at once: how many iterations to run (default: from the model's recipe)."
    ),
]
Length = Annotated[
    str | None,
    Parameter(
        help="For models that write all tokens at once: length of the output in pieces (12), "
        "or as a multiple of the likeliest length (with a decimal point: 0.8).",
    ),
]
SourceName = Annotated[
    str | None,
    Parameter(help="Name of the source: a key in JSONL, a language in TMX and PO (default: from the model's recipe)."),
]
TargetName = Annotated[str | None, Parameter(help="Name of the target, likewise.")]
Device = Annotated[
    str, Parameter(name="--device", help="Device to run on: auto (a GPU if there is one), cpu, cuda or cuda:1.")
]
Precision = Annotated[
    str,
    Parameter(
        name="--precision",
        help="Precision of the weights: auto (fp16 on a GPU, else fp32), fp32, bf16, fp16, or int8 (on a "
        "CPU: the fastest from a width of 256 on).",
    ),
]


NOT_FINITE = "with numbers that are not finite, left blank or incomplete (--precision bf16 or fp32 holds larger ones)"


class Screen(Console):
    """A console that leaves a broken pipe to `main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Out(Screen):
    """Standard output, for tables."""

    def __init__(self) -> None:
        super().__init__(file=sys.stdout, highlight=False)


def finite(number: float) -> float | None:
    """The number, or None if it is NaN or infinite, which JSON cannot hold."""
    return number if math.isfinite(number) else None


def load_models(model: str, others: tuple[str, ...], judges: tuple[str, ...], device: str, precision: str) -> Any:
    """A translator, or an ensemble if `others` are given, with its judges if there are any."""
    from manyheads.decoding.ensemble import ensemble
    from manyheads.decoding.loading import load_translator

    translators = [load_translator(folder, device, precision) for folder in (model, *others)]
    found = ensemble(translators) if others else translators[0]
    return found.judged_by(*judges) if judges else found


def say(count: int, what: str) -> None:
    """Print "COUNT lines WHAT" to stderr, if there are any."""
    if count:
        print(f"{how_many(count, 'line')} {what}", file=sys.stderr)  # noqa: T201
