"""Processes that train one model together, started by torchrun. One process alone is a team, too.

Every process takes a share of each batch; gradients are summed over all of them. What they tell each other beside that is
small and JSON, over gloo, so that no GPU waits for it.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from manyheads.errors import ManyheadsError, OptionError, TrainingError

__all__ = ["ALONE", "Processes", "Team", "gathered", "leave", "let_the_first_speak", "like", "several", "whole"]

Result = TypeVar("Result")
Item = TypeVar("Item")

RESTARTS = "TORCHELASTIC_RESTART_COUNT"
TORCHRUN = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
"""What it tells each process; some schedulers set one or the other of them for purposes of their own."""

PATIENCE = timedelta(hours=24)
"""How long the others wait for the first: it prepares the data, which may be much."""

COURTESY = 30
"""Seconds that the first process has for saying why all of them end."""


class Team:
    """One process. `rank` counts from 0 and is below `size`; the first process writes and speaks for all."""

    rank, size = 0, 1

    @property
    def restarted(self) -> bool:
        """Did torchrun start it again, because something died?"""
        return int(os.environ.get(RESTARTS, 0)) > 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def device(self, device: str) -> str:
        """What this process computes on, if the user names a device for all."""
        return device

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module] = ()) -> nn.Module:
        """A model whose backward pass leaves the mean of everyone's gradients.

        If `blocks` of it are given, its weights are shared out as well: each process holds a part of every matrix, and a
        block is whole only while it computes.
        """
        return model

    def without_exchange(self, model: nn.Module) -> AbstractContextManager:
        """A backward pass whose gradients are exchanged later, with those of the next."""
        return nullcontext()

    def gather(self, value: Any) -> list[Any]:
        """What every process says, by rank. It must be JSON."""
        return [value]

    def together(self, work: Callable[[], Result]) -> Result:
        """What only the first process does and the others wait for. It fails for all or for none."""
        return work()

    def in_turn(self, work: Callable[[], Result]) -> Result:
        """The first process does it, then the others: they find ready what it made."""
        return work()

    def loudest(self, number: int) -> int:
        """The largest number that any process said: of this step, or of the one before."""
        return number

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process' part of what is to be done."""
        return items[self.rank :: self.size]

    def joined(self, results: Sequence[Any]) -> list[Any]:
        """Everyone's results in the order of the items that were shared."""
        shares = self.gather(list(results))
        joined = [None] * sum(map(len, shares))
        for rank, share in enumerate(shares):
            joined[rank :: self.size] = share
        return joined


ALONE = Team()


class Processes(Team):
    """The processes that torchrun started."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        self.asked: tuple[torch.Tensor, Any] | None = None

    def device(self, device: str) -> str:
        if device not in ("auto", "cuda") or not torch.cuda.is_available():
            return device
        if self.local_rank >= torch.cuda.device_count():
            raise OptionError(
                f"each process needs a GPU of its own, got process {self.local_rank} and {torch.cuda.device_count()} GPUs",
                hint=f"torchrun --nproc-per-node {torch.cuda.device_count()}, or --device cpu",
            )
        torch.cuda.set_device(self.local_rank)
        return f"cuda:{self.local_rank}"

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module] = ()) -> nn.Module:
        if not blocks:
            return DistributedDataParallel(model)
        mesh = init_device_mesh(next(model.parameters()).device.type, (self.size,))
        for block in (*blocks, model):
            fully_shard(block, mesh=mesh)
        return model

    def without_exchange(self, model: nn.Module) -> AbstractContextManager:
        return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()

    def gather(self, value: Any) -> list[Any]:
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(content)]))
        longest = max(int(size) for size in sizes)
        rows = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(rows, torch.cat([content, content.new_zeros(longest - len(content))]))
        return [json.loads(bytes(row[: int(size)].tolist())) for row, size in zip(rows, sizes, strict=True)]

    def together(self, work: Callable[[], Any]) -> Any:
        result, failure = None, None
        if self.first:
            try:
                result = work()
            except BaseException as error:
                failure = error
        outcome = {"result": result, "error": None if failure is None else described(failure)}
        told = self.gather(outcome if self.first else None)[0]
        if failure is not None:
            raise failure
        if told["error"] is not None:
            raise heard(told["error"])
        return told["result"]

    def in_turn(self, work: Callable[[], Result]) -> Result:
        made: list[Result] = []
        self.together(lambda: made.append(work()))
        return made[0] if self.first else work()

    def loudest(self, number: int) -> int:
        """Asked without waiting: the answer is that of the step before, and the same for all."""
        found = 0
        if self.asked is not None:
            said, answer = self.asked
            answer.wait()
            found = int(said)
        said = torch.tensor([number])
        self.asked = (said, dist.all_reduce(said, dist.ReduceOp.MAX, async_op=True))
        return found


def described(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ManyheadsError):
        return {"message": error.message, "hint": error.hint, "status": error.status}
    return {"message": f"the first process failed: {error!r}", "hint": None, "status": 1}


def heard(told: dict[str, Any]) -> ManyheadsError:
    """What went wrong in the first process, which says it."""
    error = ManyheadsError(told["message"], told["hint"])
    error.status, error.said = told["status"], True
    return error


def let_the_first_speak() -> None:
    """torchrun stops everybody as soon as anybody ends. Who has nothing to say is stopped by it after the first has spoken."""
    time.sleep(COURTESY)


def whole(tensor: Tensor) -> Tensor:
    """A tensor, if need be put together from the parts that processes hold: all must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """A whole tensor as the parameter is: on its device and, if it is shared out, shared out like it."""
    tensor = tensor.to(parameter.device)
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)


def several() -> bool:
    """Did torchrun start more than this process?"""
    return TORCHRUN.issubset(os.environ) and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def gathered() -> Iterator[Team]:
    """The team that this process is in, for as long as it works."""
    if not several():
        yield ALONE
        return
    join_others()
    team = Processes()
    try:
        yield team
    except RuntimeError as error:
        if isinstance(error, ManyheadsError) or not lost(error):
            raise
        raise TrainingError(f"process {team.rank} lost contact with the others; what was saved is untouched") from None
    finally:
        disband()


def disband() -> None:
    """Weights that are shared out hold the group in circles, which only a collection finds. What PyTorch itself remembers of
    them holds it still, with its threads: see `leave`."""
    gc.collect()
    dist.destroy_process_group()


def leave(status: int) -> NoReturn:
    """End this process without Python's own end: a thread of the group that lets go of a tensor meanwhile would abort it,
    after all the work is done."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def join_others() -> None:
    """Processes find each other through a store that outlives them. Each time that torchrun starts them they have a part of
    it of their own: they would else find the addresses of the dead."""
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    mine = dist.PrefixStore(f"start-{os.environ.get(RESTARTS, 0)}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=mine, rank=rank, world_size=size, timeout=PATIENCE)


def lost(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "Connection", "NCCL"))
