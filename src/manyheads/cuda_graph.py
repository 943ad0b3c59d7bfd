"""Record work on a GPU as a CUDA graph, so that one that cannot be recorded leaves nothing behind.

torch ends a recording that fails wherever it can. Where it cannot, because the work waited for the GPU, say, the allocators and the
generators of random numbers would go on as if it were under way, and whatever the process does next would fail. One of them cannot be told
(up to PyTorch 2.11 at least): that of pinned memory, which nothing can be recorded into again from the same pool, and which goes on asking the
graph whether memory is for it.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

import torch

__all__ = ["record"]

ONE_AT_A_TIME = Lock()
"""The process may record one graph at a time."""

ABANDONED: list[torch.cuda.CUDAGraph] = []
"""Recordings that could not be ended: who is still asked must not be gone."""


def record(work: Callable[[], None], stream: torch.cuda.Stream, pool: Any) -> torch.cuda.CUDAGraph:
    """`work` is recorded on the stream, with its scratch memory in the pool, and does not run meanwhile. If it fails, its error is raised; it is then still
    to be done, and the next recording needs another pool."""
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    with torch.cuda.stream(stream):
        # Every thread has its own handle of cuBLAS, made when it is first needed; a recording does not allow that, and another thread may have warmed up.
        torch.cuda.current_blas_handle()
    failed: BaseException | None = None
    try:
        with ONE_AT_A_TIME, recording(graph, stream, pool):
            try:
                work()
            except BaseException as error:  # first the recording is to be ended
                failed = error
    except BaseException as error:  # which it could not be
        torch.cuda.set_stream(before)
        ABANDONED.append(graph)
        give_up(stream, pool)
        raise failed or error from None
    if failed is not None:
        graph.reset()  # gives its memory back
        raise failed
    return graph


def recording(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any = None) -> torch.cuda.graph:
    """`thread_local`: other threads may go on allocating meanwhile, as those that make batches do."""
    return torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local")


def give_up(stream: torch.cuda.Stream, pool: Any) -> None:
    """End for the GPU's allocator, and for the generators of random numbers, a recording that could not be ended: the first would ask at every turn whether
    memory is for it, and whoever draws from the others would fail. Where it has ended, or the GPU is lost, what was raised before says more."""
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(stream.device.index, pool)
    with suppress(RuntimeError), torch.cuda.stream(stream):
        nothing = torch.zeros((), device=stream.device)
        with ONE_AT_A_TIME, recording(torch.cuda.CUDAGraph(), stream):
            nothing.add_(0)  # generators learn from the end of any recording that none is under way
