"""Pieces from elsewhere, imported with models that were trained on them: none are learnt here.

    WordPiece           of BERT: pieces that continue a word begin with "##". Texts are normalised first (accents,
                        capitals), and what no pieces spell is unknown: the way back is not exact.
    byte-level BPE      of GPT-2: pieces of bytes, which spell every text

The `tokenizers` library does the work, because it reads exactly what it has written.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer as Pieces

from manyheads.errors import InputError, brief
from manyheads.text.tokenizer import ANGLES, BEGIN, END, PACKED, SURROGATE, Tokenizer
from manyheads.text.units import Units

__all__ = ["ForeignPieces", "frame_of"]

BLANK = "Ġ"
"""How byte-level pieces write a space."""
PLAIN = [byte for byte in range(0x21, 0x100) if byte not in (0x7F, *range(0x80, 0xA1), 0xAD)]
BYTE_OF = {chr(byte): byte for byte in PLAIN} | {
    chr(0x100 + n): byte for n, byte in enumerate(byte for byte in range(0x100) if byte not in PLAIN)
}
"""The byte that each letter of a byte-level piece stands for.

Visible characters stand for their own bytes, and letters from U+0100 on for the other bytes, in order.
"""


class ForeignPieces:
    """A tokenizer from Hugging Face.

    begin, end   ids that stand before and after a text
    specials     ids that no text spells
    """

    kind: ClassVar[str] = "huggingface"

    def __init__(self, stored: dict[str, Any], begin: list[int] | None = None, end: list[int] | None = None) -> None:
        """From the contents of a `tokenizer.json` of Hugging Face.

        Begin and end are what it puts around a text, unless they are given. Its truncation and padding are dropped:
        they are up to the caller.
        """
        self.model = kind_of(stored)
        try:
            self.tokenizer = Pieces.from_str(json.dumps({**stored, "truncation": None, "padding": None}))
        except Exception as error:  # the library's errors have no class of their own
            raise InputError(f"a tokenizer must be one that `tokenizers` can read, got: {error}") from None
        self.tokenizer.encode_special_tokens = True  # a [SEP] that someone types is plain text
        self.prefix: str = stored["model"].get("continuing_subword_prefix") or "##"
        self.size = 1 + max(self.tokenizer.get_vocab().values(), default=0)  # ids may have gaps
        around = self.around("a")
        self.begin, self.end = around[0] if begin is None else begin, around[1] if end is None else end
        if not all(isinstance(i, int) and 0 <= i < self.size for i in (*self.begin, *self.end)):
            raise InputError(f"the tokens around a text must be pieces, got {brief([self.begin, self.end])}")
        self.specials = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}

    def around(self, text: str) -> tuple[list[int], list[int]]:
        try:
            bare, whole = (self.tokenizer.encode(text, add_special_tokens=more).ids for more in (False, True))
        except Exception as error:  # a WordPiece that does not know what to do with what it does not know
            raise InputError(f"a tokenizer must cut every text, got: {error}") from None
        start = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), len(whole))
        return whole[:start], whole[start + len(bare) :]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            found.ids for found in self.tokenizer.encode_batch_fast(list(map(whole, texts)), add_special_tokens=False)
        ]

    def encode_packed(self, texts: Sequence[str]) -> list[bytes]:
        return [np.array(ids, PACKED).tobytes() for ids in self.encode(texts)]

    def decode(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """For display: byte-level pieces as the letters that they spell, others as they stand in the vocabulary."""
        return [
            (self.spelling(i).decode("utf-8", errors=ANGLES) if self.spells(i) else self.stored(i)) or f"‹{i}›"
            for i in ids
        ]

    def stored(self, i: int) -> str:
        return self.tokenizer.id_to_token(i) or ""

    def spells(self, i: int) -> bool:
        """Whether it is a byte-level piece."""
        return self.model == "BPE" and i not in self.specials

    def spelling(self, i: int) -> bytes:
        """The bytes that a byte-level piece adds to a text."""
        return bytes(BYTE_OF.get(letter, ord("?")) for letter in self.stored(i))

    def places(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each piece of a text, in characters.

        The spellings of pieces do not tell: WordPiece normalises what it cuts.
        """
        return self.tokenizer.encode(whole(text), add_special_tokens=False).offsets

    def units(self, ids: Iterable[int]) -> Units:
        """The word of each piece; a word starts with a piece that begins one, and special ids are in none."""
        found: Units = []
        words = 0
        for i in ids:
            words += i not in self.specials and (self.begins_word(i) or words == 0)
            found.append(None if i in self.specials else words - 1)
        return found

    def begins_word(self, i: int) -> bool:
        piece = self.stored(i)
        return piece.startswith(BLANK) if self.model == "BPE" else not piece.startswith(self.prefix)

    def as_json(self) -> dict[str, Any]:
        stored = json.loads(self.tokenizer.to_str())
        return {"kind": self.kind, "begin": self.begin, "end": self.end, "tokenizer": stored}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "ForeignPieces":
        return cls(stored["tokenizer"], stored["begin"], stored["end"])


def frame_of(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that stand before and after every text."""
    return (tokenizer.begin, tokenizer.end) if isinstance(tokenizer, ForeignPieces) else ([BEGIN], [END])


def whole(text: str) -> str:
    if half := SURROGATE.search(text):
        raise InputError(f"a text must be Unicode, got half of a surrogate pair, {half[0]!r}, at {half.start()}")
    return text


def kind_of(stored: Any) -> str:
    """The kind of model: WordPiece, or BPE over bytes. Any other is refused."""
    given = stored.get("model") if isinstance(stored, dict) else None
    model = given if isinstance(given, dict) else {}
    kind = model.get("type")
    if kind == "WordPiece" and str(model.get("unk_token")) not in (model.get("vocab") or ()):
        raise InputError(f"a WordPiece must have a piece for unknown text, got {brief(model.get('unk_token'))}")
    if kind == "WordPiece" or (kind == "BPE" and "ByteLevel" in json.dumps(stored.get("pre_tokenizer"))):
        return kind
    raise InputError(f"a tokenizer to import must be a WordPiece or a byte-level BPE, got {brief(kind)}")
