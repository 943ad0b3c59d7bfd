"""Everything that a model's attentions compute in one pass.

    found = trace(model, source, target)        ids: the source with its end, the target with its begin
    found.cross[2].weights                      the weights of every head of decoder layer 2 on the source: (H, T, S)
    found.encoder[0].inside()                   the queries, keys, values and scores that weights are computed from

A model has one stack of blocks or two: an encoder reads a source, a decoder reads a target, and in a model with both
the decoder also looks at the source. An encoder-only model has no target and a language model no source; everything
else here is the same for all.

Weights come from the explicit path of attention; tests hold the model's other paths equal to it. They are returned,
never kept in the model.

H heads · G key/value heads · T queries · S keys · K key width · V value width · D model width
W words of the target vocabulary
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.transformer import Transformer
from manyheads.nn.attention import masked_softmax
from manyheads.nn.blocks import Decoder, DecoderBlock, Encoder, EncoderBlock
from manyheads.nn.fused import share_heads
from manyheads.nn.layout import Padded
from manyheads.nn.masks import trim, within
from manyheads.nn.multihead import MultiHeadAttention, visible

__all__ = ["KINDS", "SIDES", "Attended", "Inside", "Model", "Trace", "attentions", "one_pass", "stacks", "trace"]

KINDS = ("encoder", "decoder", "cross")
"""The attentions of an encoder-decoder: the source to itself, the target to itself, the target to the source."""
SIDES = {"encoder": "source", "decoder": "target"}
"""What each stack reads."""
Model = Transformer | TextEncoder | LanguageModel


class Inside(NamedTuple):
    """What the weights of one attention are computed from: weights = softmax(scores over the keys in `seen`)."""

    q: Float[Tensor, "H T K"]
    k: Float[Tensor, "G S K"]
    v: Float[Tensor, "G S V"]
    scores: Float[Tensor, "H T S"]
    seen: Bool[Tensor, "T S"]
    weights: Float[Tensor, "H T S"]


class Attended(NamedTuple):
    """One attention in one pass: the module, its inputs, and its weights."""

    attention: MultiHeadAttention
    given: dict[str, Any]
    weights: Float[Tensor, "H T S"]

    @torch.no_grad()
    def inside(self) -> Inside:
        """Recompute it step by step: projections, scores, mask and weights."""
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
    """The attentions of every layer, and the states and output of the model. A kind that it lacks has an empty list.

    states   the output of each block of the last stack; a pre-norm model applies one more norm after its last block
    output   of the model: the logits of each row or, for an encoder-only model, the last states
    """

    encoder: list[Attended]
    decoder: list[Attended]
    cross: list[Attended]
    states: list[Float[Tensor, "T D"]]
    output: Float[Tensor, "T W"]

    @property
    def logits(self) -> Float[Tensor, "T W"]:
        """The output of a model that writes."""
        return self.output

    @property
    def layers(self) -> dict[str, list[Attended]]:
        """The attentions by kind, without kinds that the model lacks."""
        return {kind: found for kind in KINDS if (found := getattr(self, kind))}

    def weights(self) -> dict[str, list[Float[Tensor, "H T S"]]]:
        return {kind: [one.weights for one in layers] for kind, layers in self.layers.items()}


@torch.no_grad()
def trace(model: Model, source: Sequence[int], target: Sequence[int]) -> Trace:
    """Run one pass over a source and a known target: row t reads target[t] and predicts what comes after it."""
    there = attentions(model)
    weights: dict[str, list[Tensor]] = {kind: [] for kind in there}
    *_, last = stacks(model).values()
    with evaluating(model), calls(model) as given, outputs(last.blocks) as states:
        output = one_pass(model, source, target, weights)
    found = {kind: list[Attended]() for kind in KINDS} | {
        kind: [Attended(one, given[one], seen[0]) for one, seen in zip(layers, weights[kind], strict=True)]
        for kind, layers in there.items()
    }
    return Trace(**found, states=[state[0] for state in states], output=output)


def one_pass(
    model: Model, source: Sequence[int], target: Sequence[int], weights: Mapping[str, list[Tensor]]
) -> Float[Tensor, "T W"]:
    """The output of one pass. If `weights` has a list for a kind, the weights of its layers are appended to it."""
    read, written = (torch.tensor([list(ids)], device=model.words.weight.device) for ids in (source, target))
    match model:
        case TextEncoder():
            return model(read, None, None, weights.get("encoder"))[0]
        case LanguageModel():
            return model(written, None, weights.get("decoder"))[0]
        case Transformer():
            memory = model.encode(read, None, weights.get("encoder"))
            return model.decode(written, memory, None, weights.get("decoder"), weights.get("cross"))[0]


def stacks(model: Model) -> dict[str, Encoder | Decoder]:
    """The model's stacks by the kind of their self-attention, in the order in which a pass goes through them."""
    return {kind: getattr(model, kind) for kind in SIDES if hasattr(model, kind)}


def attentions(model: Model) -> dict[str, list[MultiHeadAttention]]:
    """The attentions of each kind that a model has, layer by layer."""
    blocks = {kind: cast(list[EncoderBlock | DecoderBlock], stack.blocks) for kind, stack in stacks(model).items()}
    found = {kind: [block.attention for block in some] for kind, some in blocks.items()}
    cross = [block.cross for block in blocks.get("decoder", []) if isinstance(block, DecoderBlock)]
    return found | ({"cross": cross} if cross else {})


@contextmanager
def calls(model: Model) -> Iterator[dict[MultiHeadAttention, dict[str, Any]]]:
    """In this context, collect the inputs of each attention, by name."""
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
    """In this context, collect the outputs of modules, in the order of their calls."""
    found: list[Tensor] = []
    hooks = [module.register_forward_hook(lambda _, args, output: found.append(output)) for module in modules]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
