"""`import_model`: a folder of another library becomes a model folder."""

from pathlib import Path

from manyheads.errors import InputError, nearest
from manyheads.interop.bert import import_bert
from manyheads.interop.gpt2 import import_gpt2
from manyheads.interop.huggingface import Source
from manyheads.interop.imported import Imported
from manyheads.modelfolder import check_new

__all__ = ["import_model"]

KINDS = {"bert": import_bert, "gpt2": import_gpt2}
"""By the model_type of config.json."""


def import_model(folder: str | Path, out: str | Path) -> Imported:
    """Write `out`, a model folder, from what Hugging Face's libraries have saved. Tells what it is, and what was left out."""
    check_new(out)
    source = Source(folder)
    kind = source.json("config.json").get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(
            f"{source.folder}: a model that can be imported has the model_type {' or '.join(map(repr, KINDS))}, got {kind!r}",
            hint=nearest(str(kind), list(KINDS)),
        )
    found = KINDS[kind](source)
    found.check(source)
    found.save(out)
    return found
