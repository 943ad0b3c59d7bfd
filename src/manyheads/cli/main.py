"""The command `manyheads`. Each verb is a file in this folder, and imports torch only when it needs it.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 usage or input refused,
130 or 143 stopped by a signal after saving.
"""

import io
import os
import re
import signal
import sys

from cyclopts import App, CycloptsError

from manyheads import __version__
from manyheads.cli.align import align
from manyheads.cli.average import average
from manyheads.cli.classify import classify
from manyheads.cli.compare import compare
from manyheads.cli.data import app as data
from manyheads.cli.demo import demo
from manyheads.cli.embed import embed
from manyheads.cli.evaluate import evaluate
from manyheads.cli.export import export
from manyheads.cli.flops import flops
from manyheads.cli.generate import generate
from manyheads.cli.importing import import_model
from manyheads.cli.inspect import inspect
from manyheads.cli.mistakes import explain
from manyheads.cli.options import Screen
from manyheads.cli.recipes import app as recipes
from manyheads.cli.score import score
from manyheads.cli.serve import serve
from manyheads.cli.train import train
from manyheads.cli.translate import translate
from manyheads.errors import ManyheadsError
from manyheads.waiting import wait_asleep

__all__ = ["app", "main"]

STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)


app = App(
    name="manyheads",
    version=__version__,
    help_format="markdown",
    console=Screen(),
    help="""Train Transformers, translate with them, score them and look inside.

```
manyheads demo
manyheads train small --train pairs.tsv --out runs/mine
echo "Ein Hund schläft." | manyheads translate de-en
```

`manyheads COMMAND --help` explains a command.

Results go to standard output, everything else to standard error. Exit status: 0 done, 1 failed, 2 usage or input
refused, 130 or 143 training stopped by Ctrl-C or SIGTERM after saving.
""",
)
for verb in (
    demo,
    train,
    translate,
    evaluate,
    compare,
    score,
    align,
    inspect,
    serve,
    data,
    average,
    embed,
    classify,
    generate,
    export,
    flops,
    recipes,
):
    app.command(verb)
app.command(import_model, name="import")


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and exit."""
    wait_asleep()
    try:
        run(arguments)
    except SystemExit as end:
        if end.code in STOPPED:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # everything is saved and reported: ignore another Ctrl-C
        leave_others(end.code)
        raise
    leave_others(0)


def leave_others(status: object) -> None:
    """End this process at once if it is one of several; a process that never joined others ends as Python does."""
    team = sys.modules.get("manyheads.team")  # not imported here: it needs torch, which most commands do without
    if team is not None and team.several():
        team.leave(status if isinstance(status, int) else status is not None)


def run(arguments: list[str] | None) -> None:
    """Run a command line; print errors as one sentence and a hint on stderr, never as a traceback."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the process that started this one
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without × shows ?
    words = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            app(named_stdin(words), exit_on_error=False, print_error=False)
        finally:
            sys.stdout.flush()  # here, where a failure is handled below
    except CycloptsError as error:
        fail(*explain(error), 2)
    except ManyheadsError as error:
        if error.said:  # already printed by the first of several processes
            sys.modules["manyheads.team"].let_the_first_speak()
            sys.exit(error.status)
        fail(as_typed(error.message, words), error.hint, error.status)
    except BrokenPipeError:  # the reader of the output is gone, as in `manyheads … | head -1`: nothing is wrong
        forget_output()
    except OSError as error:  # from writing the output: all others are caught where they arise
        forget_output()
        fail(f"the output could not be written: {error.strerror or error}", None, 1)


def as_typed(message: str, words: list[str]) -> str:
    """A message with options named as they are typed, --n-best instead of n_best.

    A name of one word may also be an ordinary word of the sentence: it is replaced only at the start, and only if the
    option was typed.
    """
    typed = {word.partition("=")[0] for word in words}
    for option in options_of(words):
        name = option.removeprefix("--").replace("-", "_")
        if "_" in name:
            message = re.sub(rf"(?<![\w./=-]){re.escape(name)}(?![\w./=-])", option, message)
        elif option in typed and message.startswith(f"{name} "):
            message = option + message.removeprefix(name)
    for name, option in OTHERWISE:
        if option in typed and message.startswith(f"{name} "):
            message = option + message.removeprefix(name)
    return message


OTHERWISE = (("stretch", "--length"), ("sample", "--mbr"))
"""Names in Python that differ from the option, or follow from another one: (name, option)."""


def options_of(words: list[str]) -> list[str]:
    """The options of the command that was typed."""
    *_, command = app.parse_commands(words)[1]
    return [name for argument in command.assemble_argument_collection() for name in argument.names if name[:2] == "--"]


OUTPUTS = ("--out", "--removed")


def named_stdin(words: list[str]) -> list[str]:
    """The words with "-" as /dev/stdin: among several files the parser would take "-" for an option."""
    if words[:1] in (["translate"], ["inspect"]):
        return words
    before = ["", *words]
    return ["/dev/stdin" if word == "-" and before[n] not in OUTPUTS else word for n, word in enumerate(words)]


def forget_output() -> None:
    """Send the rest of the output to nowhere; otherwise Python would try to write it again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, hint: str | None, status: int) -> None:
    print(f"error: {message}" + (f"\n\nhint: {hint}" if hint else ""), file=sys.stderr)  # noqa: T201
    sys.exit(status)
