"""`manyheads translate`: one line in, one line out."""

import json
import sys
from collections import Counter
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.align import choose_reading
from manyheads.cli.alive import counted, invite, is_typed
from manyheads.cli.control import NO_CONTROL, Control, search_options, wishes_of_lines
from manyheads.cli.options import (
    NOT_FINITE,
    AlignHead,
    Beam,
    Device,
    File,
    Iterations,
    Json,
    Judges,
    Length,
    LengthPenalty,
    Model,
    Others,
    Precision,
    Whole,
    finite,
    load_models,
    say,
)
from manyheads.cli.output import check_folder, open_output, refuse_same
from manyheads.decoding.links import moses
from manyheads.decoding.said_length import length_options
from manyheads.errors import OptionError

__all__ = ["translate"]

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]

ODD = {
    "parts": "too long for one pass, translated in parts",
    "truncated": "cut off at the length limit (--max-length, decode.max_ratio, decode.max_extra)",
    "looped": "ending in a loop of the same few pieces (--no-repeat 4 prevents that)",
    "not finite": NOT_FINITE,
    "unmet": "with an unmet requirement: no room for it, or it conflicts with another (--json names it)",
}
"""Oddities of a translation, whose lines are counted and reported at the end."""


def translate(
    model: Model,
    /,
    input: File = "-",  # noqa: A002
    *,
    output: File = "-",
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    n_best: Whole = 1,
    sample: Switch = False,
    temperature: float | None = None,
    top_k: Whole | None = None,
    top_p: float | None = None,
    seed: Whole | None = None,
    mbr: Whole | None = None,
    others: Others = (),
    align: Switch = False,
    align_head: AlignHead = None,
    iterations: Iterations = None,
    length: Length = None,
    judges: Judges = (),
    batch: Whole | None = None,
    control: Control = NO_CONTROL,
    as_json: Json = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Translate a file or standard input, one line out per line in.

    ```
    echo "Ein Hund schläft." | manyheads translate de-en
    manyheads translate runs/de-en --input test.de --output test.en --beam 5
    ```

    Parameters
    ----------
    input
        File to translate, plain, gzip or zstd; - is standard input, answered line by line in a terminal.
    output
        File to write, compressed if its name ends in .gz or .zst; - is standard output.
    n_best
        Alternatives per line. With more than one, each is printed as: line number TAB rank TAB score TAB text.
    sample
        Draw tokens at random instead of searching for the likeliest.
    temperature
        Temperature of the draws: below 1, likely tokens become likelier (default: 1).
    top_k
        Draw among this many of the likeliest tokens; 0 = all (default: 0).
    top_p
        Draw among the likeliest tokens that together have this probability (default: 1).
    seed
        Seed of the draws; the same seed gives the same lines, whatever the batch (default: 1).
    mbr
        Draw this many samples per line and print the one that is most like the others: the highest mean chrF (minimum
        Bayes risk).
    align
        Also print which words belong together: text TAB 0-0 1-2 2-1 (source word - target word, from 0).
    batch
        Lines computed together (default: 64; 256 on a GPU if the model writes token by token).
    as_json
        Print one JSON object per line: translation, score (null if not finite), truncated, parts, looped; and n_best,
        alignment, align_head and unmet if requested.
    """
    options = {
        "beam": beam, "length_penalty": length_penalty, "n_best": n_best, "sample": sample or mbr is not None,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "batch": batch, "iterations": iterations, **length_options(length), **search_options(control),
    }  # fmt: skip
    check_folder(output)
    if input.startswith("--"):  # the parser takes a lone unknown word for the name of a file
        raise OptionError(
            f"translate has no such option, got {input}",
            hint=f"translate --help lists all; a file of this name is ./{input}",
        )
    refuse_same(output, input)
    if input == control.prefixes == "-":
        raise OptionError("standard input is read once, got - as --input and as --prefixes")
    wishes = wishes_of_lines(control)
    translator = load_models(model, others, judges, device, precision)
    if seed is not None and not options["sample"] and translator.model.config.causal:
        raise OptionError(f"--seed is that of samples, got {seed} without --sample or --mbr")
    search = translator.search(**{name: value for name, value in options.items() if value is not None})
    reading = choose_reading(model, translator, align_head) if align or align_head else None
    invite(input, "type a sentence and press Enter to have it translated; Ctrl-D ends")
    run(translator, search, input, output, wishes, as_json, mbr, reading)


def run(
    translator: Any, search: Any, source: str, output: str, wishes: Any, as_json: bool, mbr: int | None, reading: Any
) -> None:
    from manyheads.decoding.batching import CHUNK
    from manyheads.decoding.bayes import translate_by_agreement
    from manyheads.text.lines import read_texts

    chunk = 1 if is_typed(source) else CHUNK  # a person who types waits for an answer
    lines = read_texts(source)
    how: dict[str, Any] = {"chunk": chunk, "align": reading, "wishes": wishes}
    found = (
        translator.translate(lines, search, **how)
        if mbr is None
        else translate_by_agreement(translator, lines, mbr, search, **how)
    )
    odd: Counter[str] = Counter()
    seen = chunk == 1 or (output == "-" and sys.stdout.isatty())
    with open_output(output, flush=chunk == 1) as write, counted("lines translated", seen=seen) as count:
        for number, line in enumerate(found, 1):
            count(number)
            if as_json:
                write(json.dumps(as_object(line, search.outputs, reading, wished=bool(wishes)), ensure_ascii=False))
            else:
                write(as_text(number, line, search.outputs))
            odd.update(oddities(line))
    for name, what in ODD.items():
        say(odd[name], what if translator.model.config.causal else what.partition(" (")[0])


def oddities(line: Any) -> list[str]:
    is_it = {
        "parts": line.parts > 1, "truncated": line.truncated, "looped": line.looped, "not finite": not line.finite,
        "unmet": line.unmet,
    }  # fmt: skip
    return [name for name, so in is_it.items() if so]


def as_text(number: int, line: Any, n_best: int) -> str:
    if n_best == 1:
        return line.text + aligned(line.n_best[0])
    ranked = enumerate(line.n_best, 1)
    return "\n".join(f"{number}\t{rank}\t{one.score:.4f}\t{one.text}{aligned(one)}" for rank, one in ranked)


def aligned(one: Any) -> str:
    """The column of links, with the tab before it; empty if no alignment was requested."""
    return "" if one.alignment is None else f"\t{moses(one.alignment)}"


def as_object(line: Any, n_best: int, reading: Any, wished: bool) -> dict[str, Any]:
    best, whole = line.n_best[0], {"truncated": line.truncated, "parts": line.parts, "looped": line.looped}
    found = {**as_alternative(best), **whole}
    if wished:
        found["unmet"] = line.unmet
    if reading:
        found["align_head"] = str(reading)
    return found if n_best == 1 else {**found, "n_best": [as_alternative(one) for one in line.n_best]}


def as_alternative(one: Any) -> dict[str, Any]:
    found = {"translation": one.text, "score": finite(round(one.score, 4))}
    return found if one.alignment is None else {**found, "alignment": one.alignment}
