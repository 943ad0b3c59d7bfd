"""The loss on pairs: prediction and, if the recipe says so, consistency.

A consistent model's predictions do not depend on a word or a unit that happens to be missing.

    plain    CE(p)
    SimCut   CE(p) + α · KL(p ‖ p′)                                        p′ reads the pair with some words cut out
    R-Drop   ½ · [CE(p) + CE(p′) + α · ½ · (KL(p ‖ p′) + KL(p′ ‖ p))]      p and p′ differ by their dropout

SimCut is that of Gao et al. 2022 (Bi-SimCut): the gradient flows into both p and p′, which they found to matter. R-Drop
is half of the loss of Liang et al. 2021: α keeps their meaning, and the loss stays as large as that of one pass. With
teachers, CE also compares with their predictions (teachers.py).

Both passes run as one, over the batch twice: twice the work and the memory of the plain loss, but no more launches.

W words of the target vocabulary
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.models.parts import Embed
from manyheads.nn import Layout
from manyheads.nn.vocabulary_loss import Terms, vocabulary_loss, vocabulary_loss_applies
from manyheads.recipe import TrainConfig
from manyheads.tasks.losses import divergence, divergence_both_ways, log_probabilities
from manyheads.tasks.pairs import Pairs
from manyheads.tasks.pieces import from_states, in_pieces
from manyheads.tasks.teachers import ALONE, Alone, Cost, Judge, States, Teachers
from manyheads.text.tokenizer import PADDING

__all__ = ["OF_PAIRS", "OF_TEXTS", "FusedPairLoss", "PairLoss", "choose_loss", "cut_words"]

Read = Callable[..., Tensor]
"""(model, *inputs) → logits, or the states that logits are computed from"""

Predict = Callable[..., Tensor]
"""(model, pairs, read) → what `read` returns, for one pass or two"""


@dataclass(frozen=True)
class PairLoss:
    """The summed loss of a model on pairs: it predicts, and its predictions are judged.

    Only judging depends on the size of the vocabulary.

    judge               the loss of predictions
    terms, smoothing    what that is the sum of, and its label smoothing
    teachers            models whose predictions are learnt, too
    """

    predict: Predict
    judge: Judge
    terms: Terms
    smoothing: float
    teachers: Alone | Teachers = ALONE

    def __call__(self, model: nn.Module, pairs: Pairs) -> Float[Tensor, ""]:
        return self.judged(self.predict(model, pairs), pairs)

    def judged(self, logits: Float[Tensor, "*predicted W"], pairs: Pairs) -> Float[Tensor, ""]:
        return in_pieces(self.judge, logits, pairs.labels, self.teachers.cost(pairs, self.smoothing))

    def judged_from(
        self,
        states: Float[Tensor, "*predicted D"],
        table: Float[Tensor, "W D"],
        pairs: Pairs,
        bias: Tensor | None = None,
    ) -> Float[Tensor, ""]:
        """The same, from the states that logits are computed from."""
        return from_states(self.judge, states, table, bias, pairs.labels, self.teachers.cost(pairs, self.smoothing))

    def fused(self, states: States | None = None) -> "FusedPairLoss":
        return FusedPairLoss(self, states or OF_PAIRS)


@dataclass(frozen=True)
class FusedPairLoss:
    """The same, on a GPU in a few kernels.

    It starts from the states that logits are computed from, and never holds a table of all logits.
    """

    loss: PairLoss
    states: States

    def __call__(self, model: Any, pairs: Pairs) -> Float[Tensor, ""]:
        loss, states = self.loss, self.loss.predict(model, pairs, read=self.states.read)
        if vocabulary_loss_applies(states):
            return vocabulary_loss(
                states, model.output_words, pairs.labels, loss.smoothing, loss.terms, PADDING,
                bias=self.states.bias_of(model), hints=loss.teachers.hints(pairs, self.states),
            )  # fmt: skip
        return loss.judged_from(states, model.output_words, pairs, self.states.bias_of(model))


def choose_loss(config: TrainConfig) -> PairLoss:
    """The loss that the recipe asks for."""
    smoothing = config.smoothing
    if alpha := config.simcut:
        judge = partial(judge_simcut, weight=alpha)
        return PairLoss(partial(predict_cut, cut=config.cut), judge, Terms(pq=alpha), smoothing)
    if alpha := config.rdrop:
        judge = partial(judge_rdrop, weight=alpha)
        return PairLoss(predict_twice, judge, Terms(p=1 / 2, q=1 / 2, pq=alpha / 4, qp=alpha / 4), smoothing)
    return PairLoss(predict_once, judge_plain, Terms(), smoothing)


# ── predicting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def logits_of(model: nn.Module, *inputs: Any) -> Float[Tensor, "*target W"]:
    return model(*inputs)


def states_of(
    model: Any, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
) -> Float[Tensor, "*target D"]:
    return model.states(target, model.encode(source, source_layout), target_layout)


def states_of_texts(model: Any, *inputs: Any) -> Float[Tensor, "*target D"]:
    """The states of a model that reads one side."""
    return model.states(*inputs)


OF_PAIRS, OF_TEXTS = States(states_of), States(states_of_texts)


def predict_once(model: nn.Module, pairs: Pairs, read: Read = logits_of) -> Float[Tensor, "*target last"]:
    return read(model, *pairs.inputs)


def predict_twice(model: nn.Module, pairs: Pairs, read: Read = logits_of) -> Float[Tensor, "twice *rest last"]:
    """The predictions of two passes over one batch, each with its own dropout."""
    return read(model, *pairs.twice().inputs)


def predict_cut(
    model: nn.Module, pairs: Pairs, read: Read = logits_of, *, cut: float
) -> Float[Tensor, "twice *rest last"]:
    """The predictions of two passes, the second over pairs from which words were cut."""
    source, target = pairs.inputs[:2]
    with cut_words(model, draw_uncut(source, cut), draw_uncut(target, cut)):
        return predict_twice(model, pairs, read)


# ── judging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def judge_plain(
    logits: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"], cost: Cost
) -> Float[Tensor, ""]:  # fmt: skip
    return cost(log_probabilities(logits), labels)


def judge_simcut(
    logits: Float[Tensor, "twice *rest W"], labels: Int[Tensor, "*target"], cost: Cost,
    *, weight: float,
) -> Float[Tensor, ""]:  # fmt: skip
    whole, with_cuts = log_probabilities(logits).chunk(2)
    return cost(whole, labels) + weight * divergence(whole, with_cuts, labels)


def judge_rdrop(
    logits: Float[Tensor, "twice *rest W"], labels: Int[Tensor, "*target"], cost: Cost,
    *, weight: float,
) -> Float[Tensor, ""]:  # fmt: skip
    one, other = log_probabilities(logits).chunk(2)
    both = cost(one, labels) + cost(other, labels)
    return (both + weight * divergence_both_ways(one, other, labels) / 2) / 2


# ── cutting ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def draw_uncut(ids: Int[Tensor, "n *rest"], cut: float) -> Bool[Tensor, "2*n *rest"]:
    """Which words of a batch and its twin stay: all of the first, all but a random share of the second."""
    kept = torch.rand(ids.shape, device=ids.device) >= cut
    return torch.cat([torch.ones_like(kept), kept])


@contextmanager
def cut_words(model: nn.Module, source: Bool[Tensor, "*source"], target: Bool[Tensor, "*target"]) -> Iterator[None]:
    """While this lasts, the model sees zeros for words that are not kept; their positions stay.

    A model passes the vectors of its words to two `Embed` modules. Hooks zero some of them on the way; nothing in the
    model knows of it. The modules are searched for because the model may be wrapped, for several processes.
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
