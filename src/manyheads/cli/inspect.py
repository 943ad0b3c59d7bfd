"""`manyheads inspect`: what every head of a model did with one sentence."""

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
    """Show what every head of a model did with a text: as a page, a picture, numbers, or here in the terminal.

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

    A model that translates is looked at while it does; an encoder alone, while it reads; a language model, while it goes on with the text. Of one that writes
    all tokens at once, every iteration is shown, or the graph that it reads. Reports on heads, comparisons and replays are of models that translate token by
    token.

    Parameters
    ----------
    text
        What the model reads; without it, a line of standard input, or the first pair of the data.
    target
        What the model is made to write, and one that it is compared with; without it, what they write by themselves. A language
        model writes it right behind the text, as it is; without a text, it is a text that is only read.
    data
        Pairs to report on every head with: its role, and what is lost without it (translations are greedy, unless
        --beam says otherwise). A file (TSV, JSONL, TMX, PO), or a source file and a target file.
    limit
        How many of these pairs, spread evenly over all (default: 100).
    html
        A page to explore every head in; one file that needs no network.
    png
        A picture. It needs matplotlib: pip install 'manyheads[inspect]'.
    svg
        The same, for print.
    as_json
        All weights: schema, source, target, translation, score, attention{encoder, decoder, cross} as lists of
        [layer][head][query][key], as far as a model has them, and with --data the report on heads; of a model that writes all at once
        also tries, every length and iteration, or the graph. A single dash is standard output.
    compare
        A second model for the page, side by side with the first: a run, a bundled model, or a checkpoint of a run
        (RUN/checkpoints/step-N).
    compare_text
        What the second reads; without it, the same.
    compare_off
        Heads that the second goes without: KIND:LAYER:HEAD, such as cross:3:1.
    replay
        Instead of a text: the pair that a run looked at while it was trained, and on the page what every head did with it at
        each validation.
    term
        A heat map in the terminal, the iterations, or the report; what is shown when no file is asked for.
    view
        What a picture shows: matrix, map (every head) or lines; with --data, heads; of a model that writes all at once, iterations.
    attention
        Of which attention a matrix or lines are: encoder, decoder or cross (default: cross, or the one that a model has).
    layer
        Counted from 0; by default the one that tells best which words belong together, or the last.
    head
        Counted from 0; by default the mean of the layer's heads.
    pieces
        Show pieces instead of words.
    part
        A long text is read sentence by sentence; which of them.
    tokens
        How many a language model writes, always the likeliest (default: 12).
    lengths
        Of a model that predicts how long a translation is: how many lengths are tried.
    iteration
        Of a model that writes all at once: whose attention is shown, counted from 1 (default: the last).
    attribution
        What a page has beside attention, several times if wanted: leave-one-out, integrated-gradients. It has
        gradient-x-input and value-zeroing where they take no time, or if they are asked for.
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
        raise OptionError(f"a report on heads is of pairs of lines, got {asked} without --data", hint="--data dev.tsv")
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
        print(f"the text is read in {found.parts} parts; this is part {part}: --part shows another", file=sys.stderr)  # noqa: T201
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
    """Those that were."""
    return {name: value for name, value in options.items() if value is not None}


def check_translates(subject: Any, name: str, place: str) -> Any:
    from manyheads.decoding.parallel_translator import ParallelTranslator
    from manyheads.decoding.translator import Translator

    if not isinstance(subject, Translator):
        raise OptionError(f"--{name} is of models that translate, got {place}", hint="--text and --html show it, too")
    if isinstance(subject, ParallelTranslator):
        raise OptionError(
            f"--{name} is of models that write token by token, got {place}, which writes all at once",
            hint="--text and --html show it, too",
        )
    return subject


def read_head(text: str) -> tuple[str, int, int]:
    """cross:3:1"""
    kind, *numbers = text.split(":")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise OptionError(
            f"a head that is switched off is KIND:LAYER:HEAD, got {text!r}", hint="--compare-off cross:3:1"
        )
    return kind, int(numbers[0]), int(numbers[1])


def first_pair(translator: Any, pairs: list[tuple[str, str]], target: str | None) -> tuple[str, str | None]:
    """The first that is read in one part, and what it is to be translated as."""
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
