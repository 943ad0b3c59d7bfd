"""`Embedder`: texts to vectors that are close to each other if the texts mean about the same.

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

from manyheads.decoding.batching import CHUNK, CHUNK_CHARACTERS, blocks
from manyheads.decoding.rounding import load_rounded
from manyheads.embedding.reading import batches_of_rows, lay_out
from manyheads.errors import OptionError, brief
from manyheads.modelfolder import find_model, load_encoder
from manyheads.models.encoder import TextEncoder
from manyheads.nn.pooling import POOLINGS
from manyheads.recipe import EmbedConfig
from manyheads.text.joined import Frame
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Embedded", "Embedder"]


@dataclass(frozen=True, eq=False)
class Embedded:
    """A text and its vector.

    text        the text that was read
    vector      its vector
    tokens      how many were read, begin and end included; if none, the vector is 0
    truncated   there were more
    """

    text: str
    vector: Float[np.ndarray, " D"]
    tokens: int
    truncated: bool = False

    @property
    def finite(self) -> bool:
        """True if all numbers are finite. In fp16, some models produce numbers that are too large."""
        return bool(np.isfinite(self.vector).all())


class Embedder:
    """An encoder with its tokenizer, and how tokens become one vector."""

    def __init__(
        self, model: TextEncoder, tokenizer: Tokenizer, config: EmbedConfig, folder: Path | None = None
    ) -> None:
        """`folder` is where it was loaded from, if anywhere."""
        self.model, self.tokenizer, self.config, self.folder = model.eval(), tokenizer, config, folder
        self.pool = POOLINGS[config.pooling]
        self.frame = Frame.of(tokenizer, config.max_length)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", precision: str = "auto") -> "Embedder":
        """Load a model folder.

        precision   "fp32", "bf16", "fp16" or, on a CPU, "int8" ("auto": fp16 on a GPU, fp32 elsewhere)
        """
        model, vocabulary, recipe = load_rounded(load_encoder, folder, device, precision)
        return cls(model, vocabulary.source, recipe.embed, find_model(folder).absolute())

    def __call__(self, texts: str | Sequence[str]) -> Float[np.ndarray, "N D"]:
        """A row for each text; for a single text, its vector alone."""
        if isinstance(texts, str):
            return self([texts])[0]
        if not isinstance(texts, Iterable) or isinstance(texts, bytes):
            raise OptionError(f"an embedder takes a text or a list of texts, got {brief(texts)}")
        found = [one.vector for one in self.embed(texts)]
        return np.stack(found) if found else np.empty((0, self.model.config.width), np.float32)

    def embed(self, texts: Iterable[str]) -> Iterator[Embedded]:
        """Yield the vectors in the order of the texts, some thousands of which are held at a time."""
        for block in blocks(texts, CHUNK, CHUNK_CHARACTERS):
            yield from self.embed_block(block)

    def embed_block(self, texts: list[str]) -> list[Embedded]:
        pieces = self.tokenizer.encode(texts)
        rows = [self.frame.around(ids) for ids in pieces]
        vectors = np.zeros((len(rows), self.model.config.width), np.float32)
        for numbers in batches_of_rows(rows, self.model.words.weight.device):
            vectors[numbers] = self.vectors([rows[n] for n in numbers]).float().cpu().numpy()
        return [
            Embedded(text, vector, len(row), len(ids) > self.frame.most)
            for text, vector, row, ids in zip(texts, vectors, rows, pieces, strict=True)
        ]

    @torch.inference_mode()
    def vectors(self, rows: list[list[int]]) -> Float[Tensor, "B D"]:
        ids, layout = lay_out(rows, self.model.words.weight.device)
        vectors = self.pool(self.model(ids, layout), layout)
        return F.normalize(vectors.float(), dim=-1) if self.config.normalise else vectors
