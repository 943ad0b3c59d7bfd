"""What a written piece owes to the word vectors that were read: by leaving one out, by gradients, or by a path of them.

    leave_one_out          f(x) − f(x with the vector of one piece set to 0)
    gradient_x_input       x · ∂f/∂x, at x
    integrated_gradients   x · the mean of ∂f/∂x on the straight path from 0 to x (Sundararajan et al., 2017)

f of row t is the log-probability of what that row writes. A vector of 0 removes the word but not its position.

B rows of a batch · S source pieces · T target pieces that are read · D model width · W words
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.batching import evaluating
from manyheads.decoding.mask_predict import words_alone
from manyheads.models.language_model import LanguageModel
from manyheads.models.transformer import Transformer
from manyheads.nn.table import Table

__all__ = ["Integrated", "LoneText", "Pair", "Places", "gradient_x_input", "integrated_gradients", "leave_one_out"]

MOST_TOKENS = 4_096
"""Pieces, of both sides, computed together."""
MOST_PASSES = 64
"""Most gradients of all rows along a path: some seconds for the bundled model, on one core."""
NEAR = 0.02
"""A path is fine enough when its sums miss at most this share of the largest change of a row."""
FIRST_STRETCHES = 8
NODES = (0.5 - 3**-0.5 / 2, 0.5 + 3**-0.5 / 2)
"""The two points of Gaussian quadrature on a stretch."""

Sides = tuple[Float[Tensor, "T S"], Float[Tensor, "T T"]]
"""What each row owes to each piece of the source, and to each piece of the target that it has read."""
Vectors = tuple[Float[Tensor, "B S D"], Float[Tensor, "B T D"]]


@dataclass(frozen=True, eq=False)
class Pair:
    """What a model reads and what each of its rows writes: `source`, `target` and `written` are ids."""

    model: Transformer | LanguageModel
    source: Int[Tensor, " S"]
    target: Int[Tensor, " T"]
    written: Int[Tensor, " T"]

    @property
    def vectors(self) -> Vectors:
        tables = tables_of(self.model)
        return tuple(table.weight[ids][None].detach() for table, ids in zip(tables, self.ids, strict=True))  # type: ignore[return-value]

    @property
    def ids(self) -> tuple[Int[Tensor, " S"], Int[Tensor, " T"]]:
        return self.source, self.target

    def seen(self, owed: Float[Tensor, "T T"]) -> Float[Tensor, "T T"]:
        """What rows owe to the target pieces that they may see: their own and those before it."""
        return owed.tril()

    def states(self, vectors: Vectors) -> Float[Tensor, "B T D"]:
        """The decoder's states, given these vectors in place of the words."""
        model = cast(Transformer, self.model)
        source, target = (ids.expand(len(given), -1) for ids, given in zip(self.ids, vectors, strict=True))
        with evaluating(model), reading(model, vectors):
            return model.states(target, model.encode(source))

    def allowed(self, logits: Float[Tensor, "*rows W"]) -> Float[Tensor, "*rows W"]:
        """The logits without ids that the model may never write."""
        return logits

    def scores(self, states: Float[Tensor, "*rows D"], written: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
        """The log-probability of what each row writes."""
        log_p = self.allowed(self.model.logits(states)).double().log_softmax(-1)
        return log_p.gather(-1, written[..., None])[..., 0]

    @torch.no_grad()
    def values(self, vectors: Vectors) -> Float[Tensor, "B T"]:
        some = max(1, MOST_TOKENS // (len(self.source) + len(self.target)))
        batches = zip(*(one.split(some) for one in vectors), strict=True)
        return torch.cat([self.scores(x, self.written.expand(x.shape[:2])) for x in map(self.states, batches)])


class LoneText(Pair):
    """The same for a language model, whose source is empty."""

    def states(self, vectors: Vectors) -> Float[Tensor, "B T D"]:
        model, (_, given) = cast(LanguageModel, self.model), vectors
        with evaluating(model), reading(model, (given,)):
            return model.states(self.target.expand(len(given), -1))


@dataclass(frozen=True, eq=False)
class Places(Pair):
    """The same for a model that writes all at once: each row sees all places. Ids below `first` are never written."""

    first: int

    def seen(self, owed: Float[Tensor, "T T"]) -> Float[Tensor, "T T"]:
        return owed

    def allowed(self, logits: Float[Tensor, "*rows W"]) -> Float[Tensor, "*rows W"]:
        return words_alone(logits, self.first)


def tables_of(model: Transformer | LanguageModel) -> tuple[Table, Table]:
    """The embedding tables of the source and of the target."""
    return model.words, (model.target_words or model.words) if isinstance(model, Transformer) else model.words


@contextmanager
def reading(model: Transformer | LanguageModel, vectors: Sequence[Float[Tensor, "B n D"]]) -> Iterator[None]:
    """In this context, the model gets these vectors in place of words, the source's first, as it reads that first."""
    given = iter(vectors)

    def replaced(*_: Any) -> Tensor:
        return next(given)

    hooks = [table.register_forward_hook(replaced) for table in {*tables_of(model)}]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# ── the methods ─────────────────────────────────────────────────────────────────────────────────────────────────────


def leave_one_out(pair: Pair) -> Sides:
    source, target = pair.vectors
    whole = pair.values((source, target))
    without_source = whole[:0]
    if source.shape[1]:
        without_source = pair.values((each_left_out(source), target.expand(source.shape[1], -1, -1)))
    without_target = pair.values((source.expand(target.shape[1], -1, -1), each_left_out(target)))
    return (whole - without_source).T, pair.seen((whole - without_target).T)


def each_left_out(vectors: Float[Tensor, "1 n D"]) -> Float[Tensor, "n n D"]:
    """One copy per piece, with the vector of that piece set to 0."""
    there = 1 - torch.eye(vectors.shape[1], device=vectors.device, dtype=vectors.dtype)
    return vectors * there[..., None]


def gradient_x_input(pair: Pair) -> Sides:
    return products(pair, pair.vectors, gradients(pair, pair.vectors))


@dataclass(frozen=True, eq=False)
class Integrated:
    """`whole` is the total change of each row, f(x) − f(0); `gap` is how far the sums miss it at most."""

    sides: Sides
    whole: Float[Tensor, " T"]
    gap: float


def integrated_gradients(pair: Pair, most: int = MOST_PASSES, near: float = NEAR) -> Integrated:
    """Cut the path into stretches, and halve the one that misses most of its change until their total is near enough.

    (What a stretch changes is known from its ends. A softmax that tips over makes some stretches much rougher than
    others.)
    """

    def at(share: float) -> Float[Tensor, " T"]:
        return pair.values(scaled(pair.vectors, share))[0]

    whole = at(1.0) - at(0.0)
    ends = [n / FIRST_STRETCHES for n in range(FIRST_STRETCHES + 1)]
    stretches = [Stretch.taken(pair, at, *both) for both in pairwise(ends)]
    passes = len(NODES) * len(stretches)
    while gap_of(stretches) > near * float(whole.abs().max()) and passes < most:
        worst = max(stretches, key=lambda stretch: float(stretch.missed.abs().max()))
        middle = (worst.start + worst.end) / 2
        halves = [Stretch.taken(pair, at, worst.start, middle), Stretch.taken(pair, at, middle, worst.end)]
        stretches = [stretch for stretch in stretches if stretch is not worst] + halves
        passes += len(NODES) * len(halves)
    source, target = (sum(stretch.sides[n] for stretch in stretches) for n in range(2))
    return Integrated((source, target), whole, gap_of(stretches))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Stretch:
    """A part of the path from no words to all of them: what it adds, and how much of its change that misses."""

    start: float
    end: float
    sides: Sides
    missed: Float[Tensor, " T"]

    @classmethod
    def taken(cls, pair: Pair, at: Callable[[float], Tensor], start: float, end: float) -> "Stretch":
        found = [gradients(pair, scaled(pair.vectors, start + node * (end - start))) for node in NODES]
        mean = tuple(sum(both) / len(NODES) for both in zip(*found, strict=True))
        source, target = products(pair, scaled(pair.vectors, end - start), mean)  # type: ignore[arg-type]
        return cls(start, end, (source, target), at(end) - at(start) - source.sum(1) - target.sum(1))


def gap_of(stretches: list[Stretch]) -> float:
    return float(sum(stretch.missed for stretch in stretches).abs().max())  # type: ignore[union-attr]


def scaled(vectors: Vectors, share: float) -> Vectors:
    return vectors[0] * share, vectors[1] * share


def products(pair: Pair, vectors: Vectors, slopes: Vectors) -> Sides:
    source, target = ((one * slope).sum(-1) for one, slope in zip(vectors, slopes, strict=True))
    return source, pair.seen(target)


def gradients(pair: Pair, vectors: Vectors) -> Vectors:
    """The gradient of what row t writes, for every t, each taken from a copy of its own in a batch."""
    rows, tokens = len(pair.target), len(pair.source) + len(pair.target)
    some = max(1, MOST_TOKENS // tokens)
    found = [slopes_of(pair, vectors, range(rows)[n : n + some]) for n in range(0, rows, some)]
    source, target = (torch.cat(side) for side in zip(*found, strict=True))
    return source, target


def slopes_of(pair: Pair, vectors: Vectors, rows: range) -> Vectors:
    with torch.enable_grad():
        copies = [one.expand(len(rows), -1, -1).clone().requires_grad_() for one in vectors]
        states = pair.states((copies[0], copies[1]))[range(len(rows)), rows]
        told = pair.scores(states, pair.written[rows.start : rows.stop])
        source, target = torch.autograd.grad(
            told.sum(), copies, materialize_grads=True
        )  # an empty source is unused: its gradient is 0
    return source, target
