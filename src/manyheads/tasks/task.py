"""What the training loop needs from a task. It knows nothing else about one."""

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
        """What the summed loss is divided by: tokens, texts or pairs."""
        ...

    @property
    def tokens(self) -> int:
        """Tokens that count towards the speed."""
        ...

    def to(self, device: torch.device) -> Self: ...

    def pinned(self) -> Self:
        """The batch in pinned memory, from which a GPU copies without anyone waiting."""
        ...

    def split(self, parts: int) -> Sequence["Part"]:
        """Parts to compute one after the other, which together give the same gradient."""
        ...


class Part(Protocol):
    """What is computed in one pass."""

    least: ClassVar[str]
    """What a part is called when it cannot be any smaller."""

    smaller: ClassVar[str]
    """Which key to lower, and why, so that even the smallest part gets smaller."""

    def halves(self) -> Sequence[Self]:
        """Two smaller parts that together give the same gradient; only itself, if it cannot be any smaller."""
        ...


@dataclass(frozen=True)
class Sample:
    """One example of the development set, for display."""

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
    """The error for a resumed run whose data is not the same."""
    return InputError(
        f"a run resumes with the data it started with, got {got}",
        hint="another --out starts a new run; --data-changed continues with the data as it is now",
    )


class Task(Protocol):
    """A recipe and its data, ready to be trained on."""

    batches_per_epoch: int

    fingerprint: Mapping[str, str]
    """Hashes of the data to train on ("train") and to validate on ("dev")."""

    teachers: Sequence[nn.Module]
    """Models that the student also learns from, if there are any."""

    held_out: Mapping[str, Any]
    """Data to score models on: "dev" and, in fine-tuning, "old", the development set of the base."""

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
        """Make the data ready in `folder`. `files`: those of the run, if there is one already, such as its tokenizer.

        Data that is not what it was when the run started is refused, unless it may have `changed`.
        """
        ...

    @classmethod
    def check(cls, recipe: Recipe, folder: Path, data: Mapping[str, Any]) -> None:
        """Refuse data other than that from which `folder` was made, if that is known."""
        ...

    @classmethod
    def check_team(cls, team: Team) -> None:
        """Refuse more processes than can share the work."""
        ...

    def files(self) -> dict[str, bytes]:
        """The files that a model needs besides its weights."""
        ...

    def build(self) -> nn.Module: ...

    @property
    def packs_well(self) -> bool:
        """True if a GPU computes packs faster than padded batches."""
        ...

    @property
    def has_few_shapes(self) -> bool:
        """True if padded batches, rounded up a little, have so few shapes that a GPU can record its work for each."""
        ...

    def arrange(self, packs: int) -> Any:
        """Decide how batches are made, before any is: from this number of packs each, or, if it is 0, padded."""
        ...

    def packs(self, step: int) -> Batch:
        """The batch of a step, packed into shapes that are the same for every step."""
        ...

    def batch(self, step: int, team: Team) -> Batch:
        """This process' share of the batch of a step, as a function of the seed and the step alone.

        Its `count` is that of the whole batch.
        """
        ...

    def rounded(self, step: int) -> Batch:
        """The batch of a step, padded to one of a few shapes."""
        ...

    def lines(self, batch: Any) -> dict[str, list[int]]:
        """Where the contents of a batch come from: files, and the numbers of their lines."""
        ...

    def hastened(self) -> AbstractContextManager[None]:
        """While this lasts, batches are made on as many cores as help: a GPU may need them faster than one core can."""
        ...

    def learn_from(self, teachers: Sequence[nn.Module], fingerprint: str) -> None:
        """From now on, also learn from the predictions of these models, which are on the device of the batches."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Float[Tensor, ""]:
        """The summed loss of a batch."""
        ...

    def fused_loss(self) -> Callable[[nn.Module, Any], Float[Tensor, ""]]:
        """The same loss, as fast as possible, for a single model that is not wrapped. Values may differ by rounding."""
        ...

    def validate(self, model: nn.Module, *, final: bool = False, on: str = "dev", team: Team = ALONE) -> Validation:
        """Score a model on held-out data; if it is the final one, in full, as it will be used.

        The processes of a team share the work, and all get the same result.
        """
        ...

    def example(self) -> Pair | None:
        """One held-out pair, always the same, to observe what a model's heads do with it during training.

        None if there is none to observe.
        """
        ...

    def settle(self, model: nn.Module) -> Recipe:
        """The recipe that is stored with the finished model, including what only that model can tell."""
        ...

    def close(self) -> None:
        """Remove what can be made again, now that the run is finished."""
        ...
