"""Explain what is wrong with a command line where the parser's own message would not help."""

from cyclopts import CycloptsError
from cyclopts.exceptions import ConsumeMultipleError, MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from manyheads.recipe import SECTIONS, TASKS, homes_of

__all__ = ["explain"]

INSTEAD = {
    "translate": 'a file and --output FILE, or a sentence: echo "Ein Hund schläft." | manyheads translate MODEL',
    "inspect": 'give the sentence with --text "Ein Hund schläft."',
    "train": "give files of pairs with --train",
    "evaluate": "give files of pairs with --data",
    "score": "give files of pairs with --data",
    "compare": "give files of pairs with --data",
}
"""For each verb, the right way to give an argument that people tend to give without an option."""


CHANGING = ("train", "flops")
"""The verbs that take --set."""


def explain(error: CycloptsError) -> tuple[str, str]:
    """(what was wrong, what to do about it)"""
    chain = error.command_chain or ()
    command, verb = " ".join(["manyheads", *chain]), chain[-1] if chain else ""
    shown = f"`{command} --help` shows what it takes"
    match error:
        case ConsumeMultipleError():
            return f"{name_of(error)} takes at least one value, got none", shown
        case MissingArgumentError() if error.keyword is None and error.argument and error.argument.name[:2] == "--":
            told = INSTEAD.get(verb, shown)
            return f"{command} needs {error.argument.name}, got none", told if error.argument.name in told else shown
        case UnusedCliTokensError():
            return f"{command} takes no such argument, got {(error.unused_tokens or [''])[0]!r}", INSTEAD.get(
                verb, shown
            )
        case UnknownOptionError():
            key = (error.token.keyword or error.token.value).removeprefix("--").partition("=")[0].replace("-", "_")
            home = home_of(key) if verb in CHANGING else None
            return str(error), f"a key of a recipe is changed by --set {home}" if home else shown
    return str(error), shown


def name_of(error: MissingArgumentError) -> str:
    return error.keyword or (error.argument.name if error.argument else "an option")


def home_of(key: str) -> str | None:
    """`train.steps=…` for "steps", if it is a key of a recipe."""
    homes = homes_of(key, {"model": TASKS["translate"].model, **SECTIONS})
    return f"{homes[0]}.{key}=…" if homes else None
