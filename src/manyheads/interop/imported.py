"""What is made of a model from elsewhere, whatever it is."""

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
    """What a model folder is made of, and what of the original is not in it."""

    recipe: Recipe
    vocabulary: Vocabulary
    weights: dict[str, Tensor]
    left_out: list[str] = field(default_factory=list)

    def check(self, source: Source) -> None:
        """Are they the weights of that model, all of them numbers? What is written can then be read."""
        load_weights(build_by_task(self.recipe, self.vocabulary), dump_weights(self.weights), str(source.folder))

    def save(self, folder: str | Path) -> None:
        save_weights(folder, self.weights, self.vocabulary, self.recipe)


def beyond(stored: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]], but: Collection[str]) -> list[str]:
    """What is stored and not taken over; `but` are names of what is no loss."""
    return sorted(stored.keys() - {name for parts in names.values() for name in parts} - set(but))


def cut_words(weights: dict[str, Tensor], names: list[str], pieces: ForeignPieces, source: Source) -> None:
    """Tables of words are filled up to round numbers: rows that no piece has are cut off."""
    for name in names:
        rows = len(weights[name])
        if rows < pieces.size:
            raise InputError(
                f"{source.folder}: every piece has a vector, got {pieces.size:,} pieces and {rows:,} vectors"
            )
        weights[name] = weights[name][: pieces.size].clone()


def require(
    config: Mapping[str, object], names: tuple[str, ...], source: Source, optional: tuple[str, ...] = ()
) -> None:
    """Sizes must be there, as whole numbers; what is optional may also be null."""
    for name in names:
        if name not in config:
            raise InputError(f"{source.folder}: the config.json of such a model has {name}, got none")
    for name in (*names, *optional):
        if type(config.get(name)) is not int and not (name in optional and config.get(name) is None):
            raise InputError(f"{source.folder}: {name} must be a whole number, got {brief(config[name])}")


def known(name: str, value: object, table: Mapping[str, str], source: Source) -> str:
    """Our name for a value."""
    if not isinstance(value, str) or value not in table:
        raise InputError(f"{source.folder}: {name} is one of {', '.join(table)}, got {brief(value)}")
    return table[value]
