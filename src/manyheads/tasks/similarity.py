"""The loss of an encoder on pairs of texts that mean the same: each should find its partner among all in the batch.

    loss = ½ · Σ over pairs [CE(20 · cosines of text to all partners) + CE(20 · cosines of partner to all texts)]

(Henderson et al. 2017; the scale is that of Sentence-BERT's models.) The more pairs a batch has, the more there is to
distinguish, and a part of it poses another question than the whole: such a batch is never split.

N pairs · D width
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from manyheads.tasks.encoder import EncoderRows, pad_rows
from manyheads.tasks.pairs import NO_PAIRS
from manyheads.text.batches import cut
from manyheads.text.turns import Numbers

__all__ = ["SimilarityBatch", "in_batch_loss", "pair_up", "same_texts"]

SCALE = 20.0


def in_batch_loss(
    texts: Float[Tensor, "N D"], partners: Float[Tensor, "N D"], same: Bool[Tensor, "N N"]
) -> Float[Tensor, ""]:
    """The loss, summed over pairs. `same`: texts and partners of other pairs that mean the same: not wrong answers."""
    with torch.autocast(texts.device.type, enabled=False):  # 16 bits are not enough for 20 times a cosine
        cosines = F.normalize(texts.float(), dim=-1) @ F.normalize(partners.float(), dim=-1).T
        logits = (SCALE * cosines).masked_fill(same, -torch.inf)
        truth = torch.arange(len(texts), device=texts.device)
        there, back = (F.cross_entropy(one, truth, reduction="sum") for one in (logits, logits.T))
        return (there + back) / 2


def same_texts(texts: Sequence[object], partners: Sequence[object]) -> Bool[Tensor, "N N"]:
    """True at (n, m) if text n and partner m, of different pairs, are not known to differ.

    That is so if the two pairs share a text or a partner, or if text and partner are equal.
    """
    numbers: dict[object, int] = {}
    a, b = (np.array([numbers.setdefault(one, len(numbers)) for one in side]) for side in (texts, partners))
    same = (a[:, None] == a) | (b[:, None] == b) | (a[:, None] == b)
    np.fill_diagonal(same, False)
    return torch.from_numpy(same)


@dataclass(frozen=True, eq=False)
class SimilarityBatch:
    """Pairs of texts that mean the same.

    parts    texts and partners, grouped by length so that little is padded
    places   where each is among all rows of the parts: N texts, then N partners
    same     as `in_batch_loss` takes it
    count    number of pairs
    tokens   of both sides
    pairs    indices of the pairs in the training set
    """

    least: ClassVar[str] = "batch"
    smaller: ClassVar[str] = "train.tokens puts fewer pairs in a batch"

    parts: Sequence[EncoderRows]
    places: Int[Tensor, " twice"]
    same: Bool[Tensor, "N N"]
    count: int
    tokens: int
    pairs: Numbers = NO_PAIRS

    def to(self, device: torch.device) -> "SimilarityBatch":
        parts = [part.to(device) for part in self.parts]
        return replace(self, parts=parts, places=self.places.to(device), same=self.same.to(device))

    def pinned(self) -> "SimilarityBatch":
        parts = [part.pinned() for part in self.parts]
        return replace(self, parts=parts, places=self.places.pin_memory(), same=self.same.pin_memory())

    def split(self, parts: int) -> list["SimilarityBatch"]:
        """The batch itself: it is never split."""
        return [self]

    def halves(self) -> list["SimilarityBatch"]:
        return [self]


def pair_up(texts: list[list[int]], partners: list[list[int]], tokens: int) -> SimilarityBatch:
    """A batch of rows. `tokens`: the most in a part, padding included."""
    rows = texts + partners
    lengths = np.array([len(row) for row in rows])
    order = np.argsort(lengths, kind="stable")
    numbers = np.split(order, cut(lengths[order], tokens)[1:-1])
    padded = (pad_rows([rows[n] for n in some]) for some in numbers)
    return SimilarityBatch(
        parts=[EncoderRows(ids=ids, lengths=some) for ids, some in padded],
        places=torch.from_numpy(np.argsort(order, kind="stable")),
        same=same_texts([tuple(row) for row in texts], [tuple(row) for row in partners]),
        count=len(texts),
        tokens=int(lengths.sum()),
    )
