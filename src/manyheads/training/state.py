"""Everything that changes while a model is trained, and how it is saved and restored.

It includes no random state: what is drawn in a step is a function of the seed and the step.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from manyheads.errors import InputError
from manyheads.nn import DecoderBlock, EncoderBlock
from manyheads.recipe import TrainConfig
from manyheads.storage import read_file
from manyheads.team import ALONE, Team, like, whole
from manyheads.training.average import MovingAverage
from manyheads.training.optimizer import build_optimizer, optimizer_tensors, restore_optimizer
from manyheads.training.tuning import freeze

__all__ = ["Progress", "State"]

WEIGHTS, AVERAGE, OPTIMIZER, PROGRESS = (
    "weights.safetensors",
    "average.safetensors",
    "optimizer.safetensors",
    "state.json",
)


@dataclass
class Progress:
    """How far a run has come.

    step         updates so far
    tokens       learnt from so far
    seconds      spent in training
    best         the best score on held-out data; best_step is when it was reached
    lowest_loss  on held-out data
    waited       validations since either improved
    skipped      updates in a row, up to now, that were skipped because a gradient was not finite
    not_finite   all such updates of the run
    split        batches that were computed in more parts because memory was too short
    unsaved      failed saves that the run continued without
    first_loss   the first reading of the loss
    high         readings in a row that were far above it
    threads      of the CPU: sums are rounded alike only with the same number
    processes    that train together: the same applies
    precision    that products are computed in: the same applies
    data         fingerprints of the data
    packed       packs per batch; 0 = batches are padded
    compile_seconds   spent before the first step, not in training
    data_since   the step at which training on this data started
    before       scores of the base before fine-tuning, by set of held-out data
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    lowest_loss: float | None = None
    waited: int = 0
    skipped: int = 0
    not_finite: int = 0
    split: int = 0
    unsaved: int = 0
    first_loss: float | None = None
    high: int = 0
    threads: int = 0
    processes: int = 1
    precision: str = ""
    packed: int = 0
    compile_seconds: float = 0.0
    data: dict[str, str] = field(default_factory=dict)
    data_since: int = 0
    before: dict[str, dict[str, float]] = field(default_factory=dict)


class State:
    """A model, its optimizer, its moving average if there is one, and its progress.

    forward   the model as it is called in training: in a team, its gradients are the mean of all processes'
    judged    a second, complete model, for averaged or sharded weights
    """

    def __init__(self, model: nn.Module, config: TrainConfig, device: torch.device, team: Team = ALONE) -> None:
        self.model = model.to(device)
        freeze(self.model, config.freeze)
        self.sharded = config.shard and team.size > 1
        self.judged = copy.deepcopy(self.model).requires_grad_(False) if config.ema or self.sharded else None
        self.forward = team.spread(self.model, blocks_of(self.model) if self.sharded else ())
        self.parameters = list(self.model.parameters())
        self.optimizer = build_optimizer(model, config.rate, config.weight_decay, config.optimizer)
        self.average = MovingAverage(self.model, config.ema) if config.ema else None
        self.progress = Progress(threads=torch.get_num_threads(), processes=team.size)

    def best_model(self) -> nn.Module:
        """The model that would be used if training ended here."""
        if self.judged is None:
            return self.model
        weights = self.average.weights if self.average else self.model.state_dict()
        self.judged.load_state_dict({name: whole(tensor) for name, tensor in weights.items()})
        return self.judged

    def contents(self) -> dict[str, bytes]:
        """The files of a checkpoint. Sharded weights are gathered here, so all processes must call this."""
        tensors = {
            WEIGHTS: self.model.state_dict(),
            OPTIMIZER: optimizer_tensors(self.optimizer, self.model),
            **({AVERAGE: self.average.weights} if self.average else {}),
        }
        files = {name: dump(group) for name, group in tensors.items()}
        return {**files, PROGRESS: json.dumps(asdict(self.progress)).encode()}

    def restore(self, folder: Path) -> None:
        """Restore everything from a checkpoint of the same recipe."""
        load(self.model.state_dict(), read_tensors(folder, WEIGHTS))
        restore_optimizer(self.optimizer, self.model, read_tensors(folder, OPTIMIZER))
        if self.average:
            load(self.average.weights, read_tensors(folder, AVERAGE))
        self.progress = read_progress(folder)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, (EncoderBlock, DecoderBlock))]


@torch.no_grad()
def load(weights: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    for name, tensor in weights.items():
        tensor.copy_(like(tensor, stored[name]))


def dump(tensors: Mapping[str, Tensor]) -> bytes:
    return save_tensors({name: whole(tensor.detach()).cpu().contiguous() for name, tensor in tensors.items()})


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
        raise InputError(f"{folder / PROGRESS} does not fit this version: {error}") from None
