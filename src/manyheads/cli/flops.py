"""`manyheads flops`: the cost of a recipe or a model, by part."""

import json
from typing import Annotated, Any

from cyclopts import Parameter, validators
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from manyheads.cli.changes import parse_changes
from manyheads.cli.options import Out, whole_number
from manyheads.errors import OptionError
from manyheads.models.config import LanguageModelConfig, ParallelConfig, StackConfig, TransformerConfig
from manyheads.models.cost import PARTS, Cost, encoder_cost, language_model_cost, parallel_cost, transformer_cost
from manyheads.recipe import Recipe, change_recipe, load_recipe, recipe_names

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
    """Count the parameters and multiply-adds of a model, by part.

    ```
    manyheads flops paper/base
    manyheads flops base --batch 64 --length 30 --set model.layers=12 --json
    manyheads flops lm/small --length 256
    manyheads flops de-en
    ```

    One forward pass is counted: of an encoder alone, up to the vectors of its tokens; of a model that writes all
    tokens at once, the first iteration.

    Parameters
    ----------
    recipe
        A preset (`manyheads recipes` lists them), a TOML file, a run folder or a bundled model.
    batch
        Sentence pairs or texts in the batch.
    length
        Tokens of each text; for pairs, of each source.
    target_length
        Tokens of each target (default: as --length).
    set
        Change a key of the recipe; may be repeated: --set model.width=256 --set model.layers=3.
    as_json
        Print one JSON object instead of a table.
    """
    chosen, words = find(recipe, parse_changes(set))
    lengths, cost = count(chosen.model, words, batch, length, target_length)
    if as_json:
        print(json.dumps(as_object(recipe, cost, batch, lengths)))  # noqa: T201
    else:
        print_whole(as_table(title(recipe, words, batch, lengths), cost))


def find(name: str, changes: dict[str, Any]) -> tuple[Recipe, tuple[int, int]]:
    """(the recipe, (source pieces, target pieces)): pieces as the recipe asks for, or as a trained model has them."""
    if name.endswith(".toml") or name in recipe_names():
        return with_pieces(load_recipe(name, changes))
    from manyheads.modelfolder import bundled_models, is_folder, load_description

    if not is_folder(name) and name not in bundled_models():
        return with_pieces(load_recipe(name, changes))  # raises the error that says what a recipe may be
    vocabulary, recipe = load_description(name)
    return change_recipe(recipe.as_tables(), changes, name), vocabulary.sizes


def with_pieces(recipe: Recipe) -> tuple[Recipe, tuple[int, int]]:
    return recipe, (recipe.data.vocabulary, recipe.data.vocabulary)


def count(
    model: StackConfig, words: tuple[int, int], batch: int, length: int, target_length: int | None
) -> tuple[dict[str, int], Cost]:
    """(the lengths by name, the cost)"""
    if isinstance(model, TransformerConfig):
        lengths = {"source_length": length, "target_length": target_length or length}
        if isinstance(model, ParallelConfig):
            return lengths, parallel_cost(model, words, batch=batch, **lengths)
        return lengths, transformer_cost(model, words, batch=batch, **lengths)
    if target_length is not None:
        raise OptionError(f"--target-length is for pairs, got {target_length} for a model that reads texts")
    cost = language_model_cost if isinstance(model, LanguageModelConfig) else encoder_cost
    return {"length": length}, cost(model, words[0], batch=batch, length=length)  # type: ignore[arg-type]


def print_whole(table: Table) -> None:
    """Print a table without cutting figures: on a screen that is too narrow, lines wrap."""
    console = Out()
    console.width = max(console.width, Measurement.get(console, console.options.update(width=10_000), table).maximum)
    console.print(table)


def as_object(recipe: str, cost: Cost, batch: int, lengths: dict[str, int]) -> dict[str, Any]:
    counts = {"parameters": cost.parameters, "multiply_adds": cost.multiply_adds}
    parts = {
        name: {part.replace(" ", "_").replace("-", "_"): count[part] for part in PARTS} | {"total": count.total()}
        for name, count in counts.items()
    }
    return {"recipe": recipe, "batch": batch, **lengths, **parts}


def title(recipe: str, words: tuple[int, int], batch: int, lengths: dict[str, int]) -> str:
    tokens = " → ".join(map(str, lengths.values()))
    pieces = " → ".join(f"{size:,}" for size in dict.fromkeys(words))
    return f"{escape(recipe)}: {batch} × {f'({tokens})' if len(lengths) > 1 else tokens} tokens, vocabulary {pieces}"


def as_table(title: str, cost: Cost) -> Table:
    table = Table(
        title=title,
        caption="one forward pass, masked attention scores included;\na training step costs three; a multiply-add is 2 flops",
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
