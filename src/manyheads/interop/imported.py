"""What is made of a model from elsewhere, whatever it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from manyheads.errors import InputError
from manyheads.interop.huggingface import Source
from manyheads.modelfolder import save_weights
from manyheads.recipe import Recipe
from manyheads.text.foreign import ForeignPieces
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Imported", "cut_words", "require"]


@dataclass(frozen=True, eq=False)
class Imported:
    """What a model folder is made of, and what of the original is not in it."""

    recipe: Recipe
    vocabulary: Vocabulary
    weights: dict[str, Tensor]
    left_out: list[str] = field(default_factory=list)

    def save(self, folder: str | Path) -> None:
        save_weights(folder, self.weights, self.vocabulary, self.recipe)


def cut_words(weights: dict[str, Tensor], names: list[str], pieces: ForeignPieces, source: Source) -> None:
    """Tables of words are filled up to round numbers: rows that no piece has are cut off."""
    for name in names:
        rows = len(weights[name])
        if rows < pieces.size:
            raise InputError(
                f"{source.folder}: every piece has a vector, got {pieces.size:,} pieces and {rows:,} vectors"
            )
        weights[name] = weights[name][: pieces.size].clone()


def require(config: Mapping[str, object], names: tuple[str, ...], source: Source) -> None:
    for name in names:
        if name not in config:
            raise InputError(f"{source.folder}: the config.json of such a model has {name}, got none")
