"""Fine-tuning: a model that is trained further, on other data.

It keeps its shape and its tokenizer; steps, rate and all else of the training are its own. What it was before, on the new
data and on the old, stands beside what it has become.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.errors import OptionError, did_you_mean
from manyheads.modelfolder import TOKENIZER, find_model, load_by_task
from manyheads.recipe import Recipe, change_recipe, load_recipe
from manyheads.text.foreign import ForeignPieces
from manyheads.text.parallel import DEV

__all__ = ["FINETUNE", "SETS", "Base", "comparison", "freeze", "tuned_recipe"]

FINETUNE = "finetune"
"""The recipe of those who name none."""

SHAPELESS = ("model.dropout", "model.attention_dropout", "model.feedforward_dropout", "model.drop_path")
PIECES = ("data.vocabulary", "data.tokenizer", "data.target_tokenizer")
PARTS = {
    "embeddings": ("words.", "target_words.", "head."),
    "encoder": ("encoder.", "embed_source."),
    "decoder": ("decoder.", "embed_target."),
}


class Base:
    """The model that is trained further: a run folder, or a bundled model by its name. All of it is checked at once."""

    def __init__(self, folder: str | Path) -> None:
        self.name, self.place = str(folder), find_model(folder)
        self.model, self.vocabulary, self.recipe = load_by_task(folder)
        if isinstance(self.vocabulary.source, ForeignPieces):
            raise OptionError(f"a model that is trained further was trained here, got {self.name}, which was imported")

    def files(self) -> dict[str, bytes]:
        """What a model keeps from it beside its weights."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def held_out(self) -> list[str] | None:
        """What it was judged by, if its run still has it."""
        files = [self.place / "data" / name for name in DEV]
        return [str(file) for file in files] if all(file.is_file() for file in files) else None


def tuned_recipe(base: Base, name: str | Path | Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The model, data and decoding of the base, the training of the recipe that is named, and then the changes."""
    for key in changes:
        if key in PIECES or (key.startswith("model.") and key not in SHAPELESS):
            raise OptionError(
                f"a model that is trained further keeps its shape and its tokenizer, got --set {key}={changes[key]}",
                hint=f"what may change of the model: {', '.join(SHAPELESS)}",
            )
    tables = base.recipe.as_tables()
    tables["train"] = (name if isinstance(name, Recipe) else load_recipe(name)).as_tables()["train"]
    tables |= {"description": f"{base.name}, trained further", "base": base.name}
    return change_recipe(tables, changes, f"{base.name}, trained further")


def freeze(model: nn.Module, parts: str) -> None:
    """Parameters that stay as they are: "embeddings", "encoder", "decoder", or the beginning of their names."""
    names = [name for name, _ in model.named_parameters()]
    for part in filter(None, map(str.strip, parts.split(","))):
        beginnings = PARTS.get(part, (part,))
        chosen = {name for name in names if name.startswith(beginnings)}
        if not chosen:
            raise OptionError(
                f"train.freeze must name parts of the model, got {part!r}", hint=did_you_mean(part, PARTS)
            )
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and name not in chosen)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise OptionError(f"something must be left to train, got train.freeze = {parts!r}: nothing is")


SETS = {"dev": "new development set", "old": "old development set"}
Metrics = Mapping[str, float]


def comparison(before: Mapping[str, Metrics], after: Mapping[str, Metrics], say: Callable[[str], None]) -> None:
    """Before and after, on the new data and on the old, side by side."""
    for name, then in ((name, then) for name, then in before.items() if name in after):
        now, width = after[name], max(map(len, then))
        say(f"{SETS[name]}, before → after")
        for key, value in then.items():
            if key != "loss":
                say(f"  {key:<{width}}  {value:8.2f} → {now[key]:8.2f}  ({now[key] - value:+.2f})")
