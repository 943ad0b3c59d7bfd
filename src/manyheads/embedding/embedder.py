"""`Embedder`: texts to vectors that are near each other where the texts mean about the same.

    embedder = Embedder.load("runs/minilm")
    vectors = embedder(["A dog is asleep.", "The dog sleeps."])             (2, width), float32
    vectors @ vectors.T                                                    cosines, if the model's vectors have length 1

N texts · B texts computed together · T tokens of the longest · D width
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, blocks, pad
from manyheads.decoding.rounding import load_rounded
from manyheads.errors import OptionError, brief
from manyheads.modelfolder import load_encoder
from manyheads.models.encoder import TextEncoder
from manyheads.nn import Padded
from manyheads.nn.pooling import POOLINGS
from manyheads.recipe import EmbedConfig
from manyheads.text.foreign import frame_of
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Embedded", "Embedder"]

TOKENS_AT_ONCE, TOKENS_ON_A_GPU = 2_048, 65_536
"""Padding included. On a CPU more than fits into its caches is no faster."""


@dataclass(frozen=True, eq=False)
class Embedded:
    """
    text        that was read
    vector      of it
    tokens      that were read, begin and end included; of none, the vector is 0
    truncated   there were more
    """

    text: str
    vector: Float[np.ndarray, " D"]
    tokens: int
    truncated: bool = False

    @property
    def finite(self) -> bool:
        """Are these numbers? In fp16, some models have some that are too large."""
        return bool(np.isfinite(self.vector).all())


class Embedder:
    """An encoder with its tokenizer, and how tokens become one vector."""

    def __init__(self, model: TextEncoder, tokenizer: Tokenizer, config: EmbedConfig) -> None:
        self.model, self.tokenizer, self.config = model.eval(), tokenizer, config
        self.pool = POOLINGS[config.pooling]
        self.begin, self.end = frame_of(tokenizer)
        self.most = config.max_length - len(self.begin) - len(self.end)
        if self.most < 1:
            raise OptionError(f"embed.max_length must leave room between begin and end, got {config.max_length}")

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Embedder":
        """From a model folder. precision   "fp32", "bf16" or "fp16" ("auto": fp16 on a GPU, fp32 elsewhere)"""
        model, vocabulary, recipe = load_rounded(load_encoder, folder, device, precision)
        return cls(model, vocabulary.source, recipe.embed)

    def __call__(self, texts: str | Sequence[str]) -> Float[np.ndarray, "N D"]:
        """A row for each text; of one text, a row alone."""
        if isinstance(texts, str):
            return self([texts])[0]
        if not isinstance(texts, Iterable) or isinstance(texts, bytes):
            raise OptionError(f"an embedder takes a text or a list of texts, got {brief(texts)}")
        found = [one.vector for one in self.embed(texts)]
        return np.stack(found) if found else np.empty((0, self.model.config.width), np.float32)

    def embed(self, texts: Iterable[str]) -> Iterator[Embedded]:
        """In the order of the texts, some thousands of which are held at a time."""
        for block in blocks(texts, CHUNK, CHUNK_CHARACTERS):
            yield from self.embed_block(block)

    def embed_block(self, texts: list[str]) -> list[Embedded]:
        pieces = self.tokenizer.encode(texts)
        rows = [[*self.begin, *ids[: self.most], *self.end] for ids in pieces]
        vectors = np.zeros((len(rows), self.model.config.width), np.float32)
        for numbers in self.batches(rows):
            vectors[numbers] = self.vectors([rows[n] for n in numbers]).float().cpu().numpy()
        return [
            Embedded(text, vector, len(row), len(ids) > self.most)
            for text, vector, row, ids in zip(texts, vectors, rows, pieces, strict=True)
        ]

    def batches(self, rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Numbers of rows of about one length, the longest first: what does not fit in memory is known at once."""
        order = sorted((n for n in range(len(rows)) if rows[n]), key=lambda n: -len(rows[n]))
        room, start = TOKENS_AT_ONCE if self.model.words.weight.device.type == "cpu" else TOKENS_ON_A_GPU, 0
        while start < len(order):
            count = max(1, room // len(rows[order[start]]))
            yield order[start : start + count]
            start += count

    @torch.inference_mode()
    def vectors(self, rows: list[list[int]]) -> Float[Tensor, "B D"]:
        device = self.model.words.weight.device
        lengths = [len(row) for row in rows]
        ids = pad(rows).to(device)
        # Where nothing is padded there is nothing to mask, which is faster.
        layout = Padded.like(ids) if min(lengths) == max(lengths) else Padded.from_lengths(lengths, device)
        vectors = self.pool(self.model(ids, layout), layout)
        return F.normalize(vectors.float(), dim=-1) if self.config.normalise else vectors
