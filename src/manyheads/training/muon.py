"""Muon (Jordan et al. 2024): a hidden matrix moves equally far in every direction.

    B ← μ·B + (1 − μ)·G                              the mean of its gradients
    M = μ·B + (1 − μ)·G                              a look ahead (Nesterov)
    W ← W − rate·decay·W − rate·0.2·√max(n, m)·O     O = U·Vᵀ, if M = U·S·Vᵀ

0.2·√max(n, m) makes the entries of an update about as large as AdamW's (Liu et al. 2025), so one rate and one decay
suit both. Embeddings, output, norms and biases, which are not maps between hidden states, stay with AdamW.

torch.optim.Muon would handle one matrix at a time, would treat queries, keys and values as one map, and cannot skip a
step without asking the device first.

N matrices of one shape · n ≤ m rows and columns
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import AdamW, Optimizer

__all__ = ["Muon", "orthogonalise"]

MOMENTUM = 0.95
LIKE_ADAMW = 0.2
QUINTIC = (3.4445, -4.7750, 2.0315)
"""a·s + b·s³ + c·s⁵, applied five times, takes every s in (0.01, 1] to about 1, between 0.68 and 1.14.

It is steep at 0, so five times are enough.
"""

ITERATIONS = 5
SMALLEST = 1e-12


class Muon(Optimizer):
    """Muon for `matrices`, AdamW for everything else, as one optimizer: `param_groups` and `state` cover both.

    matrices   each with the row counts of the maps in it, which are made orthogonal one by one
    found_inf  if it is 1, a step changes nothing; as with a fused AdamW, nothing waits for its value
    """

    found_inf: Tensor
    grad_scale: None = None

    def __init__(
        self, matrices: Mapping[Tensor, Sequence[int]], adamw: AdamW, rate: float, weight_decay: float
    ) -> None:
        super().__init__([{"params": list(matrices)}], {"lr": rate, "weight_decay": weight_decay})
        self.rows, self.adamw = dict(matrices), adamw
        self.param_groups += adamw.param_groups
        adamw.state = self.state

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        self.adamw.grad_scale, self.adamw.found_inf = None, self.found_inf  # type: ignore[attr-defined]
        self.adamw.step()
        group = self.param_groups[0]
        gradients = {weight: weight.grad for weight in group["params"] if weight.grad is not None}
        if gradients:
            self.turn(gradients, group["lr"] * (1 - self.found_inf), group["weight_decay"])

    def turn(self, gradients: Mapping[Tensor, Tensor], rate: Float[Tensor, ""], decay: float) -> None:
        """W ← W − rate·decay·W − rate·0.2·√max(n, m)·O for every map in every matrix W."""
        maps = [part for weight in gradients for part in weight.split(self.rows[weight])]
        ahead = [part for weight in gradients for part in self.look_ahead(weight, gradients[weight])]
        moves = orthogonalise_all(ahead)
        torch._foreach_mul_(moves, [LIKE_ADAMW * max(part.shape) ** 0.5 for part in maps])
        torch._foreach_mul_(moves, rate)
        torch._foreach_mul_(maps, 1 - rate * decay)
        torch._foreach_sub_(maps, moves)

    def look_ahead(self, weight: Tensor, gradient: Tensor) -> tuple[Tensor, ...]:
        """M of every map in a matrix. A skipped step leaves the mean of the gradients as it is."""
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        mean = state["momentum"]
        gradient = torch.where(self.found_inf.bool(), mean, gradient)
        mean.lerp_(gradient, 1 - MOMENTUM)
        return gradient.lerp(mean, MOMENTUM).split(self.rows[weight])


def orthogonalise_all(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Each matrix made orthogonal; those of one shape, wide or tall, are computed together."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for number, matrix in enumerate(matrices):
        alike.setdefault(tuple(sorted(matrix.shape)), []).append(number)
    results = list(matrices)
    for numbers in alike.values():
        lying = orthogonalise(torch.stack([lay(matrices[number]) for number in numbers]))
        for number, result in zip(numbers, lying, strict=True):
            results[number] = result if matrices[number].shape == result.shape else result.mT
    return results


def lay(matrix: Tensor) -> Tensor:
    """The matrix or its transpose, whichever is wide: the products below are then the small ones."""
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.mT


def orthogonalise(matrices: Float[Tensor, "N n m"]) -> Float[Tensor, "N n m"]:
    """About U·Vᵀ of each U·S·Vᵀ, by products alone (Newton–Schulz).

    On a GPU these are in bfloat16: fast, and exact enough.
    """
    a, b, c = QUINTIC
    x = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST)  # no singular value is above 1
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.to(matrices.dtype)
