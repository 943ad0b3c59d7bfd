"""Processes that train one model together, started by torchrun. One process alone is a team, too.

Every process takes a share of each batch; gradients are summed over all of them. Whatever else they exchange is
small, JSON, and sent over gloo, so that no GPU waits for it.
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
"""Variables that torchrun sets for each process. Some schedulers set one or another of them for other purposes."""

PATIENCE = timedelta(hours=24)
"""How long the others wait for the first process, which prepares the data; that may take long."""

COURTESY = 30
"""Seconds that the first process has to print why all of them end."""


class Team:
    """A team of one process. `rank` counts from 0 and is below `size`; the first process writes and prints for all."""

    rank, size = 0, 1

    @property
    def restarted(self) -> bool:
        """Whether torchrun has started this process again because one died."""
        return int(os.environ.get(RESTARTS, 0)) > 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def device(self, device: str) -> str:
        """The device of this process, given the one that the user names for all."""
        return device

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module] = ()) -> nn.Module:
        """A model whose backward pass leaves the mean of all processes' gradients.

        If `blocks` of it are given, its weights are sharded as well: each process holds a part of every matrix, and a
        block is complete only while it computes.
        """
        return model

    def without_exchange(self, model: nn.Module) -> AbstractContextManager:
        """A context for a backward pass whose gradients are exchanged later, with those of the next pass."""
        return nullcontext()

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank. They must fit into JSON."""
        return [value]

    def together(self, work: Callable[[], Result]) -> Result:
        """Do work in the first process only, while the others wait; all get its result, or its error."""
        return work()

    def in_turn(self, work: Callable[[], Result]) -> Result:
        """Do work in the first process, then in the others, which find ready what the first has made."""
        return work()

    def loudest(self, number: int) -> int:
        """The largest of all processes' numbers, of this call or of the one before."""
        return number

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items that this process is to work on."""
        return items[self.rank :: self.size]

    def joined(self, results: Sequence[Any]) -> list[Any]:
        """The results of all processes, in the order of the items that were shared."""
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
        """Asks without waiting: the answer is that of the previous call, the same in all processes."""
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
    """The error of the first process, which prints it itself."""
    error = ManyheadsError(told["message"], told["hint"])
    error.status, error.said = told["status"], True
    return error


def let_the_first_speak() -> None:
    """Wait before exiting: torchrun stops all processes when one ends, and the first still has to print the error."""
    time.sleep(COURTESY)


def whole(tensor: Tensor) -> Tensor:
    """The complete tensor. If it is sharded, all processes must call this, and the parts are put together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """A complete tensor in the form of a parameter: on its device and, if it is sharded, sharded like it."""
    tensor = tensor.to(parameter.device)
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)


def several() -> bool:
    """Whether torchrun started more than one process."""
    return TORCHRUN.issubset(os.environ) and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def gathered() -> Iterator[Team]:
    """The team of this process, for as long as the context lasts."""
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
    """End the group of processes.

    Sharded weights hold on to it in reference cycles, so garbage is collected first. What PyTorch itself remembers of
    them still keeps the group and its threads alive: see `leave`.
    """
    gc.collect()
    dist.destroy_process_group()


def leave(status: int) -> NoReturn:
    """End this process without Python's own shutdown.

    During that, a thread of the group that releases a tensor would abort the process, after all the work is done.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def join_others() -> None:
    """Join the other processes of the team.

    They find each other through a store that outlives them. Each start by torchrun uses its own part of the store;
    otherwise processes would find the addresses of dead ones.
    """
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    mine = dist.PrefixStore(f"start-{os.environ.get(RESTARTS, 0)}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=mine, rank=rank, world_size=size, timeout=PATIENCE)


def lost(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "Connection", "NCCL"))
