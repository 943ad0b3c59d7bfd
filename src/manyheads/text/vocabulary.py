"""The tokenizers of a model, stored as plain JSON: one for the source and one for the target, or one for both.

A classifier has one for texts, and its labels.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from manyheads.errors import InputError, OptionError, brief, choose
from manyheads.text.backwards import Backwards
from manyheads.text.bytepairs import BytePairs
from manyheads.text.foreign import ForeignPieces
from manyheads.text.joined import join_texts
from manyheads.text.labels import Labels
from manyheads.text.listed import Characters, Symbols
from manyheads.text.tokenizer import PACKED, Tokenizer

__all__ = ["Vocabulary", "train_tokenizer", "train_vocabulary"]

SCHEMA, BACKWARDS = 1, 2
"""The second is for targets written backwards, which earlier versions would have read as if they were not."""
LARGEST = 64 << 20
"""The largest size of a tokenizer file, in bytes: far above what any vocabulary needs."""

LEARNT: dict[str, Any] = {kind.kind: kind for kind in (BytePairs, Characters, Symbols)}
KINDS = LEARNT | {kind.kind: kind for kind in (ForeignPieces, Labels)}


class Vocabulary:
    """`source` and `target` tokenizers, with the same pieces if the vocabulary is `joint`.

    If it is `backwards`, targets are written from their end.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer | None = None, *, backwards: bool = False) -> None:
        self.source, self.joint, self.backwards = source, target is None or target is source, backwards
        written = target or source
        self.target: Tokenizer = Backwards(written) if backwards else written  # type: ignore[assignment]  # its kind is each one's own

    @property
    def sizes(self) -> tuple[int, int]:
        return self.source.size, self.target.size

    @property
    def labels(self) -> Labels:
        """The labels of a classifier."""
        if not isinstance(self.target, Labels):
            raise OptionError(f"a classifier must have labels, got a vocabulary with {self.target.kind!r}")
        return self.target

    def encode_sources(self, lines: Sequence[str]) -> list[bytes]:
        """Ids as 32-bit numbers. In a vocabulary with labels, a line may hold two texts with a tab between them."""
        if isinstance(self.target, Labels):
            return [np.array(ids, PACKED).tobytes() for ids in join_texts(self.source, lines)]
        return self.source.encode_packed(lines)

    def dumps(self) -> str:
        target = None if self.joint else self.target.as_json()
        schema = BACKWARDS if self.backwards else SCHEMA
        stored = {"schema": schema, "source": self.source.as_json(), "target": target}
        return json.dumps(stored, ensure_ascii=False, indent=0) + "\n"

    @classmethod
    def loads(cls, text: str, where: str) -> "Vocabulary":
        try:
            if len(text) > LARGEST:
                raise ValueError(f"it has {len(text):,} characters")
            stored = json.loads(text)
            if stored["schema"] not in (SCHEMA, BACKWARDS):
                raise ValueError(f"its schema is {stored['schema']!r}, this version reads {SCHEMA} and {BACKWARDS}")
            source, target = stored["source"], stored["target"]
            tokenizers = load_tokenizer(source), None if target is None else load_tokenizer(target)
            return cls(*tokenizers, backwards=stored["schema"] == BACKWARDS)
        # Not JSON, or JSON of another shape, or nested too deeply:
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"a tokenizer file must be as Manyheads writes it, got {where}: {brief(error)}") from None


def load_tokenizer(stored: dict[str, Any]) -> Tokenizer:
    return KINDS[stored["kind"]].from_json(stored)


def train_tokenizer(kind: str, texts: Iterable[str], size: int) -> Tokenizer:
    """A tokenizer of at most `size` pieces, special ones included, learnt from texts."""
    return choose("data.tokenizer", kind, LEARNT).train(texts, size)


def train_vocabulary(
    kinds: tuple[str, str],
    sources: Callable[[], Iterable[str]],
    targets: Callable[[], Iterable[str]],
    *,
    size: int,
    joint: bool,
    backwards: bool = False,
) -> Vocabulary:
    """A vocabulary learnt from the lines of both sides: one tokenizer if it is `joint`, otherwise one for each side."""
    if joint:
        return Vocabulary(train_tokenizer(kinds[0], chain(sources(), targets()), size), backwards=backwards)
    both = train_tokenizer(kinds[0], sources(), size), train_tokenizer(kinds[1], targets(), size)
    return Vocabulary(*both, backwards=backwards)
