"""What a model learns from pairs: to predict them, and, if the recipe says so, to be of one mind about it: what it predicts
should not hang on a word or a unit that happens to be missing.

    plain    CE(p)
    SimCut   CE(p) + α · KL(p ‖ p′)                                        p′ reads the pair with some words cut out
    R-Drop   ½ · [CE(p) + CE(p′) + α · ½ · (KL(p ‖ p′) + KL(p′ ‖ p))]      p and p′ differ by their dropout

SimCut is that of Gao et al. 2022 (Bi-SimCut): the gradient flows into p as well as into p′, which they found to matter. R-Drop is
half of what Liang et al. 2021 write: α keeps their meaning, and the loss stays as large as that of one pass.

Both passes are one, over the batch twice: twice the work and the memory of the plain loss, but no more launches.

W words of the target vocabulary
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.models.parts import Embed
from manyheads.recipe import TrainConfig
from manyheads.tasks.losses import divergence, fused_smoothed_loss, log_probabilities, smoothed_loss
from manyheads.tasks.pairs import Pairs

__all__ = ["PairLoss", "choose_loss", "cut_words"]

Predict = Callable[[nn.Module, Pairs], Tensor]


@dataclass(frozen=True)
class PairLoss:
    """The summed loss of a model on pairs: it predicts, and is judged. Only the judging knows how large a vocabulary is."""

    predict: Predict
    judge: Callable[..., Tensor]
    """(logits, labels) → summed loss"""

    def __call__(self, model: nn.Module, pairs: Pairs) -> Float[Tensor, ""]:
        return self.judge(self.predict(model, pairs), pairs.labels)

    def compiled(self) -> "PairLoss":
        """With the judging in a few kernels, which never hold a table of logits in float32."""
        fused = partial(self.judge, entropy=fused_smoothed_loss)
        return replace(self, judge=torch.compile(fused, dynamic=False))


def choose_loss(config: TrainConfig) -> PairLoss:
    """As the recipe wants it."""
    if config.simcut:
        judge = partial(judge_simcut, smoothing=config.smoothing, weight=config.simcut)
        return PairLoss(partial(predict_cut, cut=config.cut), judge)
    if config.rdrop:
        return PairLoss(predict_twice, partial(judge_rdrop, smoothing=config.smoothing, weight=config.rdrop))
    return PairLoss(predict_once, partial(judge_plain, smoothing=config.smoothing))


# ── predicting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def predict_once(model: nn.Module, pairs: Pairs) -> Float[Tensor, "*target W"]:
    return model(*pairs.inputs)


def predict_twice(model: nn.Module, pairs: Pairs) -> Float[Tensor, "twice *rest W"]:
    """Logits of two passes over one batch, each with a dropout of its own."""
    return model(*pairs.twice().inputs)


def predict_cut(model: nn.Module, pairs: Pairs, *, cut: float) -> Float[Tensor, "twice *rest W"]:
    """Logits of two passes, the second over pairs in which words were cut out."""
    source, target = pairs.inputs[:2]
    with cut_words(model, draw_kept(source, cut), draw_kept(target, cut)):
        return predict_twice(model, pairs)


# ── judging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge_plain(
    logits: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"],
    *, smoothing: float, entropy: Callable[..., Tensor] = smoothed_loss,
) -> Float[Tensor, ""]:  # fmt: skip
    return entropy(logits, labels, smoothing)


def judge_simcut(
    logits: Float[Tensor, "twice *rest W"], labels: Int[Tensor, "*target"],
    *, smoothing: float, weight: float, entropy: Callable[..., Tensor] = smoothed_loss,
) -> Float[Tensor, ""]:  # fmt: skip
    whole, with_cuts = logits.chunk(2)
    apart = divergence(log_probabilities(whole), log_probabilities(with_cuts), labels)
    return entropy(whole, labels, smoothing) + weight * apart


def judge_rdrop(
    logits: Float[Tensor, "twice *rest W"], labels: Int[Tensor, "*target"],
    *, smoothing: float, weight: float, entropy: Callable[..., Tensor] = smoothed_loss,
) -> Float[Tensor, ""]:  # fmt: skip
    one, other = logits.chunk(2)
    log_p, log_q = log_probabilities(one), log_probabilities(other)
    both = entropy(one, labels, smoothing) + entropy(other, labels, smoothing)
    apart = divergence(log_p, log_q, labels) + divergence(log_q, log_p, labels)
    return (both + weight * apart / 2) / 2


# ── cutting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_kept(ids: Int[Tensor, "n *rest"], cut: float) -> Bool[Tensor, "2*n *rest"]:
    """For a batch and its twin: which words stay. All of the first, all but a random share of the second."""
    kept = torch.rand(ids.shape, device=ids.device) >= cut
    return torch.cat([torch.ones_like(kept), kept])


@contextmanager
def cut_words(model: nn.Module, source: Bool[Tensor, "*source"], target: Bool[Tensor, "*target"]) -> Iterator[None]:
    """While this lasts, a word that is not kept is zeros to the model; its position stays.

    A model hands the vectors of its words to two `Embed`s. Here some are taken out on the way; nothing in the model knows of it.
    They are searched for because the model may be wrapped, for several processes.
    """
    embeds = [module for module in model.modules() if isinstance(module, Embed)]
    hooks = [
        embed.register_forward_pre_hook(partial(take_out, kept))
        for embed, kept in zip(embeds, (source, target), strict=True)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def take_out(kept: Bool[Tensor, "*batch"], embed: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    words, layout = arguments
    return words * kept[..., None], layout
