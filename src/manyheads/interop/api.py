"""`import_model` and `export_model`: a folder of another library becomes a model folder, and the other way round."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from manyheads.errors import InputError, OptionError, nearest
from manyheads.interop import bert, gpt2, llama
from manyheads.interop.exported import Exported
from manyheads.interop.huggingface import Source
from manyheads.interop.imported import Imported
from manyheads.modelfolder import check_new, encoder_in, load_by_task
from manyheads.recipe import Recipe
from manyheads.text.vocabulary import Vocabulary

__all__ = ["export_model", "import_model"]

KINDS = {"bert": bert.import_bert, "gpt2": gpt2.import_gpt2, "llama": llama.import_llama}
"""What imports a model, by the model_type of its config.json."""


class Kind(NamedTuple):
    """A kind of model that ours can become.

    like      what such a model is, in words
    misfits   why a model of ours cannot become one
    export    turns a model that fits into one
    """

    name: str
    like: str
    misfits: Callable[[Any], list[str]]
    export: Callable[[nn.Module, Vocabulary, Recipe], Exported]


CLASSES = {
    "embed": [
        Kind("a BERT", "norms after, layer norms, learned positions, biases", bert.misfits, bert.export_bert),
    ],
    "generate": [
        Kind("a GPT-2", "norms before, layer norms, learned positions, biases", gpt2.misfits, gpt2.export_gpt2),
        Kind("a Llama", "norms before, RMS norms, rotary positions, SwiGLU", llama.misfits, llama.export_llama),
    ],
}
"""What a model can become, by its task."""

HEADED = ("mask", "classify")
"""Tasks of encoders with a head, which is left out."""


def import_model(folder: str | Path, out: str | Path) -> Imported:
    """Write `out`, a model folder, from what Hugging Face's libraries have saved.

    Returns what was imported, and what was left out.
    """
    check_new(out)
    source = Source(folder)
    kind = source.json("config.json").get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"{source.folder}: a model to import must have the model_type {' or '.join(map(repr, KINDS))}, got {kind!r}",
            hint=nearest(str(kind), list(KINDS)),
        )
    found = KINDS[kind](source)
    found.check(source)
    found.save(out)
    return found


def export_model(folder: str | Path, out: str | Path, to: str = "huggingface") -> Exported:
    """Write `out`, a folder that Hugging Face's libraries read, from a model folder. Returns what was exported."""
    if to != "huggingface":
        raise OptionError(f"a model can only be exported to 'huggingface', got {to!r}")
    check_new(out)
    model, vocabulary, recipe = load_by_task(folder)
    headed = recipe.task in HEADED
    kinds = CLASSES.get("embed" if headed else recipe.task)
    if kinds is None:
        raise InputError(
            f"{folder}: only encoders and language models can be exported, got a model for {recipe.task!r}"
        )
    kind = min(kinds, key=lambda kind: len(kind.misfits(recipe.model)))
    if faults := kind.misfits(recipe.model):
        raise InputError(
            f"{folder}: {kind.name} must have {'; '.join(faults)}",
            hint="; ".join(f"{kind.name}: {kind.like}" for kind in kinds),
        )
    found = kind.export(encoder_in(model, vocabulary) if headed else model, vocabulary, recipe)
    found.save(out)
    return found
