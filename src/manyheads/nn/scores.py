"""Score functions: how well does a query match a key?

Each is called with q (B, H, T, K) and k (B, H, S, K) and returns scores (B, H, T, S).

    scaled_dot   q·k / √K     the Transformer's. Without 1/√K the variance of q·k grows with K,
                              softmax saturates and its gradient vanishes.
    dot          q·k          Luong et al.
    Additive     w·tanh(q+k)  Bahdanau et al., learned: the enclosing layer projects q and k; only w
                              belongs to the score.

B batch · H heads · T queries · S keys · K key width
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Additive", "DotProduct", "Score", "dot", "scaled_dot"]

Score = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class DotProduct:
    """`scale · q·k`, the only score that fused kernels support. A scale of None means 1/√K."""

    scale: float | None = None

    def __call__(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        scale = q.shape[-1] ** -0.5 if self.scale is None else self.scale
        return (q * scale) @ k.transpose(-1, -2)  # scaling q saves a pass over the scores, which are larger


scaled_dot = DotProduct()
dot = DotProduct(scale=1.0)


def additive(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"], weight: Float[Tensor, "H K"]
) -> Float[Tensor, "B H T S"]:
    hidden = torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3))  # (B, H, T, S, K)
    return (hidden @ weight[:, None, :, None].to(hidden.dtype)).squeeze(-1)


class Additive(nn.Module):
    """Additive scores with a learned weight for each head."""

    def __init__(self, heads: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, key_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[-1] ** -0.5)

    def forward(self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        return additive(q, k, self.weight)
