"""Desks for a few sentences that are written at once on a GPU: all that is done with them is recorded as one launch (`recorded`).

A small model keeps a GPU busy for a few microseconds a kernel; ten iterations are some thousand kernels, which Python takes far longer to launch. A
recording is good for one shape. So that a few of them serve all sentences, their number and the source are rounded up, and there are places enough for
nearly all translations; where they were not, the next desk of this kind has as many as it took. More sentences than that keep a GPU busy by themselves, and get
none.

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
"""Of all rows together, those that are there for other lengths among them: with more, kernels take longer than their launches."""

IDLE_PLACES = 8_192
"""Up to so many, kernels hardly take longer for being given more of them: the number of sentences is rounded up generously, so that there are few shapes."""

FINE, COARSE = 16, 128
"""Lengths are rounded up to a multiple of the first; beyond the second, to a power of two."""


class Shape(NamedTuple):
    """What a desk is for."""

    sentences: int
    source: int
    way: Way


class Desk:
    """Where the sentences go, and where what is known of them then lies."""

    def __init__(self, shape: Shape, device: torch.device, player: Player) -> None:
        self.source = torch.zeros(shape.sentences, shape.source, dtype=torch.int64, device=device)
        self.player = player
        self.computed: Any = None

    def write(self, compute: Callable[[Tensor], Any], source: Int[Tensor, "B S"]) -> Any:
        """What is computed of the sentences; it is overwritten by the next. Behind them there are others, which end where they begin."""
        sentences, length = source.shape
        self.source.fill_(PADDING)
        self.source[:, 0] = END
        self.source[:sentences, :length] = source
        self.player(partial(self.work, compute))
        return type(self.computed)(*(x[:sentences] for x in self.computed))

    def work(self, compute: Callable[[Tensor], Any]) -> None:
        """What is computed while it is recorded is scratch; it is copied to where it stays."""
        found = compute(self.source)
        if self.computed is None:  # never while it is recorded: it was done once before
            self.computed = copied(found)
        for kept, now in zip(self.computed, found, strict=True):
            kept.copy_(now)


class Desks(Recordings[Shape, Desk]):
    """The desks of one model on one device, those that were used last.

    wider   places that were needed, where there were not enough
    """

    def __init__(self, device: torch.device, *, record: bool) -> None:
        super().__init__(device, record=record)
        self.wider: dict[Shape, int] = {}

    def write(self, model: Writer, source: Int[Tensor, "B S"], way: Way, read: Callable[[Any], Read]) -> Read | None:
        """None where it is better done without. One at a time, until it is read: the desks are everybody's."""
        alike = replace(way, how=replace(way.how, batch=1))  # how many lines are read at a time is no matter
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
            # Only now: an exception that is being handled holds on to what it was raised in.
            self.refused.add(shape)
            self.give_memory_back(shape)
            return None

    def fitting(self, model: Writer, source: Int[Tensor, "B S"], way: Way) -> tuple[Shape, int]:
        """A shape that has room for the sentences, and its places."""
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
    """A table of learned positions ends, and with it what is read and written."""
    up = -(-length // FINE) * FINE if length <= COARSE else power_of_two(length)
    return max(length, min(up, longest))


def desks_of(model: Writer) -> Desks:
    return recordings_of(model, Desks, next(model.parameters()).device)


def applies(model: Writer, source: Int[Tensor, "B S"]) -> bool:
    """On a GPU, for plain models without hooks, alone, with a judge or with several as one."""
    if not source.is_cuda or has_hooks(model):
        return False
    if not isinstance(model, WriterAndJudge):
        return type(model) is ParallelTransformer
    judges = {type(one) for one in plain_models(model.judge)}
    return type(model.writer) is ParallelTransformer and judges == {Transformer}


def write_at_desk(model: Writer, source: Int[Tensor, "B S"], way: Way, read: Callable[[Any], Read]) -> Read | None:
    """What is read of what `way` computes, which stays no longer than that; None where it is better done without a desk. What inference mode makes could
    not be written to outside of it, and desks outlive it: they are made without."""
    if not applies(model, source):
        return None
    with (
        torch.cuda.device(source.device) if source.is_cuda else nullcontext(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        return desks_of(model).write(model, source, way, read)
