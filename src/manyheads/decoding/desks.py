"""Desks for a few sentences that are written at once on a GPU: all work on them is recorded as one launch (`recorded`).

A small model keeps a GPU busy for a few microseconds per kernel; ten iterations are some thousand kernels, which Python
takes far longer to launch. A recording fits one shape. So that a few of them serve all sentences, the number of
sentences and the length of the source are rounded up, and there are enough places for nearly all translations; if there
were not, the next desk for this shape has as many as were needed. Larger batches keep a GPU busy by themselves, and get
no desk.

B sentences · S source tokens
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.judging import WriterAndJudge
from manyheads.decoding.recordings import Recordings, few_sizes, has_hooks, plain_models, power_of_two, recordings_of
from manyheads.decoding.way import Way, copied
from manyheads.models.parallel import ParallelTransformer
from manyheads.models.transformer import Transformer
from manyheads.recorded import Player
from manyheads.text.tokenizer import END, PADDING

__all__ = ["Desks", "applies", "desks_of", "write_at_desk"]

Writer = ParallelTransformer | WriterAndJudge
Read = TypeVar("Read")

MOST_DESKS = 64
MOST_PLACES = 32_768
"""Of all rows together, including those for other lengths: with more, kernels take longer than their launches."""

IDLE_PLACES = 8_192
"""Up to this number of places, kernels hardly take longer for more of them.

So the number of sentences is rounded up generously, which keeps the shapes few.
"""

FINE, COARSE = 16, 128
"""Lengths are rounded up to a multiple of the first; beyond the second, to a power of two."""


class Shape(NamedTuple):
    """What a desk is for."""

    sentences: int
    source: int
    way: Way


class Desk:
    """Where sentences are put in, and where the results then lie."""

    def __init__(self, shape: Shape, device: torch.device, player: Player) -> None:
        self.source = torch.zeros(shape.sentences, shape.source, dtype=torch.int64, device=device)
        self.player = player
        self.computed: Any = None

    def write(self, compute: Callable[[Tensor], Any], source: Int[Tensor, "B S"]) -> Any:
        """Return what is computed of the sentences. The next call overwrites it.

        Rows behind the sentences hold others that end where they begin.
        """
        sentences, length = source.shape
        self.source.fill_(PADDING)
        self.source[:, 0] = END
        self.source[:sentences, :length] = source
        self.player(partial(self.work, compute))
        return type(self.computed)(*(x[:sentences] for x in self.computed))

    def work(self, compute: Callable[[Tensor], Any]) -> None:
        """Compute, and copy the result to where it stays: whatever is allocated in a recording is scratch memory."""
        found = compute(self.source)
        if self.computed is None:  # never during a recording: the first run is not recorded
            self.computed = copied(found)
        for kept, now in zip(self.computed, found, strict=True):
            kept.copy_(now)


class Desks(Recordings[Shape, Desk]):
    """The most recently used desks of one model on one device.

    wider   the number of places that were needed, for shapes that had too few
    """

    def __init__(self, device: torch.device, *, record: bool) -> None:
        super().__init__(device, record=record)
        self.wider: dict[Shape, int] = {}

    def write(self, model: Writer, source: Int[Tensor, "B S"], way: Way, read: Callable[[Any], Read]) -> Read | None:
        """What `read` returns; None if the batch is better written without a desk.

        One batch at a time, until it is read: the desks are shared.
        """
        alike = replace(way, how=replace(way.how, batch=1))  # the batch size changes nothing
        with self.lock:
            self.renew(model)
            shape, room = self.fitting(model, source, alike)
            if shape in self.refused or shape.sentences * way.rows * room > MOST_PLACES:
                return None
            try:
                found = self.take(shape).write(lambda ids: way.compute(model, ids, room), source)
                if (needs := way.needs(found)) <= room:
                    return read(found)
                self.wider[shape] = rounded(needs, way.longest)
                self.leave(shape)
                return None
            except torch.OutOfMemoryError:
                found = None
            except BaseException:
                self.leave(shape)
                raise
            # Only now: an exception keeps the frames that it was raised in alive while it is handled.
            self.refused.add(shape)
            self.give_memory_back(shape)
            return None

    def fitting(self, model: Writer, source: Int[Tensor, "B S"], way: Way) -> tuple[Shape, int]:
        """A shape that has room for the sentences, and its number of places."""
        length = rounded(source.shape[1], way.longest)
        for round_up in (few_sizes, power_of_two):
            shape = Shape(round_up(len(source)), length, way)
            room = self.wider.get(shape) or way.room(model, length)
            if shape.sentences * way.rows * room <= IDLE_PLACES:
                break
        return shape, room

    def take(self, shape: Shape) -> Desk:
        if shape not in self.kept:
            self.kept[shape] = Desk(shape, self.device, self.player())
        self.kept.move_to_end(shape)
        while len(self.kept) > MOST_DESKS:
            self.kept.popitem(last=False)
        return self.kept[shape]


def rounded(length: int, longest: int) -> int:
    """The length rounded up, but not beyond a table of learned positions, which bounds what is read and written."""
    up = -(-length // FINE) * FINE if length <= COARSE else power_of_two(length)
    return max(length, min(up, longest))


def desks_of(model: Writer) -> Desks:
    return recordings_of(model, Desks, next(model.parameters()).device)


def applies(model: Writer, source: Int[Tensor, "B S"]) -> bool:
    """True on a GPU, for plain models without hooks, alone or with a judge, which may be an ensemble."""
    if not source.is_cuda or has_hooks(model):
        return False
    if not isinstance(model, WriterAndJudge):
        return type(model) is ParallelTransformer
    judges = {type(one) for one in plain_models(model.judge)}
    return type(model.writer) is ParallelTransformer and judges == {Transformer}


def write_at_desk(model: Writer, source: Int[Tensor, "B S"], way: Way, read: Callable[[Any], Read]) -> Read | None:
    """What `read` returns for what `way` computes; None if that is better done without a desk.

    What is computed is valid only while it is read. Tensors made in inference mode cannot be written to outside of it,
    and desks outlive it: they are made without.
    """
    if not applies(model, source):
        return None
    with (
        torch.cuda.device(source.device) if source.is_cuda else nullcontext(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        return desks_of(model).write(model, source, way, read)
