"""`inspect`: one text through a model, with everything that its attentions did.

    found = inspect("de-en", "Ein Hund schläft.")
    found.translation                      what the model wrote
    found.attention["cross"][2]            where the heads of layer 2 looked: (heads, target pieces, source pieces)
    found.save("look.html")                a page to look at; also .svg, .png, .json

An encoder alone has read a text, and has attention["encoder"]; a language model has gone on with it, and has attention["decoder"]. A model that writes all
tokens at once has `tries`, every iteration of every length that it tried, or the `graph` that it read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.decoding.translator import Translator
from manyheads.embedding.embedder import Embedder
from manyheads.errors import OptionError, brief
from manyheads.generation.writer import Writer
from manyheads.inspection.atonce import WrittenAtOnce, write_text_at_once
from manyheads.inspection.continued import ContinuedText, continue_text
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.readtext import ReadText, read_text
from manyheads.inspection.translated import Inspection, translate_text
from manyheads.modelfolder import task_of_folder

__all__ = [
    "ContinuedText",
    "Inspected",
    "Inspection",
    "ReadText",
    "Subject",
    "WrittenAtOnce",
    "inspect",
    "load_subject",
]

Subject = Translator | Embedder | Writer
"""Who can be looked at."""
LOADERS: dict[str, Callable[[str | Path, str, str], Subject]] = {
    "embed": Embedder.load,
    "mask": Embedder.load,
    "classify": Embedder.load,
    "generate": Writer.load,
    "parallel": ParallelTranslator.load,
}
"""By the task of a model; all others are asked to translate, and say so if they cannot."""
READS, WRITES = ("off", "instead"), ("target", "off", "instead", "tokens")
"""What an encoder alone, and what a language model can be told."""


@overload
def inspect(model: ParallelTranslator, text: str, **options: Any) -> WrittenAtOnce: ...
@overload
def inspect(model: Translator, text: str = "", target: str | None = None, **options: Any) -> Inspection: ...
@overload
def inspect(model: Embedder, text: str, **options: Any) -> ReadText: ...
@overload
def inspect(model: Writer, text: str = "", target: str | None = None, **options: Any) -> ContinuedText: ...
@overload
def inspect(model: str | Path | Subject, text: str = "", target: str | None = None, **options: Any) -> Any: ...


def inspect(model: str | Path | Subject, text: str = "", target: str | None = None, **options: Any) -> Inspected:
    """Let a model read a text, and translate it or go on with it if it can (or write the target that is given); keep what every head did.

    off       heads that it goes without
    instead   what these give: "zero", or the "mean" of what they give to this text while all heads are on
    tokens    of a language model: how many it writes, 12 if nothing is said
    iteration of a model that writes all at once: whose attention is kept, the last if nothing is said; and how it writes: iterations, lengths, length,
              stretch, length_penalty
    …         of a translator: those of `translate_text`, and of a search: prefix, part, ids, replay, report, beam, length_penalty, …
    """
    subject = model if isinstance(model, Subject) else load_subject(model)
    given = options if target is None else {"target": target, **options}
    match subject:
        case Embedder():
            return read_text(subject, text, **known(READS, given, "embed"))
        case Writer():
            return continue_text(subject, text, **known(WRITES, given, "generate"))
        case ParallelTranslator():
            return write_text_at_once(subject, text, **given)
        case Translator():
            return translate_text(subject, text, **given)


def load_subject(folder: str | Path, device: str = "auto") -> Subject:
    """Whoever uses the model in a folder for what it is for. Weights are looked at as they are, in 32 bits."""
    return LOADERS.get(task_of_folder(folder), Translator.load)(folder, device, "fp32")


def known(names: tuple[str, ...], given: dict[str, Any], task: str) -> dict[str, Any]:
    """What is given, if all of it means something to a model of this task."""
    for name in (name for name in given if name not in names):
        raise OptionError(f"an inspection of a model that can {task} takes no {name}, got {brief(given[name])}")
    return given
