"""What a search needs of a model: to read a source, then give the next tokens, step by step."""

from typing import Any, Protocol

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Rows", "StepModel"]


class Rows(Protocol):
    """What was read and written so far, one row per hypothesis."""

    def share(self, readers: int) -> None:
        """Make this many rows of each source: they are neighbours, and what they read of it is not copied."""
        ...

    def select(self, rows: Int[Tensor, " C"]) -> None:
        """Keep the given rows, in the given order; neighbours that share a source, all or none."""
        ...

    def reorder(self, rows: Int[Tensor, " B"]) -> None:
        """The same, among hypotheses of one source: what they read of it stays."""
        ...


class StepModel(Protocol):
    """A Transformer, or an ensemble of them."""

    def encode(self, source: Int[Tensor, "B S"]) -> Any: ...

    def start(self, memory: Any) -> Any: ...

    def step(self, tokens: Int[Tensor, "B T"], cache: Any) -> Float[Tensor, "B T W"]: ...
