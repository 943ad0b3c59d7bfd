"""Teachers: models that know the task already. Besides the true token, a student learns what they would predict:

    CE(p) becomes (1 − h) · CE(p) + h · (−Σ r · log p)        r the mean of the teachers' predictions, h their share

A true token says one thing; r also says what else would have been right, which is most of what an ensemble knows and
its members do not (Hinton et al. 2015; token by token in translations, Kim & Rush 2016). A student of several teachers
is one model, as fast as one.

W words of the target vocabulary
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.vocabulary_loss import Hints, Voice
from manyheads.tasks.losses import smoothed_loss, wide
from manyheads.tasks.pairs import Pairs
from manyheads.text.tokenizer import PADDING

__all__ = ["ALONE", "Alone", "Cost", "Judge", "States", "Teachers"]


class Cost(Protocol):
    """The cost of predictions, summed over tokens that are not padding."""

    def __call__(self, log_p: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]) -> Float[Tensor, ""]: ...

    def of(self, some: slice) -> "Cost":
        """The cost for a slice of the tokens, in their order."""
        ...


Judge = Callable[[Tensor, Tensor, Cost], Tensor]
"""(logits, labels, cost of a prediction) → summed loss"""


@dataclass(frozen=True)
class Smoothed:
    """Cross-entropy with the label, with `smoothing` of the probability spread over all words."""

    smoothing: float

    def __call__(self, log_p: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]) -> Float[Tensor, ""]:
        return smoothed_loss(log_p, labels, self.smoothing)

    def of(self, some: slice) -> "Smoothed":
        return self


@dataclass(frozen=True, eq=False)
class Aimed:
    """−Σ aim · log p: cross-entropy with a distribution over all words for each token."""

    aim: Float[Tensor, "*target W"]

    def __call__(self, log_p: Float[Tensor, "*target W"], labels: Int[Tensor, "*target"]) -> Float[Tensor, ""]:
        by_token = -(self.aim.view_as(log_p) * log_p).sum(-1)
        return by_token.masked_fill(labels.view_as(by_token) == PADDING, 0).sum()

    def of(self, some: slice) -> "Aimed":
        return Aimed(self.aim.flatten(0, -2)[some])


@dataclass(frozen=True)
class States:
    """How to get the states from which a model computes its logits.

    read     (model, *inputs) → states
    biased   the model has a bias for every word
    """

    read: Callable[..., Tensor]
    biased: bool = False

    def bias_of(self, model: Any) -> Float[Tensor, " W"] | None:
        return model.output_bias if self.biased else None


class Alone:
    """In place of teachers, for a student that learns from data alone."""

    def cost(self, pairs: Pairs, smoothing: float) -> Cost:
        return Smoothed(smoothing)

    def hints(self, pairs: Pairs, states: States) -> None:
        return None


ALONE = Alone()


@dataclass(frozen=True, eq=False)
class Teachers:
    """Models, all with the student's vocabulary, and the share of what is learnt that comes from them.

    Each runs in its own precision.
    """

    models: Sequence[nn.Module]
    share: float

    @torch.no_grad()
    def cost(self, pairs: Pairs, smoothing: float) -> Cost:
        """The cost for the tokens of these pairs."""
        return Aimed(self.aim(pairs, smoothing))

    def aim(self, pairs: Pairs, smoothing: float) -> Float[Tensor, "*target W"]:
        """The distribution to learn for each token: the smoothed label, except for the teachers' share."""
        first, *others = self.models
        with as_they_are(pairs):
            said = wide(first(*pairs.inputs)).softmax(-1)
            for other in others:
                said += wide(other(*pairs.inputs)).softmax(-1)
        said *= self.share / len(self.models)
        said += (1 - self.share) * smoothing / said.shape[-1]
        true = said.new_full((*pairs.labels.shape, 1), (1 - self.share) * (1 - smoothing))
        return said.scatter_add_(-1, pairs.labels[..., None], true)

    @torch.no_grad()
    def hints(self, pairs: Pairs, states: States) -> Hints:
        """The teachers' part of it, for kernels that start from states."""
        models: Sequence[Any] = self.models
        with as_they_are(pairs):
            said = [states.read(model, *pairs.inputs) for model in models]
        voices = [Voice(x, model.output_words, states.bias_of(model)) for x, model in zip(said, models, strict=True)]
        return Hints(self.share, voices)


def as_they_are(pairs: Pairs) -> torch.autocast:
    """While this lasts, autocast is off."""
    return torch.autocast(pairs.labels.device.type, enabled=False)
