"""Everything that changes while a model is trained, and how it is saved and found again.

Nothing random is among it: what is drawn in a step is a function of the seed and the step.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.optim import AdamW

from manyheads.errors import InputError
from manyheads.recipe import TrainConfig
from manyheads.storage import read_file, write_folder
from manyheads.training.average import MovingAverage
from manyheads.training.optimizer import build_optimizer, optimizer_tensors, restore_optimizer

__all__ = ["Progress", "State"]

WEIGHTS, AVERAGE, OPTIMIZER, PROGRESS = (
    "weights.safetensors",
    "average.safetensors",
    "optimizer.safetensors",
    "state.json",
)


@dataclass
class Progress:
    """
    step         updates so far
    tokens       learnt from so far
    seconds      spent in training
    best         the best score on held-out data, and best_step when it was reached
    lowest_loss  on held-out data
    waited       validations since either got better
    skipped      updates in a row, up to now, that were not made because a gradient was not finite
    first_loss   the first reading of the loss
    high         readings in a row that were far above it
    threads      of the CPU: sums are rounded alike only with as many
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    lowest_loss: float | None = None
    waited: int = 0
    skipped: int = 0
    first_loss: float | None = None
    high: int = 0
    threads: int = 0


class State:
    """A model, its optimizer, its moving average if there is one, and how far it has come."""

    def __init__(self, model: nn.Module, config: TrainConfig, device: torch.device) -> None:
        self.model = model.to(device)
        self.parameters = list(self.model.parameters())
        self.optimizer: AdamW = build_optimizer(model, config.rate, config.weight_decay)
        self.average = MovingAverage(self.model, config.ema) if config.ema else None
        self.progress = Progress(threads=torch.get_num_threads())

    @property
    def best_model(self) -> nn.Module:
        """What would be used if training ended here."""
        return self.average.model if self.average else self.model

    def save(self, folder: Path) -> None:
        tensors = {
            WEIGHTS: self.model.state_dict(),
            OPTIMIZER: optimizer_tensors(self.optimizer, self.model),
            **({AVERAGE: self.average.model.state_dict()} if self.average else {}),
        }
        files = {name: dump(group) for name, group in tensors.items()}
        write_folder(folder, {**files, PROGRESS: json.dumps(asdict(self.progress)).encode()})

    def restore(self, folder: Path) -> None:
        """From a folder that `save` wrote, of the same recipe."""
        self.model.load_state_dict(read_tensors(folder, WEIGHTS))
        restore_optimizer(self.optimizer, self.model, read_tensors(folder, OPTIMIZER))
        if self.average:
            self.average.model.load_state_dict(read_tensors(folder, AVERAGE))
        self.progress = read_progress(folder)


def dump(tensors: dict[str, Tensor]) -> bytes:
    return save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})


def read_tensors(folder: Path, name: str) -> dict[str, Tensor]:
    try:
        return load_tensors(read_file(folder, name))
    except SafetensorError as error:
        raise InputError(f"{folder / name} is damaged: {error}") from None


def read_progress(folder: Path) -> Progress:
    try:
        stored: dict[str, Any] = json.loads(read_file(folder, PROGRESS))
        return Progress(**stored)
    except (ValueError, TypeError) as error:
        raise InputError(f"{folder / PROGRESS} is not of this version: {error}") from None
