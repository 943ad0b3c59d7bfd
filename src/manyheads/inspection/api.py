"""`inspect`: run one text through a model and keep everything that its attentions did.

    found = inspect("de-en", "Ein Hund schläft.")
    found.translation                      what the model wrote
    found.attention["cross"][2]            where the heads of layer 2 looked: (heads, target pieces, source pieces)
    found.save("look.html")                a page to look at; also .svg, .png, .json

An encoder-only model reads a text: the result has attention["encoder"]. A language model continues it: the result has
attention["decoder"]. From a model that writes all tokens at once, the result has `tries`, every iteration of every
length that was tried, or the `graph` that was read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

import torch

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
from manyheads.modelfolder import CAN, task_of_folder

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
"""What can be inspected."""
LOADERS: dict[str, Callable[[str | Path, str, str], Subject]] = {
    "embed": Embedder.load,
    "mask": Embedder.load,
    "classify": Embedder.load,
    "generate": Writer.load,
    "parallel": ParallelTranslator.load,
}
"""By task. All other models are loaded as translators, with an error if they cannot translate."""
READS, WRITES = ("off", "instead"), ("target", "off", "instead", "tokens")
"""The options of an encoder-only model, and those of a language model."""


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
    """Let a model read a text, translate or continue it if it can (or write a given target), and keep what heads did.

    off         heads that it goes without
    instead     what these give: "zero", or the "mean" of what they give to this text with all heads on
    tokens      for a language model: how many it writes, by default 12
    iteration   for a model that writes all at once: the one whose attention is kept, by default the last. Such a model
                also takes iterations, lengths, length, stretch, length_penalty
    …           for a translator: the options of `translate_text` and of a search: prefix, part, ids, replay, report,
                beam, length_penalty, …
    """
    subject = model if isinstance(model, Subject) else load_subject(model)
    check_gradients(subject)
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


def check_gradients(subject: Subject) -> None:
    if subject.model.words.weight.dtype == torch.int8:
        raise OptionError(
            "weights that are inspected must have gradients, got a model in int8",
            hint='Translator.load(folder, precision="fp32")',
        )


def load_subject(folder: str | Path, device: str = "auto") -> Subject:
    """Load the model in a folder for its task. Weights are inspected as they are, in 32 bits."""
    return LOADERS.get(task_of_folder(folder), Translator.load)(folder, device, "fp32")


def known(names: tuple[str, ...], given: dict[str, Any], task: str) -> dict[str, Any]:
    """The given options, if all of them mean something to a model of this task."""
    for name in (name for name in given if name not in names):
        raise OptionError(f"an inspection of a model that can {CAN[task]} takes no {name}, got {brief(given[name])}")
    return given
