"""`manyheads recipes`: the presets, and what is in them."""

import tomli_w
from cyclopts import App
from rich.table import Table

from manyheads.cli.options import Out
from manyheads.recipe import load_recipe, recipe_names

__all__ = ["app", "list_recipes", "show"]

app = App(
    name="recipes",
    help="""The presets, and what is in them.

```
manyheads recipes
manyheads recipes show paper/base
```
""",
)


@app.default
def list_recipes() -> None:
    """List every preset with a sentence about it."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in recipe_names():
        table.add_row(name, load_recipe(name).description)
    Out().print(table)


@app.command
def show(name: str, /) -> None:
    """Print a recipe as TOML, defaults written out; what is not there follows from what is.

    Parameters
    ----------
    name
        A preset or a TOML file.
    """
    print(tomli_w.dumps(load_recipe(name).as_tables()), end="")  # noqa: T201
