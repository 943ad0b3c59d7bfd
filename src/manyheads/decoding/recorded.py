"""Work on a GPU that is recorded once and replayed: one launch for all of its kernels.

A small model keeps a GPU busy for a few microseconds a kernel, and Python takes longer than that to launch the next. A CUDA
graph is launched as a whole.

What is recorded are kernels and addresses. A replay reads what lies at these addresses now: weights that were changed in
place are seen; tensors that were put elsewhere are not, and whoever keeps a recording must notice (`recordings`).
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any

import torch

from manyheads.errors import first_line

__all__ = ["Eager", "Player", "Recorder"]

Work = Callable[[], None]


class Eager:
    """Runs what it is given, as it is."""

    def __call__(self, work: Work) -> None:
        work()


class Recorded:
    """Does the same work again and again: first as it is, which also warms up what a recording needs, then recorded.

    So work that is done once is never recorded, and nothing is done in vain. The work is handed in at each call and not
    kept: a recording does not keep a model alive. Work that cannot be recorded is done as it is from then on.
    """

    one_at_a_time = Lock()
    """The process may record one graph at a time."""

    def __init__(self, stream: torch.cuda.Stream, pool: Any) -> None:
        self.stream, self.pool = stream, pool
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = self.refused = False

    def __call__(self, work: Work) -> None:
        if self.graph is None and self.warm and not self.refused:
            self.graph = self.try_to_record(work)
        if self.graph is None:
            self.run(work)
            self.warm = True
        else:
            self.graph.replay()

    def run(self, work: Work) -> None:
        """On the stream that records, after what was launched before and before what is launched next."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                work()
        finally:
            current.wait_stream(self.stream)

    def try_to_record(self, work: Work) -> torch.cuda.CUDAGraph | None:
        """What is recorded does not run meanwhile: after a recording that failed, the work is still to be done."""
        try:
            return self.record(work)
        except torch.OutOfMemoryError:
            raise  # done as it is, it would need as much
        except Exception as error:
            self.refused = True
            # Where the recording could not even be ended, what was raised before says why.
            reason = first_line(error.__context__ or error)
            warnings.warn(
                f"a search runs step by step, and slower: it could not be recorded as a CUDA graph ({reason})",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    def record(self, work: Work) -> torch.cuda.CUDAGraph:
        """`thread_local`: other threads may go on allocating meanwhile, as those that make batches do."""
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.stream.device)
        with torch.cuda.stream(self.stream):
            # Every thread has its own handle of cuBLAS, made when it is first needed; a recording does not allow that, and another thread may have warmed up.
            torch.cuda.current_blas_handle()
        try:
            with (
                Recorded.one_at_a_time,
                torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"),
            ):
                work()
        except BaseException:
            torch.cuda.set_stream(before)  # a recording that cannot be ended does not go back to it
            give_up(self.stream, self.pool)
            raise
        return graph


def give_up(stream: torch.cuda.Stream, pool: Any) -> None:
    """End for the allocator, and for the generators of random numbers, a recording that could not be ended: the first would give nothing from this pool to
    the next one, and whoever draws from the others would fail. Where it has ended, or the GPU is lost, what was raised before says more."""
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(stream.device.index, pool)
    graph = torch.cuda.CUDAGraph()
    with suppress(RuntimeError), torch.cuda.stream(stream):
        nothing = torch.zeros((), device=stream.device)
        with Recorded.one_at_a_time, torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            nothing.add_(0)  # generators learn from the end of any recording that none is under way


class Recorder:
    """Makes recordings that share their scratch memory: they are replayed one after the other, and what is to stay is
    written into tensors that were there before."""

    def __init__(self, device: torch.device) -> None:
        with torch.cuda.device(device):
            self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def __call__(self) -> Recorded:
        return Recorded(self.stream, self.pool)


Player = Eager | Recorded
