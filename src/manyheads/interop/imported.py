"""What a model from elsewhere becomes, whatever its kind."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from manyheads.errors import InputError, brief
from manyheads.interop.huggingface import Source
from manyheads.modelfolder import build_by_task, dump_weights, load_weights, save_weights
from manyheads.recipe import Recipe
from manyheads.text.foreign import ForeignPieces
from manyheads.text.vocabulary import Vocabulary

__all__ = ["ACTIVATIONS", "Imported", "beyond", "cut_words", "known", "require"]


ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
}
"""Their names, and ours."""


@dataclass(frozen=True, eq=False)
class Imported:
    """The contents of a model folder, and what it lacks of the original."""

    recipe: Recipe
    vocabulary: Vocabulary
    weights: dict[str, Tensor]
    left_out: list[str] = field(default_factory=list)

    def check(self, source: Source) -> None:
        """Check that the weights belong to this model and are all finite, so that what is written can be read."""
        load_weights(build_by_task(self.recipe, self.vocabulary), dump_weights(self.weights), str(source.folder))

    def save(self, folder: str | Path) -> None:
        save_weights(folder, self.weights, self.vocabulary, self.recipe)


def beyond(stored: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]], but: Collection[str]) -> list[str]:
    """Names of what is stored but not taken over, except those in `but`, which are no loss."""
    return sorted(stored.keys() - {name for parts in names.values() for name in parts} - set(but))


def cut_words(weights: dict[str, Tensor], names: list[str], pieces: ForeignPieces, source: Source) -> None:
    """Cut off the rows of word tables that belong to no piece: tables are often filled up to round numbers."""
    for name in names:
        rows = len(weights[name])
        if rows < pieces.size:
            raise InputError(
                f"{source.folder}: every piece must have a vector, got {pieces.size:,} pieces and {rows:,} vectors"
            )
        weights[name] = weights[name][: pieces.size].clone()


def require(
    config: Mapping[str, object], names: tuple[str, ...], source: Source, optional: tuple[str, ...] = ()
) -> None:
    """Check that sizes are there, as whole numbers; those that are optional may be missing or null."""
    for name in names:
        if name not in config:
            raise InputError(f"{source.folder}: the config.json of such a model must have {name}, got none")
    for name in (*names, *optional):
        if type(config.get(name)) is not int and not (name in optional and config.get(name) is None):
            raise InputError(f"{source.folder}: {name} must be a whole number, got {brief(config[name])}")


def known(name: str, value: object, table: Mapping[str, str], source: Source) -> str:
    """Our name for a value."""
    if not isinstance(value, str) or value not in table:
        raise InputError(f"{source.folder}: {name} must be one of {', '.join(table)}, got {brief(value)}")
    return table[value]
