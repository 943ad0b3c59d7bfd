"""`manyheads classify`: label texts."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.alive import invite
from manyheads.cli.options import Device, File, Json, Precision, Whole, say
from manyheads.cli.output import open_output, refuse_same
from manyheads.errors import OptionError

__all__ = ["classify"]


def classify(
    model: str,
    /,
    *,
    input: Annotated[File, Parameter(name="--input")] = "-",  # noqa: A002
    output: Annotated[File, Parameter(name="--output")] = "-",
    top: Whole | None = None,
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Print the label of each line of a file or standard input.

    ```
    manyheads classify runs/mood --input texts.txt > labels.txt
    echo "What a lovely day." | manyheads classify runs/mood --json
    ```

    Parameters
    ----------
    model
        Run folder of a classifier.
    input
        File to read, plain, gzip or zstd: one text per line, or two separated by a tab; - is standard input.
    output
        File to write, replaced only when complete; - is standard output.
    top
        Print this many labels per line, likeliest first, each as label TAB probability. With --json, list only this
        many probabilities.
    as_json
        Print one JSON object per line: text, label (null for a blank line), probability, probabilities (of all labels,
        likeliest first), tokens.
    """
    from manyheads.classification.classifier import Classifier

    if top is not None and top < 1:
        raise OptionError(f"--top is a number of labels, got {top}")
    refuse_same(output, input)
    truncated = not_finite = 0
    classifier = Classifier.load(model, device, precision)
    invite(input, "type texts, one per line; Ctrl-D ends, and shows the answers")
    with open_output(output, flush=input == "-") as write:
        for found in classifier.classify(read_checked(input)):
            truncated += found.truncated
            not_finite += not (found.finite or found.blank)
            write(as_object(found, top) if as_json else as_columns(found, top))
    say(truncated, f"longer than {classifier.config.max_length} tokens: only the beginning was classified")
    say(not_finite, "with numbers that are not finite, left blank (--precision bf16 or fp32 holds larger ones)")


def read_checked(path: str) -> Iterator[str]:
    """Yield every line; refuse one that holds more than two texts here, where its number is known."""
    from manyheads.text.labelled import split_texts
    from manyheads.text.lines import read_texts

    for number, line in enumerate(read_texts(path), 1):
        split_texts(line, f"{'standard input' if path == '-' else path}, line {number}: ")
        yield line


def as_object(found: Any, top: int | None) -> str:
    ranked = [(label, float(f"{probability:.6g}")) for label, probability in found.ranked(top)]
    best: tuple[Any, Any] = ranked[0] if ranked else (None, None)
    said = {"text": found.text, "label": best[0], "probability": best[1], "probabilities": dict(ranked)}
    return json.dumps(said | {"tokens": found.tokens}, ensure_ascii=False)


def as_columns(found: Any, top: int | None) -> str:
    """The label, or if `top` is given that many labels with their probabilities."""
    if top is None:
        return found.label
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in found.ranked(top))
