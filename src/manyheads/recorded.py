"""Work on a GPU that is recorded once and then replayed, with a single launch for all of its kernels.

A kernel of a small model keeps a GPU busy for a few microseconds, and Python takes longer than that to launch the
next. A CUDA graph is launched at once.

A graph records kernels and addresses. A replay reads what is at these addresses now: it sees weights that were
changed in place, but not tensors that were moved, and the code that keeps a recording must notice that
(`decoding/recordings`).
"""

import warnings
from collections.abc import Callable

import torch

from manyheads.cuda_graph import record
from manyheads.errors import first_line

__all__ = ["Eager", "Player", "Recorded", "Recorder", "warn"]

Work = Callable[[], None]


class Eager:
    """Runs work without recording it."""

    def __call__(self, work: Work) -> None:
        work()


class Recorded:
    """Runs the same work repeatedly: first eagerly, which also warms up what a recording needs, then as a recording.

    Work that runs once is thus never recorded, and no run is wasted. The work is passed in with each call and not
    kept, so a recording does not keep a model alive. Work that cannot be recorded runs eagerly from then on.
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
        """True if the next call should record the work first."""
        return self.graph is None and self.warm and not self.refused

    def run(self, work: Work) -> None:
        """Run work on the recording stream, after everything launched so far and before anything launched later."""
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
            raise  # run eagerly, the work would need as much
        except Exception as error:
            self.refuse(first_line(error))
            return None

    def refuse(self, why: str) -> None:
        self.refused = True
        self.recorder.tell(why)


def warn(why: str) -> None:
    warnings.warn(
        f"could not record a search as a CUDA graph, continuing step by step, which is slower: {why}",
        RuntimeWarning,
        stacklevel=4,
    )


class Recorder:
    """Makes recordings that share their scratch memory.

    They must be replayed one after the other, and write any result that is to last into tensors that existed before.

    tell   called with the reason if something could not be recorded
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
