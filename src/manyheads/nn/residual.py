"""The parts around every sublayer: a norm, a residual connection, dropout.

PreNorm    x + drop(layer(norm(x)))    most later models: deep stacks train without special care
PostNorm   norm(x + drop(layer(x)))    the paper

A pre-norm sublayer that is given a stream leaves its sum to the next one (stream.py).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.checks import check_probability
from manyheads.nn.dropout import Dropout, share_dropped
from manyheads.nn.layout import Layout
from manyheads.nn.stream import Stream, flow
from manyheads.nn.unchanged import unchanged

__all__ = ["DropPath", "PostNorm", "PreNorm", "Residual"]

Layer = Callable[[Tensor], Tensor]
Hidden = Float[Tensor, "*batch D"] | Stream


class DropPath(nn.Module):
    """Stochastic depth: in training, drop the complete sublayer for a sequence with the given probability.

    Outputs that are kept are scaled up by 1 / (1 − probability), so that the mean stays the same.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = check_probability("drop_path", probability)

    def forward(self, x: Float[Tensor, "*batch D"], layout: Layout) -> Float[Tensor, "*batch D"]:
        if not self.training:
            return x
        kept = 1.0 - self.probability
        keep = torch.full((layout.batch,), kept, device=x.device).bernoulli() / kept
        return x * layout.spread(keep).to(x.dtype)


class Residual(nn.Module):
    """Norm, dropout and drop path, in the order of `PreNorm` or `PostNorm`. `norm` builds the norm."""

    def __init__(self, norm: Callable[[], nn.Module], *, dropout: float = 0.0, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = norm()
        self.dropout = Dropout(dropout) if dropout else unchanged
        self.drop_path = DropPath(drop_path) if drop_path else unchanged

    def _add(self, x: Tensor, y: Tensor, layout: Layout) -> Tensor:
        return x + self.drop_path(self.dropout(y), layout)


class PreNorm(Residual):
    def forward(self, x: Hidden, layer: Layer, layout: Layout) -> Hidden:
        if isinstance(x, Stream):
            (x, seed, *_), y = flow(x, self.norm)
            return Stream(x, seed, layer(y), share_dropped(self.dropout))
        return self._add(x, layer(self.norm(x)), layout)


class PostNorm(Residual):
    def forward(self, x: Float[Tensor, "*batch D"], layer: Layer, layout: Layout) -> Float[Tensor, "*batch D"]:
        return self.norm(self._add(x, layer(x), layout))
