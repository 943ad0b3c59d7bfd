"""Where an alignment is read from: which cross-attention weights, and of which step.

    "2"          layer 2, the mean of its heads
    "2.3"        its head 3; both count from 0
    "2.3:read"   the weights of the step that reads a target piece, instead of the step that writes it

A decoder writes a piece in one step and reads it in the next. Some models look at the source of a piece when they write
it, others when they have read it.

Nothing here imports torch, so that recipes can be checked quickly.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from manyheads.errors import OptionError

__all__ = ["Reading", "every_reading"]

FORM = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?(:read)?", re.ASCII)
READ = ":read"


@dataclass(frozen=True)
class Reading:
    """The weights of one head, or the mean of a layer's; `shift` is 1 for those of the step that reads a piece."""

    layer: int
    head: int | None = None
    shift: int = 0

    @classmethod
    def parse(cls, text: str) -> "Reading":
        found = FORM.fullmatch(text)
        if found is None:
            raise OptionError(f"an alignment head must be LAYER or LAYER.HEAD, with or without {READ}, got {text!r}")
        layer, head, read = found.groups()
        return cls(int(layer), None if head is None else int(head), int(read is not None))

    def misfits(self, layers: int, heads: int) -> Iterator[str]:
        """Yield a complaint if a decoder with these numbers of layers and heads has no such weights."""
        if self.layer >= layers or (self.head or 0) >= heads:
            yield (
                f"an alignment must be read from a head that exists, got {str(self)!r} in a decoder of "
                f"{layers} layers and {heads} heads, counted from 0"
            )

    def __str__(self) -> str:
        head = "" if self.head is None else f".{self.head}"
        return f"{self.layer}{head}{READ * self.shift}"


def every_reading(layers: int, heads: int) -> list[Reading]:
    """Each layer and each of its heads, in the step that writes and in the step that reads."""
    return [
        Reading(layer, head, shift)
        for shift in (0, 1)
        for layer in range(layers)
        for head in ((None,) if heads == 1 else (None, *range(heads)))
    ]
