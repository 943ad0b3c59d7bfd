"""What the training loop asks of a task. It knows nothing else about it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.errors import InputError
from manyheads.inspection.moments import Pair
from manyheads.recipe import Recipe
from manyheads.team import ALONE, Team

__all__ = ["Batch", "Part", "Sample", "Task", "Validation", "changed_data"]

Say = Callable[[str], None]


class Batch(Protocol):
    """What one update learns from."""

    @property
    def count(self) -> int:
        """What the summed loss is divided by: tokens, images."""
        ...

    @property
    def tokens(self) -> int:
        """What speed is told in."""
        ...

    def to(self, device: torch.device) -> Self: ...

    def pinned(self) -> Self:
        """In memory that a GPU copies from by itself, so that nobody waits for the copy."""
        ...

    def split(self, parts: int) -> Sequence["Part"]:
        """Parts that are computed one after the other and together give the same gradient."""
        ...


class Part(Protocol):
    """What is computed at once."""

    least: ClassVar[str]
    """What it is when it cannot be any smaller."""

    smaller: ClassVar[str]
    """What to set lower, and why, so that even that is smaller."""

    def halves(self) -> Sequence[Self]:
        """Two smaller parts that together give the same gradient; itself alone, if it cannot be any smaller."""
        ...


@dataclass(frozen=True)
class Sample:
    """One example of the development set, for people."""

    source: str
    target: str
    output: str


@dataclass(frozen=True)
class Validation:
    """How good a model is on held-out data.

    score     what the best model is chosen by: higher is better
    metrics   what is reported, by name
    """

    score: float
    metrics: Mapping[str, float]
    samples: Sequence[Sample] = field(default_factory=list)


def changed_data(got: str) -> InputError:
    """A resumed run is the same run: on the same data."""
    return InputError(
        f"a run goes on with the data it began with, got {got}",
        hint="another --out starts a run of its own; --data-changed goes on with what is there now",
    )


class Task(Protocol):
    """A recipe and its data, ready to be trained on."""

    batches_per_epoch: int

    fingerprint: Mapping[str, str]
    """Of the data that is trained on ("train") and judged by ("dev"): other data has another."""

    teachers: Sequence[nn.Module]
    """Models that it also learns from, if there are any."""

    held_out: Mapping[str, Any]
    """Data to be judged by: "dev", and "old" for that of a model that is trained further."""

    @classmethod
    def prepare(
        cls,
        recipe: Recipe,
        folder: Path,
        data: Mapping[str, Any],
        files: Mapping[str, bytes],
        say: Say,
        changed: bool = False,
    ) -> Self:
        """Make the data ready in `folder`. `files` are those of the run, if there is one already: its tokenizer.

        If the data is not what it was when the run began, that is refused, unless it may have `changed`.
        """
        ...

    @classmethod
    def check(cls, recipe: Recipe, folder: Path, data: Mapping[str, Any]) -> None:
        """Refuse data that is not what `folder` was made from, if that is known."""
        ...

    @classmethod
    def check_team(cls, team: Team) -> None:
        """Refuse more processes than can share in the work."""
        ...

    def files(self) -> dict[str, bytes]:
        """What a model needs beside its weights."""
        ...

    def build(self) -> nn.Module: ...

    @property
    def packs_well(self) -> bool:
        """Are packs computed faster than padded batches, on a GPU?"""
        ...

    @property
    def has_few_shapes(self) -> bool:
        """Are there so few shapes of padded batches, rounded up a little, that a GPU may record its work for each?"""
        ...

    def arrange(self, packs: int) -> Any:
        """Decide how batches are made, before any is: of so many packs, or, if that is 0, padded."""
        ...

    def packs(self, step: int) -> Batch:
        """The batch of a step, packed into shapes that are the same in every step."""
        ...

    def batch(self, step: int, team: Team) -> Batch:
        """A process' share of the batch of a step: a function of the seed and the step, nothing else.

        Its `count` is that of the whole batch.
        """
        ...

    def rounded(self, step: int) -> Batch:
        """The batch of a step, padded to one of few shapes."""
        ...

    def lines(self, batch: Any) -> dict[str, list[int]]:
        """Where what is in a batch stood: files and the numbers of their lines."""
        ...

    def hastened(self) -> AbstractContextManager[None]:
        """While this lasts, batches are made on as many cores as are of use: a GPU may want them faster than one can."""
        ...

    def learn_from(self, teachers: Sequence[nn.Module], fingerprint: str) -> None:
        """From now on also from what these models say, on the device that batches are on."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        """The summed loss of a batch."""
        ...

    def fused_loss(self) -> Callable[[nn.Module, Any], Float[Tensor, ""]]:
        """The same, as fast as can be, for one model that is not wrapped. Values may differ by their rounding."""
        ...

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Score a model on held-out data; in full, as it will be used, if it is the final one. The work is shared among the
        processes of a team, and all get the same result."""
        ...

    def example(self) -> Pair | None:
        """One held-out pair, always the same, to see what a model's heads do with it while it learns. None where there is none to
        be seen."""
        ...

    def settle(self, model: nn.Module) -> Recipe:
        """The recipe that is stored with the finished model: what only it can tell is filled in."""
        ...

    def close(self) -> None:
        """The run is finished: remove what can be made again."""
        ...
