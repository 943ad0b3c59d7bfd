"""The labels of a classifier, in place of a target tokenizer: each label is one piece, and none is cut.

Any text of one line can be a label. Ids 0, 1 and 2 are what they are everywhere, and spell nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from manyheads.errors import InputError, brief, nearest
from manyheads.text.tokenizer import FIRST, PACKED, SPECIALS, check_line, check_strings
from manyheads.text.units import Units

__all__ = ["Labels", "unknown_label"]


class Labels:
    """`names`, in the order of their ids."""

    kind: ClassVar[str] = "labels"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [check_line(name) for name in check_strings(list(names))]
        self.numbers = {name: n for n, name in enumerate(self.names)}
        self.size = FIRST + len(self.names)
        if len(self.numbers) < len(self.names) or len(self.names) < 2:
            raise InputError(f"there must be at least two labels, all different, got {brief(names)}")

    @classmethod
    def learn(cls, labels: Iterable[str]) -> "Labels":
        """All different labels, sorted."""
        return cls(sorted(set(labels)))

    def number(self, label: str) -> int:
        """The label's place in `names`."""
        if label not in self.numbers:
            raise unknown_label(label, self)
        return self.numbers[label]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[FIRST + self.number(text)] for text in texts]

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        return [np.array(ids, PACKED).tobytes() for ids in self.encode(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.names[i - FIRST] for i in ids if i >= FIRST)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.names[i - FIRST] if i >= FIRST else SPECIALS[i] for i in ids]

    def units(self, ids: Iterable[int]) -> Units:
        return [n if i >= FIRST else None for n, i in enumerate(ids)]

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "labels": self.names}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Labels":
        return cls(stored["labels"])


def unknown_label(label: str, labels: Labels, where: str = "") -> InputError:
    known = f"{', '.join(map(repr, labels.names[:5]))}{', …' if len(labels.names) > 5 else ''}"
    return InputError(
        f"a label must be one of the {len(labels.names):,} learnt labels ({known}), got {brief(label)}{where}",
        hint=nearest(label, labels.names) or "a line is LABEL TAB TEXT: is this the label?",
    )
