"""How a vector goes through the model: what every sublayer of one pass is given, adds, and hands on.

    found = flow(model, source, target)
    found.source["0/attention/x"]          what goes into the attention of encoder layer 0: (S, 1 + CELLS)

Of each vector its length comes first, then its first CELLS numbers: enough to watch it, small enough for a page. For each sublayer:

    x         what comes in                     y         what the sublayer makes of it
    normed    the norm's output: of x (pre-norm), or of x + y (post-norm)
    sum       x + y
    up, gate, hidden, active                    only of feed-forward: before and after the activation; how many are not 0

T tokens · D model width
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.decoding.batching import evaluating
from manyheads.models.parts import Embed
from manyheads.models.transformer import Transformer
from manyheads.nn.blocks import DecoderBlock, EncoderBlock
from manyheads.nn.feedforward import FeedForward
from manyheads.nn.residual import PreNorm, Residual

__all__ = ["CELLS", "Flow", "flow"]

CELLS = 16

Parts = dict[str, Float[np.ndarray, "T {CELLS}+1"]]


@dataclass(frozen=True, eq=False)
class Flow:
    """`log_sums` are those of each row's logits: a logit is its log-probability plus that."""

    source: Parts
    target: Parts
    log_sums: list[float]


@torch.no_grad()
def flow(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Flow:
    """One pass, as `trace` makes it: the source with its end, the target with its begin."""
    device = model.words.weight.device
    read, written = (torch.tensor([list(ids)], device=device) for ids in (source, target))
    seen: dict[str, Parts] = {"encoder": {}, "decoder": {}}
    with evaluating(model), ExitStack() as hooks:
        for side, embed in (("encoder", model.embed_source), ("decoder", model.embed_target)):
            watch_embedding(embed, seen[side], hooks)
            stack = getattr(model, side)
            for number, block in enumerate(stack.blocks):
                watch_block(block, f"{number}/", seen[side], hooks)
            if isinstance(stack.norm, nn.Module):
                watch_last(stack.norm, seen[side], hooks)
        logits = model.decode(written, model.encode(read, None, []), None, [], [])[
            0
        ]  # lists: by the path that `trace` takes
    return Flow(seen["encoder"], seen["decoder"], logits.double().logsumexp(-1).tolist())


# ── watching ────────────────────────────────────────────────────────────────────────────────────────────────────────


def watch_embedding(embed: Embed, parts: Parts, hooks: ExitStack) -> None:
    def note(_: Any, given: tuple[Tensor, Any], out: Tensor) -> None:
        scaled = given[0] * embed.scale
        parts.update(words=cells(given[0]), scaled=cells(scaled), position=cells(out - scaled), embedded=cells(out))

    hooks.callback(embed.register_forward_hook(note).remove)


def watch_last(norm: nn.Module, parts: Parts, hooks: ExitStack) -> None:
    """The norm behind the last block. Where every decoder layer reads its own encoder layer, the last call counts."""

    def note(_: Any, given: tuple[Tensor], out: Tensor) -> None:
        parts.update({"last/x": cells(given[0]), "last/normed": cells(out)})

    hooks.callback(norm.register_forward_hook(note).remove)


def watch_block(block: EncoderBlock | DecoderBlock, name: str, parts: Parts, hooks: ExitStack) -> None:
    feedforward = cast(FeedForward, block.feedforward)
    for sublayer, last, around in sublayers(block):
        watch_residual(around, last, f"{name}{sublayer}/", parts, hooks)
    watch_hidden(feedforward, f"{name}feedforward/", parts, hooks)


def sublayers(block: EncoderBlock | DecoderBlock) -> Iterator[tuple[str, nn.Module, Residual]]:
    """(its name, the module whose output it gives, what stands around it)."""
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
    whole = around if isinstance(around, PreNorm) else around.norm  # a post-norm is given the sum
    hooks.callback(whole.register_forward_hook(added).remove)


def watch_hidden(feedforward: FeedForward, name: str, parts: Parts, hooks: ExitStack) -> None:
    """What goes into the activation must be noted before it: some activations work in place."""

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
    """Lengths and first numbers; where there are fewer, zeros behind them."""
    rows = x[0].double()
    first = nn.functional.pad(rows[:, :CELLS], (0, max(0, CELLS - rows.shape[1])))
    return torch.cat((rows.norm(dim=-1, keepdim=True), first), dim=-1).cpu().numpy().astype("float32")
