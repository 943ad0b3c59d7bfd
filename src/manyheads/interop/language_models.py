"""What all of Hugging Face's language models share: begin and end of texts, inputs, and what they become here."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from manyheads.errors import InputError, brief
from manyheads.interop.exported import Exported
from manyheads.interop.huggingface import Names, Source, take
from manyheads.interop.imported import Imported, beyond, cut_words
from manyheads.interop.pieces import pieces_of
from manyheads.models.config import LanguageModelConfig
from manyheads.recipe import DataConfig, Recipe
from manyheads.text.foreign import ForeignPieces, frame_of
from manyheads.text.tokenizer import Tokenizer
from manyheads.text.vocabulary import Vocabulary

__all__ = ["HEAD", "exported_language_model", "frame_said", "imported_language_model", "open_pieces"]

HEAD = "lm_head.weight"

OPEN_INPUTS = ("input_ids", "attention_mask")
"""The inputs of a language model."""


def imported_language_model(
    source: Source,
    model: LanguageModelConfig,
    pieces: ForeignPieces,
    stored: Mapping[str, Tensor],
    names: Names,
    buffers: tuple[str, ...],
) -> Imported:
    """What becomes of a language model: a recipe, a vocabulary and weights.

    buffers   endings of the names of tensors that nobody learnt: leaving these out is no loss
    """
    weights = take(stored, names, source.folder)
    cut_words(weights, ["words.weight"] if model.tie else ["words.weight", "head.weight"], pieces, source)
    left_out = [name for name in beyond(stored, names, (HEAD,)) if not name.endswith(buffers)]
    data = DataConfig(vocabulary=pieces.size, max_length=min(255, model.max_length - 1))
    recipe = Recipe(f"{source.folder.name}, imported", "generate", "", model=model, data=data)
    return Imported(recipe, Vocabulary(pieces), weights, left_out)


def exported_language_model(
    said: Mapping[str, Any], weights: Mapping[str, Tensor], tokenizer: Tokenizer, longest: int
) -> Exported:
    """The way back: the contents of its config.json, its weights, and pieces that put no end after a text."""
    pieces = pieces_of(tokenizer, closed=False)
    return Exported({**said, "pad_token_id": pieces.id("pad_token")}, weights, pieces.files(longest, OPEN_INPUTS))


def open_pieces(config: Mapping[str, Any], source: Source) -> ForeignPieces:
    """Pieces with the tokens that begin and end a text.

    If config.json names no token to begin it, the one that ends it does, as in GPT-2.
    """
    stored, ends = source.json("tokenizer.json"), ends_of(config, source)
    pieces, begin = ForeignPieces(stored, ends[:1], ends), config.get("bos_token_id")
    return ForeignPieces(stored, [begin], ends) if type(begin) is int and 0 <= begin < pieces.size else pieces


def ends_of(config: Mapping[str, Any], source: Source) -> list[int]:
    """Tokens that end a text: one, several, or none."""
    said = config.get("eos_token_id")
    ends = [] if said is None else said if isinstance(said, list) else [said]
    if not all(type(end) is int for end in ends):
        raise InputError(f"{source.folder}: eos_token_id must be a number or a list of numbers, got {brief(said)}")
    return ends


def frame_said(tokenizer: Tokenizer) -> dict[str, Any]:
    """The way back: the tokens that begin and end a text, as config.json names them."""
    begin, end = frame_of(tokenizer)
    return {
        "bos_token_id": begin[0] if begin else None,
        "eos_token_id": end if len(end) > 1 else end[0] if end else None,
    }
