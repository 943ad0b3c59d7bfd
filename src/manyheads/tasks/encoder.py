"""The base of tasks that train an encoder on whole texts: how texts become rows, whatever is learnt of them.

A text that is too long is cut, as it will be when the model is used, and not left out. Batches are padded, even on a
GPU: these losses do not take packs.

B texts · T tokens of the longest
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from manyheads.nn import Padded
from manyheads.recipe import Recipe
from manyheads.tasks.lines import LineTask
from manyheads.tasks.pairs import Tensors
from manyheads.text.foreign import frame_of
from manyheads.text.joined import Frame
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import BEGIN, END
from manyheads.text.vocabulary import Vocabulary

__all__ = ["EncoderRows", "EncoderTask", "pad_rows"]


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderRows(Tensors):
    """A batch with one text per row.

    lengths    of the texts; None if all are as long as the row
    segments   which of two texts each token is in; None if that does not matter
    """

    ids: Int[Tensor, "B T"]
    lengths: Int[Tensor, " B"] | None = None
    segments: Int[Tensor, "B T"] | None = None

    @property
    def layout(self) -> Padded:
        if self.lengths is None:
            return Padded.like(self.ids)
        column = torch.arange(self.ids.shape[1], device=self.ids.device)
        return Padded.like(self.ids, column < self.lengths[:, None])

    @property
    def inputs(self) -> tuple[Tensor, Padded, Tensor | None]:
        return self.ids, self.layout, self.segments


def pad_rows(rows: list[list[int]]) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"] | None]:
    """(the rows, padded with 0; their lengths, if they differ)"""
    lengths = np.array([len(row) for row in rows])
    out = np.zeros((len(rows), lengths.max()), np.int64)
    out[np.arange(out.shape[1]) < lengths[:, None]] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return torch.from_numpy(out), None if lengths.min() == lengths.max() else torch.from_numpy(lengths)


class EncoderTask(LineTask):
    """A task on whole texts. Subclasses define what is learnt of them."""

    cuts: ClassVar[bool] = True

    def __init__(self, recipe: Recipe, vocabulary: Vocabulary, *data: Any) -> None:
        self.frame = Frame.of(vocabulary.source, recipe.embed.max_length)
        super().__init__(recipe, vocabulary, *data)

    @classmethod
    def most_pieces(cls, recipe: Recipe, known: Vocabulary | None) -> int:
        """The most pieces of a text that are learnt from: no more than are read when the model is used."""
        begin, end = frame_of(known.source) if known else ([BEGIN], [END])
        return max(1, min(recipe.data.max_length, recipe.embed.max_length - len(begin) - len(end)))

    @property
    def around(self) -> int:
        return len(self.frame.begin) + len(self.frame.end)

    @property
    def packs_well(self) -> bool:
        return False

    def framed(self, rows: Rows) -> list[list[int]]:
        return [self.frame.around(ids) for ids in each(rows)]

    def fused_loss(self) -> Any:
        return self.loss

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        raise NotImplementedError


def each(rows: Rows) -> Iterable[list[int]]:
    return (rows.ids[start : start + length].tolist() for start, length in zip(rows.starts, rows.lengths, strict=True))
