"""Pieces of words as BERT has them: a list of pieces, of which those that go on inside a word begin with "##".

They come from elsewhere, with models that were trained on them; none are learnt here. Texts are normalised first (accents, capitals), and
what no pieces spell is unknown: the way back is not exact.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer as Pieces

from manyheads.errors import InputError, brief
from manyheads.text.tokenizer import PACKED
from manyheads.text.units import Units

__all__ = ["WordPieces"]

MODEL = "WordPiece"


class WordPieces:
    """
    begin, end   ids that stand before and behind a text
    """

    kind: ClassVar[str] = "wordpieces"

    def __init__(self, stored: dict[str, Any]) -> None:
        """From what a `tokenizer.json` of Hugging Face holds. How it cuts and fills up is not taken over: that is for who uses it."""
        if not isinstance(stored, dict) or stored.get("model", {}).get("type") != MODEL:
            raise InputError(f"the tokenizer of a BERT is a {MODEL}, got {brief(stored)}")
        try:
            self.tokenizer = Pieces.from_str(json.dumps({**stored, "truncation": None, "padding": None}))
        except Exception as error:  # what is thrown is of no class of its own
            raise InputError(f"a tokenizer must be one that `tokenizers` can read, got: {error}") from None
        self.tokenizer.encode_special_tokens = True  # nobody types a [SEP] that is one
        self.prefix: str = stored["model"].get("continuing_subword_prefix", "##")
        self.size = self.tokenizer.get_vocab_size()
        self.begin, self.end = self.around("a")
        self.specials = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}

    def around(self, text: str) -> tuple[list[int], list[int]]:
        bare, whole = (self.tokenizer.encode(text, add_special_tokens=more).ids for more in (False, True))
        start = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), len(whole))
        return whole[:start], whole[start + len(bare) :]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        return [np.array(ids, PACKED).tobytes() for ids in self.encode(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.tokenizer.id_to_token(i) or f"‹{i}›" for i in ids]

    def units(self, ids: Iterable[int]) -> Units:
        """The word of each piece, where a word is what its first piece begins."""
        found: Units = []
        words = 0
        for i, piece in zip(given := list(ids), self.pieces(given), strict=True):
            words += i not in self.specials and (not piece.startswith(self.prefix) or words == 0)
            found.append(None if i in self.specials else words - 1)
        return found

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokenizer": json.loads(self.tokenizer.to_str())}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "WordPieces":
        return cls(stored["tokenizer"])
