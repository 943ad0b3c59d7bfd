"""Everything that the attentions of a model do with one pair of sequences, in one pass.

    found = trace(model, source, target)        ids: the source with its end, the target with its begin
    found.cross[2].weights                      every head of decoder layer 2 at the source: (H, T, S)
    found.encoder[0].inside()                   the queries, keys, values and scores that they were made of

Weights are those of the explicit path, which the model's other paths are held equal to by tests. They are returned, never
kept in the model.

H heads · G key/value heads · T queries · S keys · K key width · V value width · D model width · W words of the target vocabulary
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.models.transformer import Transformer
from manyheads.nn.attention import masked_softmax
from manyheads.nn.blocks import DecoderBlock, EncoderBlock
from manyheads.nn.fused import share_heads
from manyheads.nn.layout import Padded
from manyheads.nn.masks import trim, within
from manyheads.nn.multihead import MultiHeadAttention, visible

__all__ = ["KINDS", "Attended", "Inside", "Trace", "trace"]

KINDS = ("encoder", "decoder", "cross")
"""The attentions of an encoder-decoder: the source to itself, the target to itself, the target to the source."""


class Inside(NamedTuple):
    """What the weights of one attention are made of: weights = softmax(scores, where they may be seen)."""

    q: Float[Tensor, "H T K"]
    k: Float[Tensor, "G S K"]
    v: Float[Tensor, "G S V"]
    scores: Float[Tensor, "H T S"]
    seen: Bool[Tensor, "T S"]
    weights: Float[Tensor, "H T S"]


class Attended(NamedTuple):
    """One attention in one pass: where it looked, and what it was given."""

    attention: MultiHeadAttention
    given: dict[str, Any]
    weights: Float[Tensor, "H T S"]

    @torch.no_grad()
    def inside(self) -> Inside:
        """Step by step: the projections, their scores, what may be seen, and the weights once more."""
        attention, given = self.attention, self.given
        x, memory, layout = given["x"], given.get("memory"), given["layout"]
        read = cast(Padded, layout if memory is None else given["memory_layout"])
        q, k, v = attention.projected(x, memory, layout, read)
        scores = attention.score(q.float(), share_heads(k, attention.heads).float())
        queries, keys = scores.shape[2:]
        window = trim(attention.bounds, queries, keys)
        mask = within(visible(read, None), window, queries, keys, x.device)
        seen = torch.ones_like(scores[:, :1], dtype=torch.bool) if mask is None else mask.expand_as(scores[:, :1])
        return Inside(q[0], k[0], v[0], scores[0], seen[0, 0], masked_softmax(scores, mask)[0])


@dataclass(frozen=True, eq=False)
class Trace:
    """The attentions of every layer, and what they led to: `states` of each layer of the decoder, and logits of the last.

    (States are as the blocks give them; a pre-norm model puts one more norm behind its last.)
    """

    encoder: list[Attended]
    decoder: list[Attended]
    cross: list[Attended]
    states: list[Float[Tensor, "T D"]]
    logits: Float[Tensor, "T W"]

    def weights(self) -> dict[str, list[Float[Tensor, "H T S"]]]:
        return {kind: [one.weights for one in getattr(self, kind)] for kind in KINDS}


@torch.no_grad()
def trace(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Trace:
    """One pass over a source and a target that is known: row t reads target[t] and says what comes after it."""
    device = model.words.weight.device
    read, written = (torch.tensor([list(ids)], device=device) for ids in (source, target))
    weights: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    with evaluating(model), calls(model) as given, outputs(model.decoder.blocks) as states:
        memory = model.encode(read, None, weights["encoder"])
        logits = model.decode(written, memory, None, weights["decoder"], weights["cross"])[0]
    found = {
        kind: [
            Attended(attention, given[attention], seen[0])
            for attention, seen in zip(attentions(model)[kind], weights[kind], strict=True)
        ]
        for kind in KINDS
    }
    return Trace(**found, states=[state[0] for state in states], logits=logits)


def attentions(model: Transformer) -> dict[str, list[MultiHeadAttention]]:
    encoder, decoder = cast(list[EncoderBlock], model.encoder.blocks), cast(list[DecoderBlock], model.decoder.blocks)
    return {
        "encoder": [block.attention for block in encoder],
        "decoder": [block.attention for block in decoder],
        "cross": [block.cross for block in decoder],
    }


@contextmanager
def calls(model: Transformer) -> Iterator[dict[MultiHeadAttention, dict[str, Any]]]:
    """While this lasts, what each attention is given, by name."""
    given: dict[MultiHeadAttention, dict[str, Any]] = {}

    def note(attention: Any, args: tuple[Tensor], options: dict[str, Any]) -> None:
        given[attention] = {"x": args[0], **options}

    modules = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in modules]
    try:
        yield given
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def outputs(modules: Iterable[nn.Module]) -> Iterator[list[Tensor]]:
    """While this lasts, what modules give, in the order that they are called in."""
    found: list[Tensor] = []
    hooks = [module.register_forward_hook(lambda _, args, output: found.append(output)) for module in modules]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
