"""The head that a BERT was pre-trained with: it predicts hidden words (models/masked_model.py)."""

from collections.abc import Mapping

import torch
from torch import Tensor

from manyheads.text.foreign import ForeignPieces
from manyheads.text.masking import find_mask
from manyheads.text.tokenizer import PADDING

__all__ = ["SAID_TWICE", "knows_words", "names_with_head"]

HEAD = {
    f"prediction.{ours}.{part}": (f"cls.predictions.transform.{theirs}.{part}",)
    for ours, theirs in (("dense", "dense"), ("norm", "LayerNorm"))
    for part in ("weight", "bias")
} | {"prediction.bias": ("cls.predictions.bias",)}
"""Our names, and theirs."""

SAID_TWICE = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
"""Tensors that some models store a second time: the second name, and the first."""


def names_with_head(names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The names of the encoder, as part of a model with a head, and those of the head."""
    return {f"body.{ours}": theirs for ours, theirs in names.items()} | HEAD


def knows_words(stored: Mapping[str, Tensor], pieces: ForeignPieces) -> bool:
    """Whether the head is complete and tied to the word table, and the tokenizer has a mask and a special id 0."""
    whole = all(name in stored for parts in HEAD.values() for name in parts)
    return whole and is_tied(stored) and find_mask(pieces) is not None and PADDING in pieces.specials


def is_tied(stored: Mapping[str, Tensor]) -> bool:
    again = {name: once for name, once in SAID_TWICE.items() if name in stored and once in stored}
    return all(torch.equal(stored[name], stored[once]) for name, once in again.items())
