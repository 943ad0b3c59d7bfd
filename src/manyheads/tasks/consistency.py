"""Losses that want a model to be of one mind: what it predicts should not hang on a word or a unit that happens to be missing.

    plain    CE(p)
    SimCut   CE(p) + α · KL(p ‖ p′)                                        p′ reads the pair with some words cut out
    R-Drop   ½ · [CE(p) + CE(p′) + α · ½ · (KL(p ‖ p′) + KL(p′ ‖ p))]      p and p′ differ by their dropout

SimCut is that of Gao et al. 2022 (Bi-SimCut): the gradient flows into p as well as into p′, which they found to matter. R-Drop is
half of what Liang et al. 2021 write: α keeps their meaning, and the loss stays as large as that of one pass.

Both passes are one, over the batch twice: twice the work and the memory of the plain loss, but no more launches.

B pairs · S source tokens · T target tokens · W words of the target vocabulary
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.models.parts import Embed
from manyheads.recipe import TrainConfig
from manyheads.tasks.losses import divergence, log_probabilities, smoothed_loss

__all__ = ["choose_loss", "cut_words", "plain_loss", "rdrop_loss", "simcut_loss"]

Loss = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]


def choose_loss(config: TrainConfig) -> Loss:
    """(model, source, target, labels) → summed loss, as the recipe wants it."""
    if config.simcut:
        return partial(simcut_loss, smoothing=config.smoothing, weight=config.simcut, cut=config.cut)
    if config.rdrop:
        return partial(rdrop_loss, smoothing=config.smoothing, weight=config.rdrop)
    return partial(plain_loss, smoothing=config.smoothing)


def plain_loss(
    model: nn.Module, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], labels: Int[Tensor, "B T"],
    *, smoothing: float,
) -> Float[Tensor, ""]:  # fmt: skip
    return smoothed_loss(model(source, target), labels, smoothing)


def simcut_loss(
    model: nn.Module, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], labels: Int[Tensor, "B T"],
    *, smoothing: float, weight: float, cut: float,
) -> Float[Tensor, ""]:  # fmt: skip
    with cut_words(model, draw_kept(source, cut), draw_kept(target, cut)):
        whole, with_cuts = predict_twice(model, source, target)
    apart = divergence(log_probabilities(whole), log_probabilities(with_cuts), labels)
    return smoothed_loss(whole, labels, smoothing) + weight * apart


def rdrop_loss(
    model: nn.Module, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], labels: Int[Tensor, "B T"],
    *, smoothing: float, weight: float,
) -> Float[Tensor, ""]:  # fmt: skip
    one, other = predict_twice(model, source, target)
    log_p, log_q = log_probabilities(one), log_probabilities(other)
    entropy = smoothed_loss(one, labels, smoothing) + smoothed_loss(other, labels, smoothing)
    apart = divergence(log_p, log_q, labels) + divergence(log_q, log_p, labels)
    return (entropy + weight * apart / 2) / 2


def predict_twice(
    model: nn.Module, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T W"], Float[Tensor, "B T W"]]:
    """Logits of two passes over one batch, each with a dropout of its own."""
    first, second = model(source.repeat(2, 1), target.repeat(2, 1)).chunk(2)
    return first, second


# ── cutting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_kept(ids: Int[Tensor, "B T"], cut: float) -> Bool[Tensor, "2*B T"]:
    """For a batch and its twin: which words stay. All of the first, all but a random share of the second."""
    kept = torch.rand(ids.shape, device=ids.device) >= cut
    return torch.cat([torch.ones_like(kept), kept])


@contextmanager
def cut_words(model: nn.Module, source: Bool[Tensor, "B S"], target: Bool[Tensor, "B T"]) -> Iterator[None]:
    """While this lasts, a word that is not kept is zeros to the model; its position stays.

    A model hands its tables of words to the two `Embed`s that read them. Here they are handed tables with holes; nothing in the
    model knows of it. They are searched for because the model may be wrapped, for several processes.
    """
    embeds = [module for module in model.modules() if isinstance(module, Embed)]
    hooks = [
        embed.register_forward_pre_hook(partial(hand_in_holes, kept))
        for embed, kept in zip(embeds, (source, target), strict=True)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def hand_in_holes(kept: Bool[Tensor, "B T"], embed: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    words, *rest = arguments
    return (lambda ids: words(ids) * kept[..., None]), *rest
