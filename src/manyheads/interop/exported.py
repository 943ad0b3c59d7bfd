"""What is made of a model of ours for other libraries, and which models can be told in their words."""

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
"""What no class of Hugging Face that we know of has another choice for. Shapes only: what drops out in training alone is not asked for."""


@dataclass(frozen=True, eq=False)
class Exported:
    """
    config   of config.json; its first architecture is the class that reads it
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
        weights = save(tensors, metadata={"format": "pt"})  # without which older versions do not read it
        write_whole(Path(folder), {"config.json": as_json(self.config), "model.safetensors": weights, **self.more})


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def unlike(config: StackConfig, wanted: Mapping[str, object]) -> Iterator[str]:
    """What a model has otherwise than it would have to be."""
    for name, value in wanted.items():
        if (given := getattr(config, name)) != value:
            yield f"model.{name} = {value!r}, got {given!r}"


def grouped(config: StackConfig) -> Iterator[str]:
    """The same for heads: each has keys and values of its own, as wide as it takes for all together to be as wide as the model."""
    even = {
        "kv_heads": config.heads,
        "key_width": config.width // config.heads,
        "value_width": config.width // config.heads,
    }
    for name, value in even.items():
        if (given := getattr(config, name)) not in (None, value):
            yield f"model.{name} = {value}, got {given}"


def their_activation(config: StackConfig) -> str | None:
    """Their first name for it, if they have one."""
    return next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.activation), None)
