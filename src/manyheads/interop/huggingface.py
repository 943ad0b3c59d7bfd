"""A model folder as Hugging Face's libraries write and read it: JSON and safetensors. Nothing in it is run, and pickles are not opened.

One table of names serves both ways: `take` joins their tensors into ours, `give` cuts ours into theirs.
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
"""Our name of a tensor, and theirs of what stands one below the other in it: queries, keys and values, or the two halves of a gate."""


class Source:
    """The folder that is read from."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(
                f"what is imported is a folder of Hugging Face's libraries, got {str(folder)!r}: there is no such folder"
            )

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def json(self, name: str, kind: type = dict) -> Any:
        """What a file holds: an object, or a list if that is what is asked for."""
        path = self.folder / name
        try:
            if path.stat().st_size > LARGEST_JSON:
                raise ValueError(f"it has {path.stat().st_size:,} bytes")
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, kind):
                raise ValueError(f"it holds {brief(found)}")
        except OSError as error:
            raise InputError(f"a model to import has a {name}, got {self.folder}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} must be JSON as Hugging Face writes it: {brief(error)}") from None
        return found

    def weights(self) -> dict[str, Tensor]:
        """By their names, in float32."""
        path = self.folder / "model.safetensors"
        if not path.is_file():
            pickled = self.has("pytorch_model.bin")
            raise InputError(
                f"weights are imported from a model.safetensors, got {self.folder} without one",
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
    """Our names, and the tensors that stand one below the other under each. What is missing is named."""
    missing = sorted({name for parts in names.values() for name in parts} - weights.keys())
    if missing:
        raise InputError(f"{where}: a model of this kind has {missing[0]}, got one without it")
    try:
        return {ours: torch.cat([weights[name] for name in theirs]) for ours, theirs in names.items()}
    except RuntimeError as error:
        raise InputError(f"{where}: queries, keys and values must fit together: {error}") from None


def give(weights: Mapping[str, Tensor], names: Names, config: StackConfig) -> dict[str, Tensor]:
    """The way back: their names, and ours cut into what stands one below the other under each."""
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
