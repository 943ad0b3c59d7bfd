"""Value-zeroing (Mohebbi et al., 2023): how much a row of a layer changes when the value of one piece is set to 0.

Weights say where a head looks; a value that is looked at may still be small, or be undone by the rest of the layer. So each
piece's value is taken out of one attention, of all its heads at once, and what comes out of the whole layer is compared with
what came out before: 1 − the cosine. Rows are made to add up to 1, and the mean over the layers of the decoder is given.

n pieces, of which each is left out once · H heads · T rows · S keys · V value width · D model width
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.inspection.vectors import MOST_TOKENS, Pair, Sides
from manyheads.nn.blocks import DecoderBlock
from manyheads.nn.fused import share_heads
from manyheads.nn.layout import Padded
from manyheads.nn.multihead import MultiHeadAttention

__all__ = ["block_changes", "value_zeroing"]

Given = tuple[Any, ...]


@torch.no_grad()
def value_zeroing(pair: Pair) -> Sides:
    blocks = cast(Sequence[DecoderBlock], list(pair.model.decoder.blocks))
    with evaluating(pair.model), given_to(blocks) as given:
        pair.model(pair.source[None], pair.target[None])
    with evaluating(pair.model):
        source = [shares(block_changes(block, block.cross, given[block], len(pair.source))) for block in blocks]
        target = [
            shares(block_changes(block, block.attention, given[block], len(pair.target)).tril()) for block in blocks
        ]
    return torch.stack(source).mean(0), torch.stack(target).mean(0)


def shares(changes: Float[Tensor, "T n"]) -> Float[Tensor, "T n"]:
    return changes / changes.sum(-1, keepdim=True).clamp(min=1e-12)


def block_changes(block: DecoderBlock, attention: MultiHeadAttention, given: Given, keys: int) -> Float[Tensor, "T n"]:
    """1 − the cosine between what a block gives, and what it gives without the value of each key in one of its attentions."""
    x, layout, memory, memory_layout = given
    whole = cast(Tensor, block(x, layout, memory, memory_layout))
    some = max(1, MOST_TOKENS // x.shape[1])
    found = []
    for left_out in torch.arange(keys, device=x.device).split(some):
        same = torch.zeros_like(left_out)
        hook = attention.register_forward_hook(without_value(left_out), with_kwargs=True)
        try:
            layouts = cast(Padded, layout).select(same), cast(Padded, memory_layout).select(same)
            changed = block(x[same], layouts[0], memory[same], layouts[1])
        finally:
            hook.remove()
        found.append(1 - F.cosine_similarity(changed.double(), whole.double(), dim=-1))
    return torch.cat(found).T.clamp(min=0).float()


def without_value(keys: Tensor) -> Any:
    """Of what an attention gives, the part that is the weighted value of one key is taken away, of another key in each row."""

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
def given_to(blocks: Sequence[nn.Module]) -> Iterator[dict[nn.Module, Given]]:
    """While this lasts, what each block of a decoder is given: (x, layout, memory, its layout)."""
    found: dict[nn.Module, Given] = {}
    hooks = [block.register_forward_pre_hook(lambda module, args: found.update({module: args[:4]})) for block in blocks]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
