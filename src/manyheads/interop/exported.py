"""What a model of ours becomes for other libraries, and which models can be described in their terms."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from manyheads.interop.imported import ACTIVATIONS
from manyheads.models.config import StackConfig
from manyheads.storage import write_whole

__all__ = ["PLAIN", "Exported", "as_json", "grouped", "their_activation", "unlike"]

PLAIN = {"score": "scaled-dot", "qk_norm": False, "window": None}
"""Settings for which no Hugging Face class that we know of offers a choice.

Only the shape of a model matters: dropout, which acts in training alone, is not compared.
"""


@dataclass(frozen=True, eq=False)
class Exported:
    """A model as another library reads it.

    config   contents of config.json; its first architecture is the class that reads it
    more     other files, by name
    """

    config: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    more: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.config["architectures"][0]

    def save(self, folder: str | Path) -> None:
        tensors = {name: tensor.detach().float().cpu().contiguous() for name, tensor in self.weights.items()}
        weights = save(tensors, metadata={"format": "pt"})  # older versions do not read it without this
        write_whole(Path(folder), {"config.json": as_json(self.config), "model.safetensors": weights, **self.more})


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def unlike(config: StackConfig, wanted: Mapping[str, object]) -> Iterator[str]:
    """The settings in which a model differs from what is wanted."""
    for name, value in wanted.items():
        if (given := getattr(config, name)) != value:
            yield f"model.{name} = {value!r}, got {given!r}"


def grouped(config: StackConfig) -> Iterator[str]:
    """The same for heads: each must have its own keys and values, and together they must be as wide as the model."""
    even = {
        "kv_heads": config.heads,
        "key_width": config.width // config.heads,
        "value_width": config.width // config.heads,
    }
    for name, value in even.items():
        if (given := getattr(config, name)) not in (None, value):
            yield f"model.{name} = {value}, got {given}"


def their_activation(config: StackConfig) -> str | None:
    """Their first name for the activation, or None if they have none."""
    return next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), None)
