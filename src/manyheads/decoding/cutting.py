"""Encode lines, cut into parts no longer than the model was trained to read.

Cuts are made at the ends of sentences, else at spaces, else anywhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from manyheads.decoding.segments import join_sentences, split_sentences, split_text
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Cutter"]


@dataclass(frozen=True)
class Cutter:
    """Encodes lines in parts.

    most          pieces a part may have
    comfortable   a line with more pieces than this is cut into its sentences
    longest       pieces that can be read at all: a single character with more is truncated
    """

    tokenizer: Tokenizer
    most: int
    comfortable: int
    longest: int

    def __call__(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """For each line, the ids of its parts. Most lines have one part, blank lines none."""
        longer = 64 * self.most  # longer than any sentence; bounds the memory used below
        texts = [list(split_text(line, longer)) if line.strip() else [] for line in lines]
        ids = iter(self.tokenizer.encode(list(chain.from_iterable(texts))))
        return [[part for text in line for part in self.cut(text, next(ids))] for line in texts]

    def cut(self, text: str, ids: list[int]) -> Iterator[list[int]]:
        sentences = split_sentences(text) if len(ids) > self.comfortable else [text]
        if len(sentences) > 1:
            sizes = map(len, self.tokenizer.encode(sentences))
            groups = join_sentences(sentences, sizes, self.comfortable)
            for part in map(self.cut_sentence, groups, self.tokenizer.encode(groups)):
                yield from part
        else:
            yield from self.cut_sentence(text, ids)

    def cut_sentence(self, text: str, ids: list[int]) -> Iterator[list[int]]:
        """The ids of a sentence or, if it is too long, of parts of it, cut at spaces where possible."""
        if len(ids) <= self.most or len(text) == 1:
            yield ids[: self.longest]
            return
        # This assumes that pieces are spread evenly; a part that is denser is cut again.
        texts = list(split_text(text, max(1, self.most * len(text) // len(ids))))
        for part in map(self.cut_sentence, texts, self.tokenizer.encode(texts)):
            yield from part
