"""The mean of weights, over time or over models. The mean over time translates better than the last weights."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["MovingAverage", "mean_weights"]


class MovingAverage:
    """The exponential moving average of a model's weights: m ← d·m + (1 − d)·w after every step.

    The decay d grows from 0.18 to `decay` as (1 + n) / (10 + n), so that the first, random weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.mine: list[Tensor] = list(self.weights.values())
        self.theirs: list[Tensor] = list(model.parameters())

    def update(self, step: int) -> None:
        self.follow(self.share(step))

    def share(self, step: int) -> float:
        """1 − d: how far the average moves towards the weights."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def follow(self, share: float | Float[Tensor, ""]) -> None:
        """Move the average towards the weights by `share` of the distance.

        A share on the device needs no waiting, and a captured graph reads it at every replay.
        """
        if not isinstance(share, Tensor):
            torch._foreach_lerp_(self.mine, self.theirs, share)
            return
        # _foreach_lerp_ does not take a share that is on the device.
        ways = torch._foreach_sub(self.theirs, self.mine)
        torch._foreach_mul_(ways, share)
        torch._foreach_add_(self.mine, ways)


def mean_weights(all_weights: Iterable[Mapping[str, Tensor]], shares: Sequence[float] = ()) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64, weighted by `shares`; without these all count equally."""
    sums: dict[str, Tensor] = {}
    whole, largest = 0.0, max(shares, default=1.0)
    for weights, share in zip(
        all_weights, (share / largest for share in shares) if shares else repeat(1.0), strict=False
    ):
        whole += share
        for name, tensor in weights.items():
            sums[name] = sums.get(name, 0) + share * tensor.double()
    return {name: (total / whole).float() for name, total in sums.items()}
