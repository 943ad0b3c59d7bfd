"""Desks for a few sentences that are written at once on a GPU: all that is done with them is recorded as one launch (`recorded`).

A small model keeps a GPU busy for a few microseconds a kernel; ten iterations are some thousand kernels, which Python takes far longer to launch. A
recording is good for one shape. So that a few of them serve all sentences, their number and the source are rounded up, and there are places enough for
most translations; where one wants more, it is written once more without a desk. Many sentences keep a GPU busy by themselves, and get none.

B sentences · S source tokens
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.recorded import Eager, Player, Recorder
from manyheads.decoding.rooms import few_sizes, power_of_two, what_is_recorded
from manyheads.models.parallel import ParallelTransformer
from manyheads.text.tokenizer import END, PADDING

if TYPE_CHECKING:
    from manyheads.decoding.at_once import Computed, Way

__all__ = ["Desks", "desks_of", "forget_desks", "write_at_desk"]

MOST_DESKS = 64
MOST_PLACES = 8_192
"""Of all rows together, those that are there for other lengths among them: with more, kernels take longer than their launches."""

FINE, COARSE = 16, 128
"""The source is rounded up to a multiple of the first; beyond the second, to a power of two."""


class Desk:
    """Where the sentences go, and where what is known of them then lies."""

    def __init__(self, sentences: int, length: int, device: torch.device, player: Player) -> None:
        self.source = torch.zeros(sentences, length, dtype=torch.int64, device=device)
        self.computed: Computed | None = None
        self.player = player

    def write(self, compute: "Callable[[Tensor], Computed]", source: Int[Tensor, "B S"]) -> "Computed":
        """Behind the sentences there are others, which end where they begin."""
        sentences, length = source.shape
        self.source.fill_(PADDING)
        self.source[:, 0] = END
        self.source[:sentences, :length] = source
        self.player(partial(self.work, compute))
        assert self.computed is not None
        return tuple(x[:sentences] for x in self.computed)

    def work(self, compute: "Callable[[Tensor], Computed]") -> None:
        """What is computed while it is recorded is scratch; it is copied to where it stays."""
        found = compute(self.source)
        if self.computed is None:  # never while it is recorded: it was done once before
            self.computed = tuple(map(torch.clone, found))
        for kept, now in zip(self.computed, found, strict=True):
            kept.copy_(now)


class Desks:
    """The desks of one model on one device, those that were used last."""

    def __init__(self, device: torch.device, *, record: bool) -> None:
        self.device = device
        self.player: Callable[[], Player] = Recorder(device) if record else Eager
        self.kept: OrderedDict[Hashable, Desk] = OrderedDict()
        self.recorded: tuple[object, ...] = ()
        self.lock = Lock()

    def write(self, model: ParallelTransformer, source: Int[Tensor, "B S"], way: "Way") -> "Computed | None":
        """None if it finds no room, or there is no memory for it. One at a time: the desks are everybody's."""
        sentences, length = few_sizes(len(source)), rounded(source.shape[1], way.longest)
        room = way.room(model, length)
        key = (
            sentences,
            length,
            replace(way, how=replace(way.how, batch=1)),
        )  # how many lines are read at a time is no matter
        with self.lock:
            try:
                desk = self.take(model, key, sentences, length)
                found = desk.write(lambda ids: way.compute(model, ids, room), source)
                return found if way.fits(found, room) else None
            except torch.OutOfMemoryError:
                pass
            except BaseException:
                self.leave(key)
                raise
            # Only now: an exception that is being handled holds on to what it was raised in.
            self.leave(*self.kept)
            torch.cuda.empty_cache()
            return None

    def take(self, model: ParallelTransformer, key: Hashable, sentences: int, length: int) -> Desk:
        if (now := what_is_recorded(model)) != self.recorded:
            self.kept.clear()
            self.recorded = now
        if key not in self.kept:
            self.kept[key] = Desk(sentences, length, self.device, self.player())
        self.kept.move_to_end(key)
        while len(self.kept) > MOST_DESKS:
            self.kept.popitem(last=False)
        return self.kept[key]

    def leave(self, *keys: Hashable) -> None:
        """What is under way ends first: nobody is to be given its memory before."""
        if self.device.type == "cuda":
            with suppress(RuntimeError):  # of a GPU that is lost, what was raised before says more
                torch.cuda.synchronize(self.device)
        for key in keys:
            self.kept.pop(key, None)


def rounded(length: int, longest: int) -> int:
    """A table of learned positions ends, and with it the source."""
    up = -(-length // FINE) * FINE if length <= COARSE else power_of_two(length)
    return max(length, min(up, longest))


# ── which model's ───────────────────────────────────────────────────────────────────────────────────────────────────

KEPT: WeakKeyDictionary[ParallelTransformer, Desks] = WeakKeyDictionary()
KEEPING = Lock()


def desks_of(model: ParallelTransformer) -> Desks:
    device = model.words.weight.device
    with KEEPING:
        if model not in KEPT or KEPT[model].device != device:
            KEPT[model] = Desks(device, record=device.type == "cuda")
        return KEPT[model]


def forget_desks(model: object) -> None:
    """Give the memory back."""
    with KEEPING:
        KEPT.pop(model, None)  # type: ignore[arg-type]


def applies(model: object, source: Int[Tensor, "B S"], way: "Way") -> bool:
    """On a GPU, for a plain model without hooks, which are Python that a replay would not run."""
    if not source.is_cuda or type(model) is not ParallelTransformer:
        return False
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        return False
    places = way.room(model, rounded(source.shape[1], way.longest))
    return few_sizes(len(source)) * way.rows * places <= MOST_PLACES


def write_at_desk(model: ParallelTransformer, source: Int[Tensor, "B S"], way: "Way") -> "Computed | None":
    """What `way` computes; None where that is better done without a desk."""
    if not applies(model, source, way):
        return None
    with (
        torch.cuda.device(source.device) if source.is_cuda else nullcontext(),
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast(source.device.type, enabled=False),
    ):
        return desks_of(model).write(model, source, way)
