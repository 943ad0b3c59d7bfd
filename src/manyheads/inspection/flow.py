"""How vectors pass through the model: the input of every sublayer in one pass, what it adds, and the result.

    found = flow(model, source, target)
    found.source["0/attention/x"]          the input of the attention of encoder layer 0: (S, 1 + CELLS)

Each vector is its length followed by its first CELLS numbers: enough to watch it, small enough for a page. Before the
first block:

    words     rows of the embedding table       scaled    these times √D, in an encoder-decoder
    segment   for the kind of text (BERT)       position  what is added for the position
    summed    the sum of these, if a norm follows                            embedded  the input of the first block

For each sublayer:

    x         its input                         y         its output
    normed    the norm's output: of x (pre-norm), or of x + y (post-norm)
    sum       x + y
    up, gate, hidden, active                    feed-forward only: before and after the activation; how many are not 0

T tokens · D model width
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.inspection.trace import KINDS, SIDES, Model, one_pass, stacks
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.transformer import Transformer
from manyheads.nn.blocks import DecoderBlock, EncoderBlock
from manyheads.nn.feedforward import FeedForward
from manyheads.nn.layout import Layout
from manyheads.nn.residual import PreNorm, Residual
from manyheads.nn.unchanged import unchanged

__all__ = ["CELLS", "Flow", "flow"]

CELLS = 16

Parts = dict[str, Float[np.ndarray, "T {CELLS}+1"]]


@dataclass(frozen=True, eq=False)
class Flow:
    """The parts of what the encoder reads and of what the decoder reads; empty if the model has no such stack.

    log_sums   log-sum-exp of each row's logits: a logit is its log-probability plus that. Empty for an encoder-only
               model, which has no logits
    """

    source: Parts
    target: Parts
    log_sums: list[float]


@torch.no_grad()
def flow(model: Model, source: Sequence[int], target: Sequence[int]) -> Flow:
    """Watch one pass, as `trace` makes it: the source with its end, the target with its begin."""
    seen: dict[str, Parts] = {side: {} for side in SIDES.values()}
    with evaluating(model), ExitStack() as hooks:
        for kind, stack in stacks(model).items():
            parts = seen[SIDES[kind]]
            watch_embedding(model, kind, parts, hooks)
            for number, block in enumerate(cast(Iterable[EncoderBlock | DecoderBlock], stack.blocks)):
                watch_block(block, f"{number}/", parts, hooks)
            if isinstance(stack.norm, nn.Module):
                watch_last(stack.norm, parts, hooks)
        output = one_pass(model, source, target, {kind: [] for kind in KINDS})  # lists: the same path as in `trace`
    sums = [] if isinstance(model, TextEncoder) else output.double().logsumexp(-1).tolist()
    return Flow(**seen, log_sums=sums)


# ── watching ────────────────────────────────────────────────────────────────────────────────────────────────────────


def watch_embedding(model: Model, kind: str, parts: Parts, hooks: ExitStack) -> None:
    """Note everything from the words to the input of the first block."""
    match model:
        case Transformer():
            embed = model.embed_source if kind == "encoder" else model.embed_target
            hooks.callback(embed.register_forward_hook(partial(note_scaled, parts)).remove)
        case TextEncoder():
            hooks.callback(model.embed.register_forward_hook(partial(note_kinds, parts)).remove)
        case LanguageModel():
            watch_bare(model, parts, hooks)


def watch_bare(model: LanguageModel, parts: Parts, hooks: ExitStack) -> None:
    """A language model has no embedding module: words are noted at their table, the rest at the input of the blocks."""
    read: list[Tensor] = []

    def words(_: Any, __: Any, out: Tensor) -> None:
        read.append(out)

    def begin(_: Any, given: tuple[Tensor, Any]) -> None:
        parts.update(words=cells(read[0]), position=cells(given[0] - read[0]), embedded=cells(given[0]))

    hooks.callback(model.words.register_forward_hook(words).remove)
    hooks.callback(model.decoder.register_forward_pre_hook(begin).remove)


def note_scaled(parts: Parts, embed: Any, given: tuple[Tensor, Any], out: Tensor) -> None:
    scaled = given[0] * embed.scale
    parts.update(words=cells(given[0]), scaled=cells(scaled), position=cells(out - scaled), embedded=cells(out))


def note_kinds(parts: Parts, embed: Any, given: tuple[Tensor, Layout, Any], out: Tensor) -> None:
    """Note the words, the kind of their text, their positions, and the sum if the model normalises it."""
    words, layout, _ = given
    parts.update(words=cells(words))
    if embed.segments is not None:
        kind = embed.segments.weight[0].expand_as(words)
        parts.update(segment=cells(kind))
        words = words + kind
    summed = embed.positions(words, layout)
    parts.update(position=cells(summed - words), embedded=cells(out))
    if embed.norm is not unchanged:
        parts.update(summed=cells(summed))


def watch_last(norm: nn.Module, parts: Parts, hooks: ExitStack) -> None:
    """Note the norm after the last block. If each decoder layer reads its own encoder layer, the last call counts."""

    def note(_: Any, given: tuple[Tensor], out: Tensor) -> None:
        parts.update({"last/x": cells(given[0]), "last/normed": cells(out)})

    hooks.callback(norm.register_forward_hook(note).remove)


def watch_block(block: EncoderBlock | DecoderBlock, name: str, parts: Parts, hooks: ExitStack) -> None:
    feedforward = cast(FeedForward, block.feedforward)
    for sublayer, last, around in sublayers(block):
        watch_residual(around, last, f"{name}{sublayer}/", parts, hooks)
    watch_hidden(feedforward, f"{name}feedforward/", parts, hooks)


def sublayers(block: EncoderBlock | DecoderBlock) -> Iterator[tuple[str, nn.Module, Residual]]:
    """Yield (name, the module that produces its output, the residual around it)."""
    yield "attention", block.attention.output, block.around_attention
    if isinstance(block, DecoderBlock):
        yield "cross", block.cross.output, block.around_cross
    yield "feedforward", cast(FeedForward, block.feedforward).down, block.around_feedforward


def watch_residual(around: Residual, last: nn.Module, name: str, parts: Parts, hooks: ExitStack) -> None:
    def gave(_: Any, __: Any, y: Tensor) -> None:
        parts[f"{name}y"] = cells(y)

    def normed(_: Any, __: Any, out: Tensor) -> None:
        parts[f"{name}normed"] = cells(out)

    def passed(_: Any, given: tuple[Tensor, Any, Any]) -> None:
        parts[f"{name}x"] = cells(given[0])

    def added(_: Any, given: tuple[Tensor], out: Tensor) -> None:
        parts[f"{name}sum"] = cells(out if isinstance(around, PreNorm) else given[0])

    hooks.callback(last.register_forward_hook(gave).remove)
    hooks.callback(around.norm.register_forward_hook(normed).remove)
    hooks.callback(around.register_forward_pre_hook(passed).remove)
    whole = around if isinstance(around, PreNorm) else around.norm  # the input of a post-norm is the sum
    hooks.callback(whole.register_forward_hook(added).remove)


def watch_hidden(feedforward: FeedForward, name: str, parts: Parts, hooks: ExitStack) -> None:
    """Note the input of the activation before it runs, because some activations work in place."""

    def rose(_: Any, __: Any, up: Tensor) -> None:
        halves = up.chunk(feedforward.activation.inputs, dim=-1)
        parts.update({f"{name}{part}": cells(half) for part, half in zip(("up", "gate"), halves, strict=False)})

    def shone(_: Any, given: tuple[Tensor]) -> None:
        parts[f"{name}hidden"] = cells(given[0])
        active = (given[0][0] != 0).sum(-1, keepdim=True)
        parts[f"{name}active"] = nn.functional.pad(active, (0, CELLS)).cpu().numpy().astype("float32")

    hooks.callback(feedforward.up.register_forward_hook(rose).remove)
    hooks.callback(feedforward.down.register_forward_pre_hook(shone).remove)


def cells(x: Float[Tensor, "1 T D"]) -> np.ndarray:
    """The length and the first CELLS numbers of each vector, padded with zeros if there are fewer."""
    rows = x[0].double()
    first = nn.functional.pad(rows[:, :CELLS], (0, max(0, CELLS - rows.shape[1])))
    return torch.cat((rows.norm(dim=-1, keepdim=True), first), dim=-1).cpu().numpy().astype("float32")
