"""A tokenizer as Hugging Face's libraries read it: tokenizer.json and, beside it, the names of its special tokens.

Pieces that came from there go back unchanged. Byte pairs of our own become a byte-level BPE that cuts every line into
the same pieces, with the same ids (except an empty line, which is a space to us and nothing to it). Their tokenizer
finds special tokens in what people type; ours must not be found, so each has a newline in its name, which no line has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from manyheads.errors import InputError
from manyheads.text.bytepairs import ALPHABET, BytePairs
from manyheads.text.foreign import ForeignPieces
from manyheads.text.tokenizer import BEGIN, END, SPECIALS, Tokenizer

__all__ = ["Pieces", "pieces_of"]

ROLES = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "mask_token": ("[MASK]", "<mask>"),
}
"""What Hugging Face calls special tokens, and how other people's are spelt."""

UNTYPED = [f"{name}\n" for name in SPECIALS]
"""The names of our special tokens, by id."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A tokenizer for Hugging Face's libraries.

    special    its special tokens, by what Hugging Face calls them: "pad_token", "bos_token" …
    """

    tokenizer: tokenizers.Tokenizer
    special: Mapping[str, str]

    def id(self, role: str) -> int | None:
        return self.tokenizer.token_to_id(self.special[role]) if role in self.special else None

    def files(self, longest: int, inputs: Sequence[str]) -> dict[str, bytes]:
        """Its files, by name.

        longest   most tokens of a text
        inputs    names of the inputs that the model takes
        """
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": longest,
            "model_input_names": list(inputs),
            "clean_up_tokenization_spaces": False,
            **self.special,
        }
        return {
            "tokenizer.json": self.tokenizer.to_str(pretty=True).encode(),
            "tokenizer_config.json": (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode(),
        }


def pieces_of(tokenizer: Tokenizer, *, closed: bool) -> Pieces:
    """A tokenizer of ours as one of theirs.

    closed   a text has an end, as an encoder reads it; it is open if a model is to continue it
    """
    match tokenizer:
        case ForeignPieces():
            return Pieces(tokenizer.tokenizer, special_of(tokenizer))
        case BytePairs():
            return Pieces(
                byte_level(tokenizer, closed), dict(zip(("pad_token", "bos_token", "eos_token"), UNTYPED, strict=True))
            )
        case _:
            raise InputError(
                f"a tokenizer must be byte pairs to be exported, got one of the kind {tokenizer.kind!r}",
                hint="a model trained with data.tokenizer=bpe can be exported",
            )


def special_of(tokenizer: ForeignPieces) -> dict[str, str]:
    known = {tokenizer.tokenizer.id_to_token(i) for i in tokenizer.specials}
    found = {role: name for role, names in ROLES.items() for name in names if name in known}
    if tokenizer.model == "BPE":
        for role, ids in (("bos_token", tokenizer.begin), ("eos_token", tokenizer.end)):
            if ids and (name := tokenizer.tokenizer.id_to_token(ids[0])):
                found[role] = name
    return found


def byte_level(tokenizer: BytePairs, closed: bool) -> tokenizers.Tokenizer:
    joined = dict.fromkeys([*ALPHABET, *(left + right for left, right in tokenizer.merges)])
    ids = {piece: i for i, piece in enumerate([*UNTYPED, *joined])}
    made = tokenizers.Tokenizer(models.BPE(ids, tokenizer.merges))
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in UNTYPED])
    made.normalizer = normalizers.Prepend(" ")  # always: ByteLevel adds a space only where there is none
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    around = [UNTYPED[BEGIN], "$A", *([UNTYPED[END]] if closed else [])]
    made.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[(UNTYPED[i], i) for i in (BEGIN, END)]
    )
    return made
