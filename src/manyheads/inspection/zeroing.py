"""Value-zeroing (Mohebbi et al., 2023): how much a row of a layer changes when the value of one piece is set to 0.

Weights say where a head looks, but a value that it looks at may be small, or be undone by the rest of the layer. So
each piece's value is removed from one attention, from all its heads at once, and the output of the layer is compared
with what it was before: 1 − the cosine. Rows are scaled to add up to 1, and averaged over the layers of the decoder, or
of the encoder if there is no decoder.

n pieces, each of them left out once · H heads · T rows · S keys · V value width · D model width
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from manyheads.decoding.batching import evaluating
from manyheads.inspection.trace import Model, attentions, one_pass, stacks
from manyheads.inspection.vectors import MOST_TOKENS, Pair, Sides
from manyheads.models.encoder import TextEncoder
from manyheads.nn.blocks import DecoderBlock, EncoderBlock
from manyheads.nn.fused import share_heads
from manyheads.nn.layout import Padded
from manyheads.nn.multihead import MultiHeadAttention

__all__ = ["block_changes", "value_zeroing", "value_zeroing_alone"]

Block = EncoderBlock | DecoderBlock
Given = tuple[Any, ...]


@torch.no_grad()
def value_zeroing(pair: Pair) -> Sides:
    """What the rows of a decoder owe to the source, if there is one, and to the target."""
    found = layer_changes(pair.model, pair.source, pair.target)
    target = mean_of([pair.seen(changes) for changes in found["decoder"]])
    return mean_of(found["cross"]) if "cross" in found else target[:, :0], target


@torch.no_grad()
def value_zeroing_alone(model: TextEncoder, source: Int[Tensor, " S"]) -> Float[Tensor, "S S"]:
    """What the rows of an encoder owe to each other."""
    return mean_of(layer_changes(model, source, source[:0])["encoder"])


def layer_changes(
    model: Model, source: Int[Tensor, " S"], target: Int[Tensor, " T"]
) -> dict[str, list[Float[Tensor, "T n"]]]:
    """The changes for every attention of the last stack, layer by layer."""
    *_, (kind, last) = stacks(model).items()
    blocks = cast(Sequence[Block], list(last.blocks))
    keys = {"encoder": len(source), "cross": len(source), "decoder": len(target)}
    with evaluating(model):
        with given_to(blocks) as given:
            one_pass(model, source.tolist(), target.tolist(), {})
        return {
            name: [block_changes(*both, given[both[0]], keys[name]) for both in zip(blocks, layers, strict=True)]
            for name, layers in attentions(model).items()
            if name in (kind, "cross")
        }


def mean_of(layers: Sequence[Float[Tensor, "T n"]]) -> Float[Tensor, "T n"]:
    """The mean over layers, after scaling each row to add up to 1."""
    return torch.stack([changes / changes.sum(-1, keepdim=True).clamp(min=1e-12) for changes in layers]).mean(0)


def block_changes(block: Block, attention: MultiHeadAttention, given: Given, keys: int) -> Float[Tensor, "T n"]:
    """1 − the cosine between a block's output and its output without the value of each key in one of its attentions."""
    x = given[0]
    whole = cast(Tensor, block(*given))
    some = max(1, MOST_TOKENS // x.shape[1])
    found = []
    for left_out in torch.arange(keys, device=x.device).split(some):
        same = torch.zeros_like(left_out)
        hook = attention.register_forward_hook(without_value(left_out), with_kwargs=True)
        try:
            changed = block(*(one.select(same) if isinstance(one, Padded) else one[same] for one in given))
        finally:
            hook.remove()
        found.append(1 - F.cosine_similarity(changed.double(), whole.double(), dim=-1))
    return torch.cat(found).T.clamp(min=0).float()


def without_value(keys: Tensor) -> Any:
    """A hook that subtracts the weighted value of one key from an attention's output, a different key in each row."""

    def change(attention: Any, args: tuple[Tensor], options: dict[str, Any], output: Tensor) -> Tensor:
        _, weights = attention.forward(*args, **options, return_weights=True)
        memory, layout = options.get("memory"), options["layout"]
        read = layout if memory is None else options["memory_layout"]
        value = share_heads(attention.projected(args[0], memory, layout, read)[2], attention.heads)
        rows = torch.arange(len(keys), device=keys.device)
        part = weights[rows, :, :, keys].to(value)[..., None] * value[rows, :, keys][:, :, None]  # n H T V
        part = part.transpose(1, 2).flatten(2)
        return output - (attention.output(part) - attention.output(torch.zeros_like(part)))

    return change


@contextmanager
def given_to(blocks: Sequence[Block]) -> Iterator[dict[Block, Given]]:
    """In this context, collect the inputs of each block.

    These are its input and layout and, in a decoder that reads a source, the memory and the memory's layout.
    """
    found: dict[Block, Given] = {}

    def note(block: Any, args: Given) -> None:
        found[block] = args[: 4 if isinstance(block, DecoderBlock) else 2]

    hooks = [block.register_forward_pre_hook(note) for block in blocks]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
