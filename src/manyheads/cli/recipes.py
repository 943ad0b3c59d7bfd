"""`manyheads recipes`: list the presets, print one, explain keys."""

from typing import Annotated

import tomli_w
from cyclopts import App, Parameter
from rich.table import Table

from manyheads.cli.options import Out
from manyheads.errors import OptionError, nearest
from manyheads.recipe import load_recipe, recipe_names

__all__ = ["app", "keys", "list_recipes", "show"]

app = App(
    name="recipes",
    help="""List the presets, print a recipe, or explain its keys.

```
manyheads recipes
manyheads recipes show paper/base
manyheads recipes keys train.rdrop
```
""",
)


@app.default
def list_recipes() -> None:
    """List every preset with a short description."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in recipe_names():
        table.add_row(name, load_recipe(name).description)
    Out().print(table)


@app.command
def show(name: str, /) -> None:
    """Print a recipe as TOML, with defaults written out.

    A key that is missing from the output follows from the others.

    Parameters
    ----------
    name
        A preset or a TOML file.
    """
    print(tomli_w.dumps(load_recipe(name).as_tables()), end="")  # noqa: T201


@app.command
def keys(word: Annotated[str, Parameter(show_default=False)] = "", /) -> None:
    """Explain the keys of a recipe: default, possible values and meaning.

    Parameters
    ----------
    word
        A section (train), a key (train.rdrop, task) or part of a name (dropout); without it, all keys.
    """
    from manyheads.keys import as_text, every_key, find_keys

    found = find_keys(word) if word else every_key()
    if not found:
        names = {name for key in every_key() for name in (key.name, key.full_name)}
        raise OptionError(
            f"a key of a recipe, or a part of its name, is needed, got {word!r}",
            hint=nearest(word, names) or "`manyheads recipes keys` lists all of them",
        )
    width = min(Out().width, 100)
    print("\n".join(as_text(key, width) for key in found))  # noqa: T201
