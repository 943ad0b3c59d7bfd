"""Matrix products of 8-bit numbers, for models that only compute: a quarter of the memory to read, and several times as
many multiplications at a time.

    x ≈ a · X    each row of x is a scale and whole numbers from −127 to 127
    W ≈ b · Y    so is each row of W

    x·Wᵀ ≈ a·bᵀ · (X·Yᵀ)

Whole numbers are added without rounding. So a row has the same product, bit for bit, whatever other rows are computed
with it, in whatever order and by however many threads.

N rows · D input width · F output width
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor

__all__ = ["EightBits", "is_exact", "round_rows"]

SMALLEST = 1e-30
"""The least scale: a row of zeros stays zeros."""


def round_rows(x: Float[Tensor, "N D"]) -> tuple[Int8[Tensor, "N D"], Float[Tensor, "N 1"]]:
    """(numbers, scales): the largest number of each row is 127 or −127."""
    scales = x.abs().amax(1, keepdim=True).div_(127).clamp_(min=SMALLEST)
    return (x / scales).round_().to(torch.int8), scales


@dataclass(frozen=True, eq=False)
class EightBits:
    """A matrix in 8 bits. It can be cut into stretches of rows, like the tensor that it stands for."""

    numbers: Int8[Tensor, "F D"]
    scales: Float[Tensor, " F"]

    @classmethod
    def of(cls, matrix: Float[Tensor, "F D"]) -> "EightBits":
        numbers, scales = round_rows(matrix.detach())
        return cls(numbers, scales[:, 0])

    @property
    def shape(self) -> torch.Size:
        return self.numbers.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.numbers.dtype

    @property
    def device(self) -> torch.device:
        return self.numbers.device

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: slice) -> "EightBits":
        return EightBits(self.numbers[rows], self.scales[rows])

    def split_with_sizes(self, sizes: Sequence[int]) -> "list[EightBits]":
        parts = self.numbers.split_with_sizes(sizes), self.scales.split_with_sizes(sizes)  # type: ignore[no-untyped-call]
        return [EightBits(*part) for part in zip(*parts, strict=True)]

    def rows(self, ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch D"]:
        """The rows with these numbers, in 32 bits."""
        return self.numbers[ids] * self.scales[ids][..., None]

    def product(
        self, x: Float[Tensor, "*batch D"], bias: Float[Tensor, " F"] | None = None
    ) -> Float[Tensor, "*batch F"]:
        """x · Wᵀ + bias."""
        numbers, scales = round_rows(x.flatten(0, -2) if x.ndim > 1 else x[None])
        sums = torch._int_mm(numbers, self.numbers.T)
        y = sums.float().mul_(self.scales).mul_(scales)  # one kernel that did it all would cast as it goes, and slowly
        y = y if bias is None else y.add_(bias)
        return y.view(*x.shape[:-1], len(self))


def is_exact() -> bool:
    """Whether this processor adds up products of 8-bit numbers exactly.

    Those without instructions for it (VNNI) add pairs of them in 16 bits, where large ones do not fit.
    """
    numbers = torch.full((5, 64), 127, dtype=torch.int8)
    try:
        return bool((torch._int_mm(numbers, numbers.T) == 64 * 127 * 127).all())
    except (RuntimeError, AttributeError):  # this PyTorch has no such product
        return False
