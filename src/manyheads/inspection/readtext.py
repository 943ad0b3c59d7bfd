"""An encoder-only model on one text: every piece looks at every other, and nothing is written."""

from collections.abc import Collection

from manyheads.embedding.embedder import Embedder
from manyheads.errors import choose
from manyheads.inspection.inspected import Inspected, check_finite, check_length, check_text
from manyheads.inspection.sides import Side, read_side
from manyheads.inspection.switches import INSTEAD, Head, head_means, switched_off
from manyheads.inspection.trace import trace
from manyheads.text.foreign import ForeignPieces

__all__ = ["ReadText", "read_text"]


class ReadText(Inspected):
    """What an encoder-only model did: `sides` has a source and no target, `attention` only the kind "encoder"."""

    @property
    def source(self) -> Side:
        return self.sides["source"]


def read_text(embedder: Embedder, text: str, off: Collection[Head] = (), instead: str = "zero") -> ReadText:
    side = read_framed(embedder, check_text(text))
    ids, by_mean, model = [piece.id for piece in side.pieces], choose("instead", instead, INSTEAD), embedder.model
    check_length(len(ids), embedder.config.max_length)
    means = head_means(model, ids, []) if by_mean and off else None
    with switched_off(model, off, means):
        passed = check_finite(trace(model, ids, []))
    return ReadText(
        model=model,
        folder=embedder.folder,
        sides={"source": side},
        tokenizers={"source": embedder.tokenizer},
        typed={"source": text},
        trace=passed,
        off=tuple(off),
        means=means,
    )


def read_framed(embedder: Embedder, text: str) -> Side:
    """The text as the model reads it, between the tokens that stand before and after every text."""
    tokenizer, begin, end = embedder.tokenizer, embedder.frame.begin, embedder.frame.end
    ids = [*begin, *tokenizer.encode([text])[0], *end]
    if not isinstance(tokenizer, ForeignPieces):
        return read_side(tokenizer, ids)
    places = [(0, 0)] * len(begin) + tokenizer.places(text) + [(len(text), len(text))] * len(end)
    return read_side(tokenizer, ids, text, places)
