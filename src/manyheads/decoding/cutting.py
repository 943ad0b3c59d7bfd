"""Lines to ids, cut into parts that a model was trained to read: at the ends of sentences, else at spaces, else anywhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from manyheads.decoding.segments import join_sentences, split_sentences, split_text
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Cutter"]


@dataclass(frozen=True)
class Cutter:
    """
    most          pieces of a part
    comfortable   pieces beyond which a line is cut into its sentences
    longest       pieces that can be read at all: what is one letter and yet longer is cut off
    """

    tokenizer: Tokenizer
    most: int
    comfortable: int
    longest: int

    def __call__(self, lines: Sequence[str]) -> list[list[list[int]]]:
        """For each line the ids of its parts. Most lines have one part, blank ones none."""
        longer = 64 * self.most  # no sentence; this bounds the memory of what follows
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
        """The ids of a sentence, or those of parts of it that are short enough: cut at spaces, if it must be."""
        if len(ids) <= self.most or len(text) == 1:
            yield ids[: self.longest]
            return
        # If the pieces were spread evenly, each part would have what it may; a denser one is cut again.
        texts = list(split_text(text, max(1, self.most * len(text) // len(ids))))
        for part in map(self.cut_sentence, texts, self.tokenizer.encode(texts)):
            yield from part
