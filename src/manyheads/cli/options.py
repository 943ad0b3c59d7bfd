"""What several verbs share: options, and a count of what was odd."""

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
    """Plain int(): 2.7 is no whole number, and is not to become 3."""
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
        help="The attention to read: LAYER or LAYER.HEAD, from 0 (default: what the recipe says, which training has found).",
    ),
]
Model = Annotated[str, Parameter(help="A run folder, or a bundled model: de-en.")]
Others = Annotated[
    tuple[str, ...],
    Parameter(
        name="--with",
        consume_multiple=1,
        negative=(),
        show_default=False,
        help="More models, run folders: each token is chosen by the mean of all models' probabilities.",
    ),
]
Judges = Annotated[
    tuple[str, ...],
    Parameter(
        name="--judge",
        consume_multiple=1,
        negative=(),
        show_default=False,
        help="Other models, which write token by token, have a say in which hypothesis of the beam is taken; of a model that writes all tokens at once, they choose among what it has written.",
    ),
]
Data = Annotated[Files, Parameter(help="A file of pairs (TSV, JSONL, TMX, PO), or a source file and a target file.")]
Beam = Annotated[
    Whole | None, Parameter(help="Hypotheses kept at each step, 1 = greedy (default: what a model's recipe says).")
]
LengthPenalty = Annotated[
    float | None, Parameter(help="The exponent α of the length penalty (default: what a model's recipe says).")
]
Iterations = Annotated[
    Whole | None,
    Parameter(help="Of a model that writes all tokens at once: how often it fills in what it is not sure of."),
]
Length = Annotated[
    str | None,
    Parameter(
        help="Of such a model: so many pieces (12), or so many times the length that it finds likeliest (with a point: 0.8).",
    ),
]
SourceName = Annotated[
    str | None,
    Parameter(help="What the source is called in JSONL (a key), TMX and PO (a language); default: as the recipe says."),
]
TargetName = Annotated[str | None, Parameter(help="What the target is called.")]
Device = Annotated[str, Parameter(name="--device", help="auto (a GPU if there is one), cpu, cuda, cuda:1.")]
Precision = Annotated[
    str, Parameter(name="--precision", help="Of the weights: fp32, bf16 or fp16 (auto: fp16 on a GPU, fp32 elsewhere).")
]


NOT_FINITE = (
    "with numbers that are not finite, left blank or without a part (--precision bf16 or fp32 holds larger ones)"
)


class Screen(Console):
    """That its reader has left is for `main` to deal with."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Out(Screen):
    """Standard output, for tables."""

    def __init__(self) -> None:
        super().__init__(file=sys.stdout, highlight=False)


def finite(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if math.isfinite(number) else None


def load_models(model: str, others: tuple[str, ...], judges: tuple[str, ...], device: str, precision: str) -> Any:
    """A translator; of several models, their ensemble; with judges, all of them."""
    from manyheads.decoding.ensemble import ensemble
    from manyheads.decoding.loading import load_translator

    translators = [load_translator(folder, device, precision) for folder in (model, *others)]
    found = ensemble(translators) if others else translators[0]
    return found.judged_by(*judges) if judges else found


def say(count: int, what: str) -> None:
    """Lines that something was the matter with, on stderr, if there are any."""
    if count:
        print(f"{how_many(count, 'line')} {what}", file=sys.stderr)  # noqa: T201
