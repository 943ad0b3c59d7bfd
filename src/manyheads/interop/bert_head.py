"""The head that a BERT was pre-trained with: it says which words were hidden (models/masked_model.py)."""

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
"""What some have stored once more under another name."""


def names_with_head(names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Of the encoder alone, and then of what is around it."""
    return {f"body.{ours}": theirs for ours, theirs in names.items()} | HEAD


def knows_words(stored: Mapping[str, Tensor], pieces: ForeignPieces) -> bool:
    """Is the head there, whole, over the table of words that is read from, and has the tokenizer a mask?"""
    whole = all(name in stored for parts in HEAD.values() for name in parts)
    return whole and is_tied(stored) and find_mask(pieces) is not None and PADDING in pieces.specials


def is_tied(stored: Mapping[str, Tensor]) -> bool:
    again = {name: once for name, once in SAID_TWICE.items() if name in stored and once in stored}
    return all(torch.equal(stored[name], stored[once]) for name, once in again.items())
