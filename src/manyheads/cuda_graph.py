"""Record work on a GPU as a CUDA graph, such that a recording that fails leaves nothing behind.

Where it can, torch ends a recording that fails. Where it cannot, because the work waited for the GPU, say, the
allocators and the generators of random numbers would behave as if the recording were still under way, and whatever
the process does next would fail. One of them cannot be told that it is over (up to PyTorch 2.11 at least): the
allocator of pinned memory. Nothing can be recorded into it again from the same pool, and it keeps asking the graph
whether memory belongs to it.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

import torch

__all__ = ["record"]

ONE_AT_A_TIME = Lock()
"""A process can record only one graph at a time."""

ABANDONED: list[torch.cuda.CUDAGraph] = []
"""Recordings that could not be ended. An allocator still asks them, so they must stay alive."""


def record(work: Callable[[], None], stream: torch.cuda.Stream, pool: Any) -> torch.cuda.CUDAGraph:
    """Record `work` on the stream, with its scratch memory in the pool. Nothing runs meanwhile.

    If the work fails, its error is raised. The work is then still to be done, and the next recording needs another
    pool.
    """
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(stream.device)
    with torch.cuda.stream(stream):
        # Every thread makes a cuBLAS handle when it first needs one, which a recording does not allow; the thread that
        # warmed up may have been another one.
        torch.cuda.current_blas_handle()
    failed: BaseException | None = None
    try:
        with ONE_AT_A_TIME, recording(graph, stream, pool):
            try:
                work()
            except BaseException as error:  # raised below, after the recording has ended
                failed = error
    except BaseException as error:  # the recording could not be ended
        torch.cuda.set_stream(before)
        ABANDONED.append(graph)
        give_up(stream, pool)
        failed = failed or error
    else:
        if failed is None:
            return graph
        graph.reset()  # gives its memory back
    try:
        raise failed
    finally:
        failed = None  # an error that its own frames refer to keeps all their tensors until garbage is collected


def recording(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, pool: Any = None) -> torch.cuda.graph:
    """The context that records. `thread_local`: other threads, such as those that make batches, may allocate."""
    return torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local")


def give_up(stream: torch.cuda.Stream, pool: Any) -> None:
    """Tell the GPU's allocator and the generators of random numbers that a recording is over which could not be ended.

    Otherwise the allocator would ask the recording about every allocation, and any draw of random numbers would fail.
    Errors are suppressed: the recording may have ended after all, and if the GPU is lost, the error raised before
    says more.
    """
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(stream.device.index, pool)
    with suppress(RuntimeError), torch.cuda.stream(stream):
        nothing = torch.zeros((), device=stream.device)
        with ONE_AT_A_TIME, recording(torch.cuda.CUDAGraph(), stream):
            nothing.add_(0)  # the end of any recording tells the generators that none is under way
