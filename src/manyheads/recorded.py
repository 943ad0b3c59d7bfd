"""Work on a GPU that is recorded once and replayed: one launch for all of its kernels.

A small model keeps a GPU busy for a few microseconds a kernel, and Python takes longer than that to launch the next. A CUDA
graph is launched as a whole.

What is recorded are kernels and addresses. A replay reads what lies at these addresses now: weights that were changed in
place are seen; tensors that were put elsewhere are not, and whoever keeps a recording must notice (`decoding/recordings`).
"""

import warnings
from collections.abc import Callable

import torch

from manyheads.cuda_graph import record
from manyheads.errors import first_line

__all__ = ["Eager", "Player", "Recorded", "Recorder", "warn"]

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

    def __init__(self, recorder: "Recorder") -> None:
        self.recorder = recorder
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warm = self.refused = False

    def __call__(self, work: Work) -> None:
        if self.to_record:
            self.graph = self.try_to_record(work)
        if self.graph is None:
            self.run(work)
            self.warm = True
        else:
            self.graph.replay()

    @property
    def to_record(self) -> bool:
        """Is it to be recorded before it is done again?"""
        return self.graph is None and self.warm and not self.refused

    def run(self, work: Work) -> None:
        """On the stream that records, after what was launched before and before what is launched next."""
        stream = self.recorder.stream
        current = torch.cuda.current_stream(stream.device)
        stream.wait_stream(current)
        try:
            with torch.cuda.stream(stream):
                work()
        finally:
            current.wait_stream(stream)

    def try_to_record(self, work: Work) -> torch.cuda.CUDAGraph | None:
        try:
            return self.recorder.record(work)
        except torch.OutOfMemoryError:
            raise  # done as it is, it would need as much
        except Exception as error:
            self.refuse(first_line(error))
            return None

    def refuse(self, why: str) -> None:
        self.refused = True
        self.recorder.tell(why)


def warn(why: str) -> None:
    warnings.warn(
        f"a search runs step by step, and slower: it could not be recorded as a CUDA graph ({why})",
        RuntimeWarning,
        stacklevel=4,
    )


class Recorder:
    """Makes recordings that share their scratch memory: they are replayed one after the other, and what is to stay is
    written into tensors that were there before.

    tell   is told why something could not be recorded
    """

    def __init__(self, device: torch.device, tell: Callable[[str], None] = warn) -> None:
        self.tell = tell
        with torch.cuda.device(device):
            self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

    def __call__(self) -> Recorded:
        return Recorded(self)

    def record(self, work: Work) -> torch.cuda.CUDAGraph:
        try:
            return record(work, self.stream, self.pool)
        except BaseException:
            self.pool = torch.cuda.graph_pool_handle()
            raise


Player = Eager | Recorded
