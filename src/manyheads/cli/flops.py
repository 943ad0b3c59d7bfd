"""`manyheads flops`: what a recipe costs, by part."""

import json
from typing import Annotated, Any

from cyclopts import Parameter, validators
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from manyheads.cli.changes import parse_changes
from manyheads.cli.options import Out, whole_number
from manyheads.errors import OptionError
from manyheads.models.cost import PARTS, Cost, transformer_cost
from manyheads.recipe import load_recipe

__all__ = ["flops"]


Count = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=10_000_000), converter=whole_number)]


def flops(
    recipe: str,
    /,
    *,
    batch: Count = 1,
    length: Count = 50,
    target_length: Count | None = None,
    set: Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=False, show_default=False)] = (),  # noqa: A002
    as_json: Annotated[bool, Parameter(name="--json", negative=(), show_default=False)] = False,
) -> None:
    """Parameters and multiply-adds of one forward pass, by part.

    ```
    manyheads flops paper/base
    manyheads flops base --batch 64 --length 30 --set model.layers=12 --json
    ```

    Parameters
    ----------
    recipe
        A preset (`manyheads recipes` lists them) or a TOML file.
    batch
        Sentence pairs.
    length
        Source tokens in each.
    target_length
        Target tokens in each, if not as many.
    set
        Change a key of the recipe; repeat it for more: --set model.width=256 --set model.layers=3.
    as_json
        One JSON object instead of a table.
    """
    chosen = load_recipe(recipe, parse_changes(set))
    if chosen.task != "translate":
        raise OptionError(f"what is counted is an encoder-decoder, got {recipe}, whose task is {chosen.task!r}")
    target = target_length or length
    cost = transformer_cost(
        chosen.transformer, chosen.data.vocabulary, batch=batch, source_length=length, target_length=target
    )
    if as_json:
        print(json.dumps(as_object(recipe, cost, batch, length, target)))  # noqa: T201
    else:
        print_whole(as_table(recipe, chosen.data.vocabulary, cost, batch, length, target))


def print_whole(table: Table) -> None:
    """Figures are never cut: on a screen that is too narrow, lines wrap."""
    console = Out()
    console.width = max(console.width, Measurement.get(console, console.options.update(width=10_000), table).maximum)
    console.print(table)


def as_object(recipe: str, cost: Cost, batch: int, source: int, target: int) -> dict[str, Any]:
    counts = {"parameters": cost.parameters, "multiply_adds": cost.multiply_adds}
    parts = {
        name: {part.replace(" ", "_").replace("-", "_"): count[part] for part in PARTS} | {"total": count.total()}
        for name, count in counts.items()
    }
    return {"recipe": recipe, "batch": batch, "source_length": source, "target_length": target, **parts}


def as_table(recipe: str, words: int, cost: Cost, batch: int, source: int, target: int) -> Table:
    table = Table(
        title=f"{escape(recipe)}: {batch} × ({source} → {target}) tokens, vocabulary {words:,}",
        caption="one forward pass, every score counted, masked or not;\na training step costs three; a multiply-add is 2 flops",
    )
    table.add_column("part")
    for column in ("parameters", "%", "multiply-adds", "%"):
        table.add_column(column, justify="right")
    for part in PARTS:
        table.add_row(part, *figures(cost.parameters[part], cost.parameters.total()),
                      *figures(cost.multiply_adds[part], cost.multiply_adds.total()))  # fmt: skip
    table.add_section()
    table.add_row("total", f"{cost.parameters.total():,}", "", f"{cost.multiply_adds.total():,}", "")
    return table


def figures(count: int, total: int) -> tuple[str, str]:
    return (f"{count:,}", f"{100 * count / total:.1f}") if count else ("–", "")
