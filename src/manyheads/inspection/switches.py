"""Heads switched off: what would the model do without them?

    with switched_off(model, [Head("cross", 2, 0)]):
        …                       every pass of the model, training or decoding, goes without that head

A head that is off adds nothing to the output of its attention: its part of the input of the output projection is 0. Or
it gives the same to every word: the mean of what it gives to the words of one pair, so that the rest of the model sees
roughly what it is used to.

H heads · C channels of a head
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from manyheads.errors import OptionError
from manyheads.inspection.trace import Model, attentions, trace
from manyheads.nn.multihead import MultiHeadAttention

__all__ = ["INSTEAD", "Head", "Means", "each_without", "every_head", "head_means", "switched_off"]

INSTEAD = {"zero": False, "mean": True}
"""What a head that is off gives, and whether that takes means."""
Means = Mapping[MultiHeadAttention, Float[Tensor, "H C"]]


class Head(NamedTuple):
    kind: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


def every_head(model: Model) -> list[Head]:
    return [
        Head(kind, layer, head)
        for kind, layers in attentions(model).items()
        for layer, attention in enumerate(layers)
        for head in range(attention.heads)
    ]


def head_means(model: Model, source: Sequence[int], target: Sequence[int]) -> Means:
    """For every head, the mean of what it gives to the pieces of a pair, with all heads on."""
    found: dict[MultiHeadAttention, Tensor] = {}
    with ExitStack() as hooks:
        for attention in (one for layers in attentions(model).values() for one in layers):

            def note(_: Any, given: tuple[Tensor], attention: MultiHeadAttention = attention) -> None:
                found[attention] = given[0].unflatten(-1, (attention.heads, -1)).flatten(0, -3).mean(0)

            hooks.callback(attention.output.register_forward_pre_hook(note).remove)
        trace(model, source, target)
    return found


@contextmanager
def switched_off(model: Model, heads: Collection[Head], means: Means | None = None) -> Iterator[None]:
    """In this context, the model goes without these heads. Recorded or compiled code is not affected."""
    with each_without(model, [heads], means):
        yield


@contextmanager
def each_without(model: Model, rows: Sequence[Collection[Head]], means: Means | None = None) -> Iterator[None]:
    """In this context, each row of a padded batch goes without its own set of heads; a single set is for every row."""
    layers = attentions(model)
    with ExitStack() as hooks:
        for attention, off in grouped(layers, rows):
            instead = None if means is None else means[attention]
            hook = attention.output.register_forward_pre_hook(silencer(attention, off, len(rows), instead))
            hooks.callback(hook.remove)
        yield


def grouped(
    layers: dict[str, list[MultiHeadAttention]], rows: Sequence[Collection[Head]]
) -> Iterator[tuple[MultiHeadAttention, list[tuple[int, int]]]]:
    """Yield each attention that has heads off, with their (row, head)."""
    found: dict[MultiHeadAttention, list[tuple[int, int]]] = {}
    for row, (kind, layer, head) in ((row, head) for row, heads in enumerate(rows) for head in heads):
        if kind not in layers or not 0 <= layer < len(layers[kind]) or not 0 <= head < layers[kind][layer].heads:
            raise OptionError(f"a head to switch off must exist in the model, got {kind} {layer}.{head}")
        found.setdefault(layers[kind][layer], []).append((row, head))
    yield from found.items()


def silencer(
    attention: MultiHeadAttention, off: list[tuple[int, int]], rows: int, instead: Float[Tensor, "H C"] | None
) -> Any:
    kept = torch.ones(rows, 1, attention.heads, 1)
    for row, head in off:
        kept[row, 0, head] = 0
    added = 0 if instead is None else (1 - kept.to(instead)) * instead

    def silence(_: Any, given: tuple[Tensor]) -> tuple[Tensor]:
        x = given[0].unflatten(-1, (attention.heads, -1))
        return ((x * kept.to(x) + added).flatten(-2),)

    return silence
