"""`manyheads inspect`: what every head of a model does with one text, or over a set of pairs."""

import json
import sys
import warnings
from typing import Annotated, Any

from cyclopts import Parameter

from manyheads.cli.headtable import LIMIT, report_on, show_report
from manyheads.cli.options import Beam, Device, File, Files, Iterations, Length, Model, Out, Whole
from manyheads.cli.output import check_folder, standard_output
from manyheads.decoding.said_length import length_options
from manyheads.errors import OptionError, not_written

__all__ = ["inspect"]

Text = Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)]
Path = Annotated[File | None, Parameter(show_default=False)]
Place = Annotated[Whole | None, Parameter(show_default=False)]


def inspect(
    model: Model,
    /,
    *,
    text: Text = "",
    target: Annotated[str | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    data: Files = (),
    limit: Whole | None = None,
    html: Path = None,
    png: Path = None,
    svg: Path = None,
    as_json: Annotated[File | None, Parameter(name="--json", show_default=False)] = None,
    compare: Annotated[str | None, Parameter(show_default=False)] = None,
    compare_text: Annotated[str | None, Parameter(allow_leading_hyphen=True, show_default=False)] = None,
    compare_off: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=1, show_default=False)] = (),
    replay: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    term: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    view: str = "matrix",
    attention: Annotated[str | None, Parameter(show_default=False)] = None,
    layer: Place = None,
    head: Place = None,
    pieces: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    part: Whole = 1,
    tokens: Annotated[Whole | None, Parameter(show_default=False)] = None,
    beam: Beam = None,
    iterations: Iterations = None,
    length: Length = None,
    lengths: Annotated[Whole | None, Parameter(show_default=False)] = None,
    iteration: Annotated[Whole | None, Parameter(show_default=False)] = None,
    attribution: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    device: Device = "auto",
) -> None:
    """Show what every attention head of a model does with a text.

    ```
    manyheads inspect de-en --text "Ein Hund schläft."
    manyheads inspect runs/de-en --text "Ein Hund schläft." --html look.html
    manyheads inspect de-en --text "Ein Hund schläft." --target "A dog is asleep." --png heads.png --view map
    manyheads inspect de-en --text "Ein Hund schläft." --html both.html --compare-off cross:3:1
    manyheads inspect runs/mine --replay --html replay.html
    manyheads inspect de-en --data dev.tsv --html heads.html
    manyheads inspect runs/minilm --text "A dog is asleep." --html look.html
    manyheads inspect runs/gpt2 --text "Once upon a" --tokens 20 --html look.html
    manyheads inspect runs/parallel --text "Ein Hund schläft." --iterations 4
    ```

    The result is a page, a picture, numbers, or a heat map in the terminal. A translator is shown while it
    translates, an encoder while it reads, a language model while it continues the text. Of a model that writes all
    tokens at once, every iteration is shown, or the graph that it reads. --data, --compare and --replay are for
    models that translate token by token.

    Parameters
    ----------
    text
        Text for the model to read (default: a line of standard input, or with --data the first pair).
    target
        Text that the model is made to write, and with --compare the second model too (default: what each writes by
        itself). For a language model it follows --text directly; without --text, it is only read. (In `evaluate` and
        other commands, --target is the name of a language or a key.)
    data
        Pairs for a report on every head: its role, and what is lost without it. A file (TSV, JSONL, TMX, PO), or a
        source file and a target file. Translations are greedy unless --beam is given.
    limit
        Pairs of --data to use, spread evenly over all of them (default: 100).
    html
        Page to write, to explore every head; a single file that needs no network.
    png
        Picture to write; needs matplotlib: pip install 'manyheads[inspect]'.
    svg
        Picture to write, for print; needs matplotlib, too.
    as_json
        File for one JSON object (- is standard output; in other commands, --json takes no file name): schema, source,
        target, translation, score, log_probability, forced (whether the target was given), steps, attention{encoder,
        decoder, cross} as lists of [layer][head][query][key], as far as the model has them; with --data also heads,
        the report; a language model has continuation and given in place of source and translation; a model that writes
        all tokens at once also has writes, part, parts, read, iteration, and tries (every length and iteration) or
        graph.
    compare
        Second model for the page, side by side with the first: a run folder, a bundled model or a checkpoint of a run
        (RUN/checkpoints/step-N).
    compare_text
        Text for the second side of a comparison (default: the same text).
    compare_off
        Head to switch off on the second side of a comparison, as KIND:LAYER:HEAD (cross:3:1); may be repeated.
    replay
        Show the pair that a run followed during training instead of a text; the page has what every head did with it at
        each validation.
    term
        Show a heat map, the iterations or the report in the terminal (default if no file is requested).
    view
        What a picture shows: matrix, lines or map (every head); heads, with --data; iterations, for a model that
        writes all tokens at once.
    attention
        Attention that a matrix or lines show: encoder, decoder or cross (default: cross, or the one that the model
        has).
    layer
        Layer, counted from 0 (default: the one that aligns words best, or the last).
    head
        Head, counted from 0 (default: the mean of the layer's heads).
    pieces
        Show pieces instead of words.
    part
        Part of a long text to show, counted from 1; long texts are read sentence by sentence.
    tokens
        For language models: tokens to write, always the likeliest (default: 12).
    lengths
        For models that predict the length of a translation: number of lengths to try (default: from the model's
        recipe).
    iteration
        For models that write all tokens at once: iteration whose attention is shown, counted from 1 (default: the
        last).
    attribution
        Attribution to add to the page, beside attention: leave-one-out or integrated-gradients; may be repeated.
        gradient-x-input and value-zeroing are there anyway where they are quick to compute, and elsewhere if named.
    """
    for path in filter(None, (html, svg, png, as_json)):
        check_folder(path)
    if replay and html is None:
        raise OptionError("a replay is shown by a page, got --replay without --html", hint="--html replay.html")
    if replay and any((text, target, compare, compare_text, compare_off)):
        raise OptionError("a replay has a text and a target of its own: it goes without --text, --target and --compare")
    comparing, off = bool(compare or compare_text or compare_off), [read_head(one) for one in compare_off]
    if comparing and (html is None or any((svg, png, as_json, term))):
        raise OptionError("a comparison is a page: it goes with --html alone", hint="--html both.html")
    if (limit is not None or view == "heads") and not data:
        asked = "--limit" if limit is not None else "--view heads"
        raise OptionError(f"a report on heads needs pairs, got {asked} without --data", hint="--data dev.tsv")
    from manyheads.generation.writer import Writer
    from manyheads.inspection.api import WrittenAtOnce
    from manyheads.inspection.api import inspect as inspect_text
    from manyheads.inspection.comparison import open_model
    from manyheads.inspection.inspected import Translated
    from manyheads.inspection.iterationlines import draw_at_once
    from manyheads.inspection.plane import choose_plane
    from manyheads.inspection.switches import Head
    from manyheads.inspection.terminal import draw_plane
    from manyheads.report.markup import visible

    if attribution and html is None:
        raise OptionError(f"an attribution is shown by a page, got --attribution {attribution[0]} without --html")
    options: dict[str, Any] = given(
        beam=beam, tokens=tokens, iterations=iterations, lengths=lengths, iteration=iteration, **length_options(length)
    )
    subject, report = open_model(model, device), None
    for name in given(data=data or None, replay=replay or None, compare=comparing or None):
        check_translates(subject, name, model)
    if data:
        report, pairs = report_on(subject, data, LIMIT if limit is None else limit, options)
        text, target = (text, target) if text or replay else first_pair(subject, pairs, target)
    text = text or ("" if replay or (isinstance(subject, Writer) and target is not None) else read_line())
    more = given(part=None if part == 1 else part, replay=replay or None, report=report)
    found = inspect_text(subject, text, target, **options, **more)
    if isinstance(found, Translated) and found.parts > 1:
        print(f"the text is read in {found.parts} parts; this is part {part}: --part N shows another", file=sys.stderr)  # noqa: T201
    if comparing and html is not None:
        second = check_translates(open_model(compare, device), "compare", compare) if compare else subject
        options |= {"off": [Head(*one) for one in off], "part": 1 if compare_text else part}
        other = inspect_text(second, compare_text or text, target, **options)
        write(found.compare(other), html, "html", {})
        return
    place: dict[str, Any] = {"kind": attention, "layer": layer, "head": head, "pieces": pieces}
    picture = {"view": view, **({"map": {"pieces": pieces}, "heads": {}, "iterations": {}}.get(view, place))}
    for path, form in ((html, "html"), (svg, "svg"), (png, "png"), (as_json, "json")):
        if path is not None:
            write(found, path, form, {"attribution": attribution} if form == "html" else picture)
    if not term and any((html, svg, png, as_json)):
        return
    if report is not None:
        show_report(Out(), report)
    else:
        console, chosen = Out(), any(value is not None for value in (attention, layer, head))
        at_once = found if isinstance(found, WrittenAtOnce) and not chosen else None
        plane = None if at_once else choose_plane(found, **place)
        for line in found.texts:
            console.print(visible(line), markup=False)
        if at_once:
            draw_at_once(console, at_once)
        elif plane:
            draw_plane(console, plane)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def check_translates(subject: Any, name: str, place: str) -> Any:
    from manyheads.decoding.parallel_translator import ParallelTranslator
    from manyheads.decoding.translator import Translator

    if not isinstance(subject, Translator):
        raise OptionError(f"--{name} is for models that translate, got {place}", hint="--text and --html show it, too")
    if isinstance(subject, ParallelTranslator):
        raise OptionError(
            f"--{name} is for models that write token by token, got {place}, which writes all at once",
            hint="--text and --html show it, too",
        )
    return subject


def read_head(text: str) -> tuple[str, int, int]:
    """Parse KIND:LAYER:HEAD: "cross:3:1" is ("cross", 3, 1)."""
    kind, *numbers = text.split(":")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise OptionError(
            f"a head that is switched off is KIND:LAYER:HEAD, got {text!r}", hint="--compare-off cross:3:1"
        )
    return kind, int(numbers[0]), int(numbers[1])


def first_pair(translator: Any, pairs: list[tuple[str, str]], target: str | None) -> tuple[str, str | None]:
    """(the source of the first pair that is read in one part, its target unless another one is given)"""
    source, reference = next((pair for pair in pairs if len(translator.read([pair[0]])[0]) == 1), (pairs[0][0], None))
    return source, target or reference


def read_line() -> str:
    if sys.stdin.isatty():
        raise OptionError("an inspection needs a text to read, got none", hint='--text "Ein Hund schläft."')
    return sys.stdin.readline().rstrip("\n")


def write(found: Any, path: str, form: str, how: dict[str, Any]) -> None:
    if path == "-" and form == "json":
        with standard_output() as file:
            print(json.dumps(found.as_json(), ensure_ascii=False), file=file)
        return
    if not path.lower().endswith(f".{form}"):
        raise OptionError(f"--{form} names a file that ends in .{form}, got {path!r}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found.save(path, **(how if form != "json" else {}))
        except OSError as error:
            raise not_written(path, error) from None
    for line in (path, *(str(one.message) for one in said)):
        print(line, file=sys.stderr)  # noqa: T201
