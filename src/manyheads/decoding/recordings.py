"""What is kept of a model on a device between calls: places to work at, each with its recordings (`recorded`).

rooms    for beams that are searched token by token
desks    for sentences that are written at once
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from manyheads.decoding.batching import parts_of
from manyheads.decoding.ensemble import Ensemble
from manyheads.recorded import Eager, Player, Recorder

__all__ = ["Recordings", "few_sizes", "forget_recordings", "has_hooks", "plain_models", "power_of_two", "recordings_of"]

Key = TypeVar("Key", bound=Hashable)
Place = TypeVar("Place")
Kind = TypeVar("Kind", bound="Recordings")


class Recordings(Generic[Key, Place]):
    """The places of one model on one device, the most recently used last.

    Whoever works at a place holds the lock until the result is read.

    refused   places for which there was no memory
    """

    def __init__(self, device: torch.device, *, record: bool) -> None:
        self.device = device
        self.player: Callable[[], Player] = Recorder(device) if record else Eager
        self.kept: OrderedDict[Key, Place] = OrderedDict()
        self.refused: set[Key] = set()
        self.recorded: tuple[object, ...] = ()
        self.lock = Lock()

    def renew(self, model: nn.Module) -> None:
        """Drop everything if the model is no longer what was recorded.

        A recording is of weights at their addresses and, for a model in training, with its dropout.
        """
        if (now := what_is_recorded(model)) != self.recorded:
            self.kept.clear()
            self.refused.clear()
            self.recorded = now

    def leave(self, *places: Key) -> None:
        """Give up places in the middle of work. Work under way ends first: its memory must not go to others before."""
        if self.device.type == "cuda":
            with suppress(RuntimeError):  # if the GPU is lost, the error raised before says more
                torch.cuda.synchronize(self.device)
        for place in places:
            self.kept.pop(place, None)

    def give_memory_back(self, *places: Key) -> None:
        self.leave(*places)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def what_is_recorded(model: nn.Module) -> tuple[object, ...]:
    return tuple(
        (
            part.training,
            *(
                (x.data_ptr(), x.dtype, x.shape)
                for own in (part._parameters, part._buffers)
                for x in own.values()
                if x is not None
            ),
        )
        for part in parts_of(model)
    )


def plain_models(model: object) -> list[object]:
    """The models that this one consists of: itself, or the members of an ensemble.

    There are none where the host must encode text again. Whoever records checks the class of each: sharded models have
    a different one, because their weights move.
    """
    if type(model) is not Ensemble:
        return [model]
    return list(model.models) if model.reads_one else []


def has_hooks(model: nn.Module) -> bool:
    """True if there is a hook, which is Python that a replay would not run."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in parts_of(model))


# ── the recordings of a model ───────────────────────────────────────────────────────────────────────────────────────

KEPT: WeakKeyDictionary[nn.Module, Recordings] = WeakKeyDictionary()
"""They go when their model goes, unless they are forgotten before."""

KEEPING = Lock()


def recordings_of(model: nn.Module, kind: type[Kind], device: torch.device) -> Kind:
    with KEEPING:
        found = KEPT.get(model)
        if not isinstance(found, kind) or found.device != device:
            found = KEPT[model] = kind(device, record=device.type == "cuda")
        return found


def forget_recordings(model: nn.Module) -> None:
    """Give the memory back: a model that continues training needs it more than its next validation does."""
    with KEEPING:
        KEPT.pop(model, None)


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def power_of_two(n: int) -> int:
    """The first power of two that is not below n."""
    return 1 << (n - 1).bit_length()


def few_sizes(n: int) -> int:
    """1, 4, 16, 64, 128, 256, …: with few sentences, kernels wait for one another longer than they compute."""
    exponent = (n - 1).bit_length()
    return 1 << (exponent + exponent % 2 if n <= 64 else exponent)
