"""Load a translator from a folder, whichever way its model writes."""

from pathlib import Path

from manyheads.decoding.parallel_translator import ParallelTranslator
from manyheads.decoding.translator import Translator
from manyheads.modelfolder import task_of_folder

__all__ = ["load_translator", "translator_of"]


def load_translator(folder: str | Path, device: str = "auto", precision: str = "auto") -> Translator:
    """A translator that writes token by token, or all at once."""
    kind = ParallelTranslator if task_of_folder(folder) == "parallel" else Translator
    return kind.load(folder, device, precision)


def translator_of(model: str | Path | Translator, device: str, precision: str) -> Translator:
    """A translator that is already loaded is returned as it is; any other is loaded from its folder."""
    return model if isinstance(model, Translator) else load_translator(model, device, precision)
