"""When memory is too short for a step, its batch is computed in smaller parts that together give the same gradient."""

import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from manyheads.errors import ManyheadsError, TrainingError, first_line
from manyheads.tasks.task import Part

__all__ = ["in_smaller_parts", "is_out_of_memory", "release_memory"]

Result = TypeVar("Result")

NO_MEMORY = ("alloc", "out of memory", "could not create a primitive")
"""What allocators say on a CPU. The last is oneDNN's, which needs memory for the code of a product."""


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch has a class for this on a GPU; on a CPU it is a RuntimeError whose text depends on the allocator."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    said = str(error)
    foreign = isinstance(error, RuntimeError) and not isinstance(error, ManyheadsError)
    return foreign and any(words in said for words in NO_MEMORY)


def release_memory(device: torch.device) -> None:
    """Release memory that nothing refers to any more, before the same amount is requested again."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def in_smaller_parts(
    learn: Callable[[Sequence[Part]], Result], parts: Sequence[Part], forget: Callable[[], None], what: str
) -> tuple[Result, int]:
    """(the result of `learn`, the number of parts): with the parts as given, or halved until there is memory for each.

    forget   drops what a failed pass has left: some gradients are already added up, some are not
    what     the parts belong to, for error messages
    """
    while True:
        try:
            return learn(parts), len(parts)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            why = first_line(error)
        forget()  # here, not above: while the error exists, it keeps alive everything that was being computed
        smaller = [half for part in parts for half in part.halves()]
        if len(smaller) == len(parts):
            raise TrainingError(
                f"memory must be enough for one {parts[0].least} at a time, got too little for one of {len(parts):,} in {what}: {why}",
                hint=f"for a new run: a smaller {parts[0].smaller}, and a smaller model needs less memory",
            )
        parts = smaller
