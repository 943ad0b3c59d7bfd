"""`manyheads translate`: one line in, one line out."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

from cyclopts import Parameter

from manyheads.cli.control import NO_CONTROL, Control, search_options, wishes_of_lines
from manyheads.cli.options import Device, File, Json, Whole, say
from manyheads.errors import InputError, OptionError, SaveError

__all__ = ["translate"]

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def translate(
    model: str,
    /,
    input: File = "-",  # noqa: A002
    *,
    output: File = "-",
    beam: Whole | None = None,
    length_penalty: float | None = None,
    n_best: Whole = 1,
    sample: Switch = False,
    temperature: float | None = None,
    top_k: Whole | None = None,
    top_p: float | None = None,
    seed: Whole = 1,
    batch: Whole = 64,
    control: Control = NO_CONTROL,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Translate a file or standard input: one line in, one line out, a blank line for a blank line.

    ```
    echo "Ein Hund schläft." | manyheads translate de-en
    manyheads translate runs/de-en --input test.de --output test.en --beam 5
    ```

    Parameters
    ----------
    model
        A run folder, or a bundled model: de-en.
    input
        A file, plain, gzip or zstd; - is standard input, which is answered line by line if someone types it.
    output
        A file; - is standard output.
    beam
        Hypotheses kept at each step, 1 = greedy (default: what the recipe says).
    length_penalty
        The exponent α of the length penalty (default: what the recipe says).
    n_best
        Alternatives a line. With more than one, a line is: number TAB rank TAB score TAB text.
    sample
        Draw tokens at random instead of searching for the likeliest.
    temperature
        Of the draws: below 1 the likely becomes likelier.
    top_k
        Draw among the k likeliest tokens.
    top_p
        Draw among the likeliest tokens that together have this probability.
    seed
        Of the draws; the same seed gives the same lines, whatever the batch.
    batch
        Lines computed together.
    as_json
        One JSON object a line: translation, score, truncated, parts, looped, and unmet and n_best if asked for.
    device
        auto (a GPU if there is one), cpu, cuda, cuda:1.
    """
    options = {
        "beam": beam, "length_penalty": length_penalty, "n_best": n_best, "sample": sample, "temperature": temperature,
        "top_k": top_k, "top_p": top_p, "seed": seed, "batch": batch, **search_options(control),
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    run(model, input, output, given, control, as_json, device)


def run(
    model: str, source: str, output: str, options: dict[str, Any], control: Control, as_json: bool, device: str
) -> None:
    from manyheads.decoding.translator import CHUNK, Translation, Translator

    if source == control.prefixes == "-":
        raise OptionError("standard input is read once, got - as --input and as --prefixes")
    wishes = wishes_of_lines(control)
    translator = Translator.load(model, device)
    search = translator.search(**options)
    chunk = 1 if source == "-" and sys.stdin.isatty() else CHUNK  # whoever types waits for an answer

    def show(number: int, line: Translation) -> str:
        if as_json:
            return json.dumps(as_object(line, search.outputs, wished=control != NO_CONTROL), ensure_ascii=False)
        if search.outputs == 1:
            return line.text
        ranked = enumerate(line.n_best, 1)
        return "\n".join(f"{number}\t{rank}\t{one.score:.4f}\t{one.text}" for rank, one in ranked)

    parts = truncated = looped = unmet = 0
    with open_output(output) as file:
        lines = translator.translate(read_texts(source), search, wishes=wishes, chunk=chunk)
        for number, line in enumerate(lines, 1):
            print(show(number, line), file=file, flush=chunk == 1)
            parts, truncated = parts + (line.parts > 1), truncated + line.truncated
            looped, unmet = looped + line.looped, unmet + bool(line.unmet)
    say(parts, "too long for one pass, translated in parts")
    say(truncated, "cut off at the bound on the length (--max-length, decode.max_ratio, decode.max_extra)")
    say(looped, "ending with the same few pieces again and again (--no-repeat 4 forbids that)")
    say(unmet, "without something that was wished for: no room, or at odds with another wish (--json names it)")


def as_object(line: Any, n_best: int, wished: bool) -> dict[str, Any]:
    found = {"translation": line.text, "score": round(line.score, 4), "truncated": line.truncated, "parts": line.parts}
    found |= {"looped": line.looped} | ({"unmet": line.unmet} if wished else {})
    if n_best == 1:
        return found
    return {**found, "n_best": [{"translation": one.text, "score": round(one.score, 4)} for one in line.n_best]}


def read_texts(path: str) -> Iterator[str]:
    from manyheads.text.lines import MAX_LINE, decode_line, read_lines

    for number, line in enumerate(read_lines(path, 64 * MAX_LINE), 1):
        if line is None:
            raise InputError(f"a line must have at most {64 * MAX_LINE:,} bytes, got {path}, line {number}")
        yield decode_line(line, path, number)


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced when all of it is written: the input may be the same file."""
    if path == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(
                encoding="utf-8", errors="strict"
            )  # as what goes in, whatever the terminal is set to
        yield sys.stdout
        sys.stdout.flush()
        return
    plain = not os.path.exists(path) or os.path.isfile(path)
    place = f"{path}.writing" if plain else path
    try:
        with open(place, "w", encoding="utf-8", newline="\n") as file:
            yield file
        if plain:
            os.replace(place, path)
    except OSError as error:
        raise SaveError(f"{path} could not be written: {error.strerror}") from None
