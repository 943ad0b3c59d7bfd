"""When memory is too short for a step: its batch is computed in smaller parts, which together give the same gradient."""

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from manyheads.errors import ManyheadsError, TrainingError, first_line
from manyheads.tasks.task import Part

__all__ = ["in_smaller_parts", "is_out_of_memory", "release_memory"]

Result = TypeVar("Result")


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a class for it on a GPU; on a CPU it is a RuntimeError that says so, of one allocator or another."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    said = str(error)
    foreign = isinstance(error, RuntimeError) and not isinstance(error, ManyheadsError)
    return foreign and ("alloc" in said or "out of memory" in said)


def release_memory(device: torch.device) -> None:
    """Give back what nobody holds any more, before as much is asked for again."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def in_smaller_parts(
    learn: Callable[[Sequence[Part]], Result], parts: Sequence[Part], forget: Callable[[], None], what: str
) -> tuple[Result, int]:
    """(what `learn` makes of the parts, in how many of them): as they are, or halved until there is memory for each.

    forget   undoes what a pass that failed has left: some gradients are added up already, some are not
    what     they are parts of, for people
    """
    while True:
        try:
            return learn(parts), len(parts)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            why = first_line(error)
        forget()  # here, not above: as long as there is the error, there is all that it was computing with
        smaller = [half for part in parts for half in part.halves()]
        if len(smaller) == len(parts):
            raise TrainingError(
                f"memory must be enough for one {parts[0].least} at a time, got too little for one of {len(parts):,} in {what}: {why}",
                hint=f"for a new run: a smaller {parts[0].smaller}, and a smaller model takes less",
            )
        parts = smaller
