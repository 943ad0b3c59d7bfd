"""Every key of a recipe: its meaning, its values and its default.

All of this is read off the sections themselves (settings.py, models/config.py) and off Recipe, so that there is no
second list.
Nothing here imports torch.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_type_hints

from manyheads.recipe import SECTIONS, TASKS, Recipe
from manyheads.rules import IDLE, UNUSED
from manyheads.sections import Section, describe

__all__ = ["Key", "as_markdown", "as_text", "every_key", "find_keys"]

ENTRY = re.compile(r"(?P<names>[a-z_]+(?:, [a-z_]+)*)(?:\s{2,}(?P<meaning>\S.*))?")
"""A line of a docstring where a key begins: one name, or several with the same meaning, then a column of text."""


@dataclass(frozen=True)
class Key:
    """A key of a recipe.

    section    its section; "" for a key at the top of a file
    values     its possible values, in words
    default    its default in each task: a language model and a translator differ
    """

    section: str
    name: str
    values: str
    default: dict[str, Any]
    meaning: str

    @property
    def full_name(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in which the key means something."""
        return tuple(self.default)


def every_key() -> list[Key]:
    return [*keys_at_the_top(), *(key for section in ("model", *SECTIONS) for key in keys_of(section))]


def find_keys(word: str) -> list[Key]:
    """The keys of a section ("train"), one key ("train.rdrop", "task"), or all whose name contains the word."""
    known = every_key()
    exact = [key for key in known if word in (key.section, key.full_name)]
    return exact or [key for key in known if word in key.full_name]


def keys_at_the_top() -> Iterator[Key]:
    """The keys of a recipe before its first section."""
    defaults = {name: field.default for name, field in Recipe.__dataclass_fields__.items()}
    values = {"task": f"one of {', '.join(map(repr, TASKS))}"}
    for name, meaning in parse(Recipe.__doc__ or "").items():
        yield Key("", name, values.get(name, "text"), dict.fromkeys(TASKS, defaults.get(name, "")), meaning)


def keys_of(section: str) -> Iterator[Key]:
    kinds = {task: kind.tables[section] for task, kind in TASKS.items() if section in kind.tables}
    names = dict.fromkeys(name for kind in kinds.values() for name in kind.__dataclass_fields__)  # type: ignore[attr-defined]
    for name in names:
        alike: dict[tuple[str, str], dict[str, Any]] = {}  # its meaning may depend on the task
        for task, kind in kinds.items():
            field = kind.__dataclass_fields__.get(name)  # type: ignore[attr-defined]
            if field is not None and f"{section}.{name}" not in (*IDLE[task], *UNUSED[task]):
                alike.setdefault((values_of(kind, name), meaning_of(kind, name)), {})[task] = field.default
        for (values, meaning), default in alike.items():
            yield Key(section, name, values, default, meaning)


def values_of(kind: type[Section], name: str) -> str:
    words = describe(get_type_hints(kind)[name])
    bounds = kind.__dataclass_fields__[name].metadata.get("bounds")  # type: ignore[attr-defined]
    return words if bounds is None else f"{words}, {bounds[0]:,} to {bounds[1]:,}"


def meaning_of(kind: type[Section], name: str) -> str:
    """The meaning of a key in the docstring of the class, or of the nearest base class that explains it."""
    for one in inspect.getmro(kind):
        if name in (meanings := parse(one.__doc__ or "")):
            return meanings[name]
    return ""


def parse(docstring: str) -> dict[str, str]:
    """Each key of a docstring and its meaning.

    An indented line continues the one before; a key without text means the same as the key before.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []  # those of the latest key
    for line in inspect.cleandoc(docstring).splitlines():
        entry = ENTRY.fullmatch(line)
        if entry and (entry["meaning"] or lines):
            lines = [entry["meaning"]] if entry["meaning"] else lines
            found |= dict.fromkeys(entry["names"].split(", "), lines)
        elif line.startswith(" ") and lines:
            lines.append(line.strip())
        else:
            lines = []
    return {name: " ".join(lines) for name, lines in found.items()}


def as_text(key: Key, width: int) -> str:
    """A key as text for a terminal, wrapped to `width`."""
    default = defaults_in_words(key)
    head = f"{key.full_name} = {default}" if default != "–" else key.full_name
    told = textwrap.fill(
        key.meaning + told_of(key).replace("*", ""), width, initial_indent="    ", subsequent_indent="    "
    )
    return f"{head}   [{key.values}]\n{told}"


def as_markdown() -> str:
    """The text of docs/reference/recipe.md."""
    known = every_key()
    parts = [HEAD]
    for section in dict.fromkeys(key.section for key in known):
        heading = f"## [{section}]" if section else TOP
        parts.append(f"\n{heading}\n\n| key | default | values | meaning |\n|---|---|---|---|\n")
        parts.extend(as_row(key) for key in known if key.section == section)
    return "".join(parts)


def as_row(key: Key) -> str:
    cells = (f"`{key.name}`", defaults_in_words(key, "`"), key.values, key.meaning + told_of(key))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def defaults_in_words(key: Key, quote: str = "") -> str:
    """The default, or the defaults of all tasks if they differ."""
    by_value: dict[str, list[str]] = {}
    for task, value in key.default.items():
        by_value.setdefault(in_toml(value), []).append(task)
    if len(by_value) == 1:
        return next(f"{quote}{value}{quote}" if value else "–" for value in by_value)
    return "; ".join(f"{quote}{value}{quote} ({', '.join(tasks)})" for value, tasks in by_value.items())


def told_of(key: Key) -> str:
    """The tasks that the key is for, unless it is for all of them."""
    return "" if len(key.tasks) == len(TASKS) else f" *({', '.join(key.tasks)})*"


def in_toml(value: Any) -> str:
    match value:
        case None | "":
            return ""
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case tuple():
            return str(list(value))
    return str(value)


HEAD = textwrap.dedent(
    """\
    # Every key of a recipe

    A recipe is a TOML file; `--set section.key=value` changes one key for one run. `manyheads recipes show NAME` prints
    a preset with all its keys, `manyheads recipes keys train` the part of this page about `[train]`. A key that is not
    for all tasks is followed by its tasks in brackets. This page is made by `make reference`.
    """
)

TOP = textwrap.dedent(
    """\
    ## At the top

    These keys stand in a file before its first section; `--set` does not change them."""
)

if __name__ == "__main__":
    print(as_markdown(), end="")  # noqa: T201
