"""The mean of weights over time, which translates better than the last ones."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["MovingAverage", "mean_weights"]


class MovingAverage:
    """Weights that follow those of a model: m ← d·m + (1 − d)·w after every step.

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
        """1 − d: how far the average goes towards the weights."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def follow(self, share: float | Float[Tensor, ""]) -> None:
        """A number, or one that lies on the device, where nobody waits for it: a captured graph reads it anew each time."""
        if not isinstance(share, Tensor):
            torch._foreach_lerp_(self.mine, self.theirs, share)
            return
        # lerp takes no share from the device for many tensors at once.
        ways = torch._foreach_sub(self.theirs, self.mine)
        torch._foreach_mul_(ways, share)
        torch._foreach_add_(self.mine, ways)


def mean_weights(all_weights: Iterable[Mapping[str, Tensor]], shares: Sequence[float] = ()) -> dict[str, Tensor]:
    """The mean of several sets of weights, summed in float64; each counts as its share says, or as any other."""
    sums: dict[str, Tensor] = {}
    whole, largest = 0.0, max(shares, default=1.0)
    for weights, share in zip(
        all_weights, (share / largest for share in shares) if shares else repeat(1.0), strict=False
    ):
        whole += share
        for name, tensor in weights.items():
            sums[name] = sums.get(name, 0) + share * tensor.double()
    return {name: (total / whole).float() for name, total in sums.items()}
