"""What every inspection has, whatever its model is made of; and what those have whose model writes.

    Inspected                   a pass over texts, and every head in it
    ├── ReadText                of an encoder alone: one text, which looks at itself                          readtext.py
    └── Written                 … of a model that writes: what it wrote, and what it could have written
        ├── ContinuedText       of a language model: one text, of which it wrote the end                      continued.py
        └── Translated          … of an encoder-decoder: a source and its translation
            ├── Inspection      written token by token                                                        translated.py
            └── WrittenAtOnce   all tokens at once: places, or a graph                                        atonce.py

T queries · S keys · H heads · W words of the target vocabulary
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.reading import Reading
from manyheads.errors import InputError, OptionError, brief
from manyheads.inspection.choices import Choice
from manyheads.inspection.sides import Piece, Side
from manyheads.inspection.switches import Head, Means, head_means, switched_off
from manyheads.inspection.trace import Model, Trace, attentions
from manyheads.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from manyheads.decoding.translator import Translator
    from manyheads.inspection.attribution import Attribution

__all__ = [
    "LONGEST",
    "SCHEMA",
    "Inspected",
    "Translated",
    "Written",
    "check_by_itself",
    "check_finite",
    "check_length",
    "check_text",
]

SCHEMA = "inspection/1"
LONGEST = 512
"""Pieces of a text that an encoder or a language model is looked at with: weights take the square of it, in every head."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inspected:
    """
    model        that was looked at, and the folder that it comes from, if it does
    sides        what an encoder has read ("source"), what a decoder has read and written ("target"): pieces and words
    tokenizers   of these sides
    typed        these as they were given; None where the model has found it
    trace        the pass
    off          heads that the model went without
    means        what these gave instead of nothing
    reading      which cross-attention says what belongs together, if there is one and it is known
    """

    model: Model
    folder: Path | None
    sides: Mapping[str, Side]
    tokenizers: Mapping[str, Tokenizer]
    typed: Mapping[str, str | None]
    trace: Trace
    off: tuple[Head, ...] = ()
    means: Means | None = None
    reading: Reading | None = None

    @cached_property
    def attention(self) -> Mapping[str, list[Float[Tensor, "H T S"]]]:
        """Of each kind that there is (encoder, decoder, cross), layer by layer, the weights of every head."""
        return self.trace.weights()

    @property
    def texts(self) -> list[str]:
        """What a picture is entitled with."""
        return [side.text for side in self.sides.values()]

    def ids(self, side: str) -> list[int]:
        return [piece.id for piece in self.sides[side].pieces] if side in self.sides else []

    def read_ids(self) -> tuple[list[int], list[int]]:
        """What a pass reads: of the target all but its last piece, which is only written."""
        return self.ids("source"), self.ids("target")[:-1]

    def looking(self, kind: str, read: bool = False) -> tuple[Side, list[Piece]]:
        """The side of an attention's queries, and its piece for each row: as it is written, or as it is `read`."""
        if kind == "encoder":
            return self.sides["source"], self.sides["source"].pieces
        side = self.sides["target"]
        return side, side.pieces[:-1] if read else side.pieces[1:]

    def looked_at(self, kind: str) -> tuple[Side, list[Piece]]:
        """The side of its keys, and the piece of each."""
        side = self.sides["target" if kind == "decoder" else "source"]
        return side, side.pieces[:-1] if kind == "decoder" else side.pieces

    @property
    def spelt(self) -> list[str]:
        """Sides whose pieces, one after the other, spell a text."""
        return list(self.sides)

    def without(self) -> AbstractContextManager[None]:
        """While this lasts, the model goes without the heads that this inspection went without."""
        return switched_off(self.model, self.off, self.means)

    def off_means(self) -> list[list[float]] | None:
        """What each head that is off gives instead of nothing."""
        if self.means is None:
            return None
        layers = attentions(self.model)
        return [self.means[layers[kind][layer]][head].tolist() for kind, layer, head in self.off]

    def whole_means(self) -> Means:
        """What heads give on average to these pieces, while all are on."""
        return head_means(self.model, *self.read_ids())

    def told(self) -> dict[str, Any]:
        """What is known beside texts and weights, for JSON."""
        return {}

    def as_json(self) -> dict[str, Any]:
        """All weights as nested lists, [layer][head][query][key]; of kinds and sides, those that there are."""
        return {
            "schema": SCHEMA,
            **{name: asdict(side) for name, side in self.sides.items()},
            **self.told(),
            "attention": {kind: [one.tolist() for one in layers] for kind, layers in self.attention.items()},
        }

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows."""
        from manyheads.inspection.notebook import forms_of

        return forms_of(self)

    def attribute(self, method: str) -> "Attribution":
        """What each piece owes to what was read: by "value-zeroing" and, of models that write, "leave-one-out", "gradient-x-input" or
        "integrated-gradients"."""
        from manyheads.inspection.attribution import attribute

        return attribute(self, method)

    def save(self, path: str | Path, **how: Any) -> Path:
        """Write it as what the name ends in: .html, .svg, .png or .json.

        Of an SVG or PNG it is said what is drawn: view ("matrix", "map", "lines", "heads", "iterations"), kind, layer, head, pieces. Of a page, which
        attributions it has: attribution=["leave-one-out", …]; by default those that are computed quickly.
        """
        from manyheads.inspection.saving import save

        return save(self, Path(path), **how)


@dataclass(frozen=True, eq=False, kw_only=True)
class Written(Inspected, ABC):
    """
    choices   for each row of the trace, what else could have been written. Where one token follows the other, row t reads target piece t and writes
              piece t + 1
    forced    what is written was given; else the model has found it
    """

    choices: list[Choice]
    forced: bool

    @property
    def target(self) -> Side:
        return self.sides["target"]

    @cached_property
    def log_probability(self) -> float:
        """Of all that the rows write."""
        return sum(choice.log_probability for choice in self.choices)

    def written_ids(self) -> list[int]:
        """What each row writes."""
        return self.ids("target")[1:]

    def allowed(self, logits: Float[Tensor, "*T W"]) -> Float[Tensor, "*T W"]:
        """Without what the model is never let write."""
        return logits

    @abstractmethod
    def log_probabilities(self, rows: int) -> list[float]:
        """Of all that is written, once more, in each row of a batch of copies."""

    def told(self) -> dict[str, Any]:
        return {
            "log_probability": self.log_probability,
            "forced": self.forced,
            "steps": [asdict(choice) for choice in self.choices],
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Translated(Written):
    """
    part, parts   a long text is read in parts; this is one of them
    """

    part: int = 1
    parts: int = 1

    @property
    def source(self) -> Side:
        return self.sides["source"]

    @property
    def translation(self) -> str:
        return self.target.text


# ── what is asked of all ────────────────────────────────────────────────────────────────────────────────────────────


def check_by_itself(translator: "Translator") -> None:
    if translator.judges:
        raise OptionError(
            "an inspection shows what a model does by itself, got one with a judge", hint="inspect it without"
        )


def check_text(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"an inspection needs a text to read, got {brief(text)}")
    return text


def check_length(count: int, most: int) -> None:
    most = min(most, LONGEST)
    if count > most:
        raise InputError(f"this model is looked at with texts of up to {most:,} pieces, got one of {count:,}")


def check_finite(passed: Trace) -> Trace:
    if not passed.output.isfinite().all():
        raise InputError("the model's numbers are not finite for this text: there is nothing to look at")
    return passed
