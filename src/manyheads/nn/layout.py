"""How the sequences of a batch lie in memory: padded rows, or packed end to end.

    Padded   x is (B, T, D): one sequence per row, filled up to the longest
    Packed   x is (N, D): one sequence after the other, nothing between them; N = ΣT

Only attention, positions and drop path (which drops complete sequences) look at the layout;
every other layer works on (..., D) and does not need it.

B batch · T longest · N tokens of the complete batch · A axes of a position (1 in text, 2 in images)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from manyheads.errors import OptionError, TensorError

__all__ = ["Layout", "Packed", "Padded"]


@dataclass(frozen=True, eq=False)
class Padded:
    """One sequence per row.

    shape      (B, T)
    positions  position of each token in its sequence: (T), (B, T), or with several axes (1 or B, T, A)
    longest    one more than the greatest position, as a plain int
    keep       True where there is a token, False where there is padding; None = tokens everywhere
    """

    shape: tuple[int, int]
    positions: Int[Tensor, "*shape"]
    longest: int
    keep: Bool[Tensor, "B T"] | None = None

    def __post_init__(self) -> None:
        if self.keep is not None and (self.keep.dtype != torch.bool or self.keep.shape != self.shape):
            raise TensorError(
                f"keep must be boolean of shape {self.shape}, True = a token, got {self.keep.dtype} {tuple(self.keep.shape)}"
            )

    @classmethod
    def like(cls, x: Shaped[Tensor, "B T *rest"], keep: Bool[Tensor, "B T"] | None = None, start: int = 0) -> "Padded":
        """The layout of `x`, whose first column is at position `start`."""
        batch, length = x.shape[:2]
        return cls((batch, length), torch.arange(start, start + length, device=x.device), start + length, keep)

    @classmethod
    def from_lengths(
        cls, lengths: Sequence[int], device: torch.device | str | None = None, *, to: int | None = None
    ) -> "Padded":
        """Sequences of the given lengths, each row filled up to the longest, or to `to`."""
        longest = max(check_lengths(lengths))
        if to is not None and to < longest:
            raise OptionError(f"rows must be padded to at least the longest sequence, {longest}, got {to}")
        longest = to or longest
        positions = torch.arange(longest, device=device)
        keep = positions < torch.tensor(lengths, device=device)[:, None]
        return cls((len(lengths), longest), positions, longest, keep)

    @classmethod
    def grid(cls, batch: int, rows: int, columns: int, device: torch.device | str | None = None) -> "Padded":
        """Images cut into rows × columns patches, in row-major order; a position is (row, column)."""
        axes = torch.arange(rows, device=device), torch.arange(columns, device=device)
        return cls((batch, rows * columns), torch.cartesian_prod(*axes)[None], max(rows, columns))

    @property
    def batch(self) -> int:
        return self.shape[0]

    def spread(self, values: Shaped[Tensor, " B"]) -> Shaped[Tensor, "B 1 1"]:
        """One value per sequence, shaped to broadcast over x."""
        return values[:, None, None]

    def select(self, rows: Int[Tensor, " C"]) -> "Padded":
        """The given rows of the batch, in the given order."""
        alike = self.positions.ndim == 1 or self.positions.shape[0] == 1
        positions = self.positions if alike else self.positions.index_select(0, rows)
        keep = None if self.keep is None else self.keep.index_select(0, rows)
        return Padded((rows.shape[0], self.shape[1]), positions, self.longest, keep)


@dataclass(frozen=True, eq=False)
class Packed:
    """One sequence after the other.

    offsets    where each sequence starts, followed by N: B + 1 numbers, int32 as the kernels require
    rows       index of the sequence that each token belongs to
    positions  position of each token in its sequence
    longest    no sequence is longer than this; a plain int, and a constant one if the model is compiled
    """

    offsets: Int[Tensor, " starts"]
    rows: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    longest: int

    @classmethod
    def from_offsets(cls, offsets: Int[Tensor, " starts"], tokens: int, longest: int) -> "Packed":
        """From offsets already on the device; the last of them must be `tokens`. Empty sequences are allowed."""
        offsets = offsets.to(torch.int32)
        index = torch.arange(tokens, dtype=torch.int32, device=offsets.device)
        rows = torch.searchsorted(offsets[1:], index, right=True)
        return cls(offsets, rows, index - offsets[rows], longest)

    @classmethod
    def from_lengths(cls, lengths: Sequence[int], device: torch.device | str | None = None) -> "Packed":
        """Sequences of the given lengths, end to end."""
        check_lengths(lengths)
        offsets = torch.tensor([0, *lengths], device=device).cumsum(0)
        return cls.from_offsets(offsets, sum(lengths), max(lengths))

    @property
    def shape(self) -> tuple[int]:
        """(N)"""
        return (self.rows.shape[0],)

    @property
    def batch(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self.offsets.diff()

    def spread(self, values: Shaped[Tensor, " B"]) -> Shaped[Tensor, "N 1"]:
        """One value per sequence, shaped to broadcast over x."""
        return values[self.rows][:, None]

    def pad(self, x: Shaped[Tensor, "N *rest"]) -> Shaped[Tensor, "B T *rest"]:
        """Packed to padded, with zeros after each sequence."""
        padded = x.new_zeros(self.batch, self.longest, *x.shape[1:])
        return padded.index_put((self.rows, self.positions), x)

    def padded(self) -> Padded:
        """The layout of what `pad` returns."""
        positions = torch.arange(self.longest, device=self.offsets.device)
        return Padded((self.batch, self.longest), positions, self.longest, positions < self.lengths[:, None])

    def pack(self, x: Shaped[Tensor, "B T *rest"]) -> Shaped[Tensor, "N *rest"]:
        """Padded to packed: only the tokens."""
        return x[self.rows, self.positions]


Layout = Padded | Packed


def check_lengths(lengths: Sequence[int]) -> Sequence[int]:
    """Return `lengths` if there is at least one and all are plain ints of at least 1; otherwise raise."""
    if isinstance(lengths, Tensor):
        raise OptionError("lengths must be plain whole numbers, got a tensor", hint="lengths.tolist()")
    if len(lengths) == 0:
        raise OptionError("a batch needs at least one sequence, got no lengths")
    odd = [length for length in lengths if type(length) is not int]
    if odd:
        raise OptionError(f"lengths must be plain whole numbers, got {odd[0]!r}")
    empty = [row for row, length in enumerate(lengths) if length < 1]
    if empty:
        raise OptionError(
            f"a sequence needs at least one token, got length {lengths[empty[0]]} in row {empty[0]}",
            hint="leave empty sequences out of the batch",
        )
    return lengths
