"""Rooms for `resident` searches: tensors of fixed shape, kept from one search to the next with their recordings.

A recording fits one shape. So that a few of them serve all batches, the numbers of sentences, source tokens and steps
are rounded up, and what is added has no effect: sentences without a token to write, padding, steps that are never
reached. Counted on 2,000 batches of 1 to 64 sentences of up to 300 tokens, with the bundled model: rounded to powers of
two (sentences to 1, 4, 16, 64), a room is made 65 times, and 1.6 sentences are computed for each one requested; rounded
up by a third at most, 1,013 times, and 1.15.

A step looks at the first 16 steps while it is one of them, then at 32, at 64, …: each is a recording of its own, in the
same room.

k beams
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from math import inf

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from manyheads.decoding.beam import beam_search
from manyheads.decoding.ensemble import Ensemble
from manyheads.decoding.hypothesis import Hypothesis, length_penalty
from manyheads.decoding.recordings import Recordings, few_sizes, has_hooks, plain_models, power_of_two, recordings_of
from manyheads.decoding.resident import Beams, begin, search_step, trace
from manyheads.models.transformer import Transformer
from manyheads.nn import Room
from manyheads.recorded import Player
from manyheads.text.tokenizer import END, PADDING

__all__ = ["Rooms", "applies", "resident_search", "room_for", "rooms_of"]

Model = Transformer | Ensemble

FIRST_LOOK = 16
"""Steps that the first steps look at."""

BEHIND = 2
"""At every step the host asks whether all sentences are done, and reads the answer of two steps before.

So the device never waits for the host, and makes at most two steps in vain.
"""

MOST_ROOMS = 64

MOST_BYTES = 8 << 30
"""Of all rooms of a model together, and so of any one."""

FREE_SHARE = 0.5
"""The share of free memory that may become rooms: a step needs some to compute in, and others use the device, too."""

FEW = 4
"""If there is no memory for a room of this many sentences, or fewer, the host does the search."""

WIDEST = 32
"""The widest beam that is searched in a room.

Each beam computes with the slots of all k beams and masks the others': k times the products of its own alone.
"""


class Kept:
    """A room and the recordings that are replayed in it."""

    def __init__(self, model: Model, room: Room, player: Callable[[], Player]) -> None:
        self.beams = Beams.empty(model, room)
        self.begin = player()
        self.steps: defaultdict[int, Player] = defaultdict(player)
        self.alpha = 0.0
        self.done = Answers(self.beams.going)

    def search(
        self, model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], alpha: float
    ) -> list[list[Hypothesis]]:
        self.fill(source, limits, alpha)
        self.begin(partial(begin, model, self.beams))
        self.done.forget()
        made = 0
        while made < max(limits):
            looked_at = min(self.beams.cache.room.steps, max(FIRST_LOOK, power_of_two(made + 1)))
            self.steps[looked_at](partial(search_step, model, self.beams, looked_at))
            made += 1
            going = self.done.ask(self.beams.going)
            if going is not None and not going.any():
                break
        return trace(self.beams, made, limits)

    def fill(self, source: Int[Tensor, "B S"], limits: Sequence[int], alpha: float) -> None:
        """Put in the sentences; behind them, sentences that are done before they start."""
        beams, (sentences, length) = self.beams, source.shape
        beams.source.fill_(PADDING)
        beams.source[:, 0] = END
        beams.source[:sentences, :length] = source
        beams.last.fill_(-1)
        beams.last[:sentences] = torch.tensor(limits, device=source.device) - 1
        if alpha != self.alpha:
            penalties = [length_penalty(n + 1, alpha) for n in range(len(beams.penalties))]
            beams.penalties.copy_(torch.tensor(penalties, dtype=beams.penalties.dtype))
            self.alpha = alpha


class Answers:
    """Numbers on the device that the host reads some questions later, so that nobody waits."""

    def __init__(self, like: Tensor) -> None:
        self.on_gpu = like.is_cuda
        self.spare = [
            (torch.empty_like(like, device="cpu", pin_memory=self.on_gpu), torch.cuda.Event() if self.on_gpu else None)
            for _ in range(BEHIND + 1)
        ]
        self.asked: deque[int] = deque()
        self.turn = 0

    def forget(self) -> None:
        self.asked.clear()

    def ask(self, value: Bool[Tensor, " B"]) -> Bool[Tensor, " B"] | None:
        """Ask for `value` as it will be after the work launched so far; return the answer of `BEHIND` questions before.

        None if there have not been as many questions yet.
        """
        self.turn = (self.turn + 1) % len(self.spare)
        answer, ready = self.spare[self.turn]
        answer.copy_(value, non_blocking=self.on_gpu)
        if ready is not None:
            ready.record()
        self.asked.append(self.turn)
        if len(self.asked) <= BEHIND:
            return None
        answer, ready = self.spare[self.asked.popleft()]
        if ready is not None:
            ready.synchronize()
        return answer


class Rooms(Recordings[Room, Kept]):
    """The most recently used rooms of one model on one device."""

    def search(
        self, model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], *, beam: int, alpha: float
    ) -> list[list[Hypothesis]] | None:
        """As `beam_search`; None if there is no memory for it. One search at a time: the rooms are shared."""
        with self.lock:
            self.renew(model)
            room = room_for(model, source, limits, beam)
            if room in self.refused:
                return None
            try:
                kept = self.take(model, room)
                return None if kept is None else kept.search(model, source, limits, alpha)
            except torch.OutOfMemoryError:
                kept = None
            except BaseException:
                self.leave(room)
                raise
            # Only now: an exception keeps the frames that it was raised in alive while it is handled.
            if room.sentences > FEW:  # a smaller one may do; the smallest may fit when others are gone
                self.refused.add(room)
            self.give_memory_back(*self.kept)
            return None

    def take(self, model: Model, room: Room) -> Kept | None:
        if room not in self.kept:
            if not self.make_way(room_bytes(model, room)):
                return None
            self.kept[room] = Kept(model, room, self.player)
        self.kept.move_to_end(room)
        return self.kept[room]

    def make_way(self, wanted: int) -> bool:
        """Drop the least recently used rooms until another one fits; False if it cannot."""
        most = min(MOST_BYTES, self.bytes + FREE_SHARE * free_bytes(self.device))
        if wanted > most:
            return False
        while self.kept and (len(self.kept) >= MOST_ROOMS or self.bytes + wanted > most):
            self.kept.popitem(last=False)
        return True

    @property
    def bytes(self) -> int:
        return sum(kept.beams.cache.bytes for kept in self.kept.values())


def room_for(model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], beam: int) -> Room:
    """The room for these sentences, rounded up. A table of learned positions bounds its steps and its source."""
    longest = model.config.max_length if model.config.positions == "learned" else 1 << 30
    return Room(
        sentences=few_sizes(len(limits)),
        beam=beam,
        source=min(longest, max(16, power_of_two(source.shape[1]))),
        steps=min(longest, max(2 * FIRST_LOOK, power_of_two(max(limits)))),
    )


def room_bytes(model: Model, room: Room) -> int:
    """Bytes of the keys and values, and of the mask of what each beam sees."""
    if isinstance(model, Ensemble):
        return sum(room_bytes(member, room) for member in model.models)
    config, sentences = model.config, room.sentences
    widths = (config.kv_heads or config.heads) * (config.head_width + (config.value_width or config.head_width))
    tokens = sentences * (room.beam * room.steps + room.source)
    held = tokens * widths * config.depth * model.words.weight.element_size()
    return held + sentences * room.beam * room.steps * room.beam


def free_bytes(device: torch.device) -> float:
    """Memory that the device has left, including what torch has reserved and nobody uses."""
    if device.type != "cuda":
        return inf
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


# ── the rooms of a model ────────────────────────────────────────────────────────────────────────────────────────────


def rooms_of(model: Model) -> Rooms:
    return recordings_of(model, Rooms, model.words.weight.device)


def applies(model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], beam: int) -> bool:
    """True on a GPU, for plain Transformers, alone or as an ensemble, and beams that fit.

    A hook is Python that a replay would not run, and a step of beams does not call the blocks that hooks are on.
    """
    if not source.is_cuda or beam > WIDEST or has_hooks(model):
        return False
    if {type(one) for one in plain_models(model)} != {Transformer}:
        return False
    room = room_for(model, source, limits, beam)
    return room_bytes(model, room._replace(sentences=min(room.sentences, FEW))) <= MOST_BYTES


def resident_search(
    model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], *, beam: int, alpha: float
) -> list[list[Hypothesis]]:
    """What `beam_search` returns or, for a beam of 1, greedy search, in the model's own precision.

    If there is no memory for a room, the sentences are searched in smaller batches, of the next size below. If there is
    none for the smallest, `beam_search` does the work, whose cache grows with what is written. Tensors made in
    inference mode cannot be written to outside of it, and rooms outlive it: they are made without.
    """
    here = torch.cuda.device(source.device) if source.is_cuda else nullcontext()
    with here, torch.inference_mode(False), torch.no_grad(), torch.autocast(source.device.type, enabled=False):
        return search_in_parts(model, source, limits, beam=beam, alpha=alpha)


def search_in_parts(
    model: Model, source: Int[Tensor, "B S"], limits: Sequence[int], *, beam: int, alpha: float
) -> list[list[Hypothesis]]:
    found = rooms_of(model).search(model, source, limits, beam=beam, alpha=alpha)
    if found is not None:
        return found
    few = next_smaller(few_sizes(len(limits)))
    if not few:
        return beam_search(model, source, limits, beam=beam, alpha=alpha)
    parts = [slice(start, start + few) for start in range(0, len(limits), few)]
    return [one for some in parts for one in search_in_parts(model, source[some], limits[some], beam=beam, alpha=alpha)]


def next_smaller(sentences: int) -> int:
    """The next smaller size, of `few_sizes`; 0 if none is worth it."""
    if sentences <= FEW:
        return 0
    return sentences // (2 if sentences > 64 else 4)
