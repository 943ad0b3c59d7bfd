"""The base classes of inspections: what all have in common, and what a model that writes adds.

    Inspected                   a pass over texts, and every head in it
    ├── ReadText                by an encoder-only model: one text, which looks at itself         readtext.py
    └── Written                 by a model that writes: what it wrote and could have written
        ├── ContinuedText       by a language model: one text, whose end it wrote                 continued.py
        └── Translated          by an encoder-decoder: a source and its translation
            ├── Inspection      written token by token                                            translated.py
            └── WrittenAtOnce   written all at once: places, or a graph                           atonce.py

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
"""Most pieces of an inspected text, except in token-by-token translation: each head's weights take the square of it."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inspected:
    """One pass of a model over texts, and every head in it.

    model        the model; folder: where it was loaded from, if it was
    sides        what an encoder read ("source") and what a decoder read and wrote ("target"), as pieces and words
    tokenizers   of these sides
    typed        the texts of these sides as they were given; None if the model wrote it
    trace        the pass
    off          heads that the model went without
    means        what these gave instead of nothing
    reading      the cross-attention that alignments are read from, if there is one and it is known
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

    def __repr__(self) -> str:
        texts = " → ".join(repr(side.text) for side in self.sides.values())
        return f"<{type(self).__name__} of {texts}>"

    @cached_property
    def attention(self) -> Mapping[str, list[Float[Tensor, "H T S"]]]:
        """The weights of every head, layer by layer, for each kind that the model has (encoder, decoder, cross)."""
        return self.trace.weights()

    @property
    def texts(self) -> list[str]:
        """The texts in the title of a picture."""
        return [side.text for side in self.sides.values()]

    def ids(self, side: str) -> list[int]:
        return [piece.id for piece in self.sides[side].pieces] if side in self.sides else []

    def read_ids(self) -> tuple[list[int], list[int]]:
        """The ids that a pass reads: all but the last piece of the target, which is only written."""
        return self.ids("source"), self.ids("target")[:-1]

    def looking(self, kind: str, read: bool = False) -> tuple[Side, list[Piece]]:
        """The side of an attention's queries, and the piece that each row writes or, if `read`, has read."""
        if kind == "encoder":
            return self.sides["source"], self.sides["source"].pieces
        side = self.sides["target"]
        return side, side.pieces[:-1] if read else side.pieces[1:]

    def looked_at(self, kind: str) -> tuple[Side, list[Piece]]:
        """The side of an attention's keys, and the piece of each."""
        side = self.sides["target" if kind == "decoder" else "source"]
        return side, side.pieces[:-1] if kind == "decoder" else side.pieces

    @property
    def spelt(self) -> list[str]:
        """The sides whose pieces, joined in order, spell a text."""
        return list(self.sides)

    def without(self) -> AbstractContextManager[None]:
        """In this context, the model goes without the heads that this inspection went without."""
        return switched_off(self.model, self.off, self.means)

    def off_means(self) -> list[list[float]] | None:
        """What each head that is off gives; None if that is nothing."""
        if self.means is None:
            return None
        layers = attentions(self.model)
        return [self.means[layers[kind][layer]][head].tolist() for kind, layer, head in self.off]

    def whole_means(self) -> Means:
        """What heads give to these pieces on average, with all heads on."""
        return head_means(self.model, *self.read_ids())

    def told(self) -> dict[str, Any]:
        """What is known besides texts and weights, for JSON."""
        return {}

    def as_json(self) -> dict[str, Any]:
        """The inspection for JSON, without kinds and sides that the model lacks.

        Weights are nested lists, [layer][head][query][key].
        """
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
        """What each piece owes to what was read.

        The method is "value-zeroing" or, for models that write, also "leave-one-out", "gradient-x-input" or
        "integrated-gradients".
        """
        from manyheads.inspection.attribution import attribute

        return attribute(self, method)

    def save(self, path: str | Path, **how: Any) -> Path:
        """Save in the format that the suffix names: .html, .svg, .png or .json.

        For an SVG or PNG, `how` says what to draw: view ("matrix", "map", "lines", "heads", "iterations"), kind, layer,
        head, pieces. For a page, attribution=["leave-one-out", …] adds to the attributions that are computed quickly.
        """
        from manyheads.inspection.saving import save

        return save(self, Path(path), **how)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Written(Inspected, ABC):
    """An inspection of a model that writes.

    choices   for each row of the trace, what else could have been written. In a model that writes token by token, row t
              reads target piece t and writes piece t + 1
    forced    True if the target was given, False if the model found it
    """

    choices: list[Choice]
    forced: bool

    @property
    def target(self) -> Side:
        return self.sides["target"]

    @cached_property
    def log_probability(self) -> float:
        """The log-probability of everything that the rows write."""
        return sum(choice.log_probability for choice in self.choices)

    def written_ids(self) -> list[int]:
        """The id that each row writes."""
        return self.ids("target")[1:]

    def allowed(self, logits: Float[Tensor, "*T W"]) -> Float[Tensor, "*T W"]:
        """The logits without ids that the model may never write."""
        return logits

    @abstractmethod
    def log_probabilities(self, rows: int) -> list[float]:
        """The log-probability of everything written, computed again in each row of a batch of copies."""

    def told(self) -> dict[str, Any]:
        return {
            "log_probability": self.log_probability,
            "forced": self.forced,
            "steps": [asdict(choice) for choice in self.choices],
        }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Translated(Written):
    """An inspection of an encoder-decoder.

    part, parts   a long text is read in parts: this is part `part` of `parts`, counted from 1
    """

    part: int = 1
    parts: int = 1

    @property
    def source(self) -> Side:
        return self.sides["source"]

    @property
    def translation(self) -> str:
        return self.target.text


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_by_itself(translator: "Translator") -> None:
    if translator.judges:
        raise OptionError(
            "a model must be inspected without a judge, got one with a judge", hint="inspect the model alone"
        )


def check_text(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"an inspection needs a text to read, got {brief(text)}")
    return text


def check_length(count: int, most: int) -> None:
    most = min(most, LONGEST)
    if count > most:
        raise InputError(f"this model can be inspected with texts of up to {most:,} pieces, got one of {count:,}")


def check_finite(passed: Trace) -> Trace:
    if not passed.output.isfinite().all():
        raise InputError("the model's numbers are not finite for this text: there is nothing to inspect")
    return passed
