"""A model folder as Hugging Face's libraries write and read it: JSON and safetensors.

Nothing in it is run, and pickles are not opened. One table of names serves both directions: `take` joins their tensors
into ours, `give` cuts ours into theirs.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from manyheads.errors import InputError, brief
from manyheads.models.config import StackConfig

__all__ = ["Names", "Source", "give", "take"]

LARGEST_JSON = 64 << 20

Names = Mapping[str, tuple[str, ...]]
"""Our name of a tensor, and their names of its stacked parts: queries, keys and values, or both halves of a gate."""


class Source:
    """The folder to import from."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(
                f"a model to import must be a folder that Hugging Face's libraries saved, got {str(folder)!r}: there is no such folder"
            )

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def json(self, name: str, kind: type = dict) -> Any:
        """The contents of a file: an object, or a list if that is the `kind` wanted."""
        path = self.folder / name
        try:
            if path.stat().st_size > LARGEST_JSON:
                raise ValueError(f"it has {path.stat().st_size:,} bytes")
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, kind):
                raise ValueError(f"it holds {brief(found)}")
        except OSError as error:
            raise InputError(f"a model to import must have a {name}, got {self.folder}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} must be JSON as Hugging Face writes it: {brief(error)}") from None
        return found

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, in float32."""
        path = self.folder / "model.safetensors"
        if not path.is_file():
            pickled = self.has("pytorch_model.bin")
            raise InputError(
                f"a model to import must have a model.safetensors, got {self.folder} without one",
                hint="pytorch_model.bin is a pickle, which could run anything: save_pretrained(folder) of `transformers` writes safetensors"
                if pickled
                else None,
            )
        try:
            found = load_file(path)
        except (SafetensorError, ValueError, OSError, RuntimeError) as error:
            raise InputError(f"{path} is damaged: {error}") from None
        return {name: tensor.float() for name, tensor in found.items() if tensor.is_floating_point() and tensor.ndim}


def take(weights: Mapping[str, Tensor], names: Names, where: object) -> dict[str, Tensor]:
    """Our names, each with their tensors stacked. An error names what is missing."""
    missing = sorted({name for parts in names.values() for name in parts} - weights.keys())
    if missing:
        raise InputError(f"{where}: a model of this kind must have {missing[0]}, got one without it")
    try:
        return {ours: torch.cat([weights[name] for name in theirs]) for ours, theirs in names.items()}
    except RuntimeError as error:
        raise InputError(f"{where}: queries, keys and values must fit together: {error}") from None


def give(weights: Mapping[str, Tensor], names: Names, config: StackConfig) -> dict[str, Tensor]:
    """The way back: their names, each with its part of our tensor."""
    queries, keys = config.heads * config.head_width, (config.kv_heads or config.heads) * config.head_width
    found: dict[str, Tensor] = {}
    for ours, theirs in names.items():
        tensor = weights[ours]
        rows = (
            [queries, keys, len(tensor) - queries - keys]
            if len(theirs) == 3
            else [len(tensor) // len(theirs)] * len(theirs)
        )
        found |= zip(theirs, tensor.split(rows), strict=True)
    return found
