"""Fine-tuning: a model that is trained further, on other data.

It keeps its shape and its tokenizer; steps, rate and all else of the training are its own. What it was before, on the new
data and on the old, stands beside what it has become.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.errors import OptionError, did_you_mean
from manyheads.modelfolder import TOKENIZER, encoder_in, find_model, load_by_task
from manyheads.models.classifier import TextClassifier
from manyheads.models.config import EncoderConfig
from manyheads.models.parallel import ParallelTransformer
from manyheads.recipe import SECTIONS, TASKS, Recipe, Table, change_recipe, load_recipe, recipe_names, resolve
from manyheads.rules import IDLE
from manyheads.text.foreign import ForeignPieces
from manyheads.text.parallel import DEV
from manyheads.text.vocabulary import Vocabulary

__all__ = [
    "PIECES",
    "SETS",
    "Base",
    "comparison",
    "finetune_recipe",
    "freeze",
    "is_finetuning",
    "is_from_elsewhere",
    "keeps_head",
    "take_over",
    "tuned_recipe",
]

FINETUNE = "finetune"
TRANSLATORS = ("translate", "parallel")
"""Tasks whose models can become one that writes all at once, this way or that."""

ON_ENCODERS = ("embed", "classify")
"""Tasks that any encoder may be trained further for, whatever it was for."""

WAYS_OF_WRITING = ("writes", "places")
"""What the shape of a model that writes all tokens at once has and that of one that writes token by token has not."""

SHAPELESS = ("model.dropout", "model.attention_dropout", "model.feedforward_dropout", "model.drop_path")
PIECES = ("data.vocabulary", "data.tokenizer", "data.target_tokenizer", "data.backwards")
PARTS = {
    "embeddings": ("words.", "target_words.", "head.", "embed.", "body.words.", "body.embed."),
    "encoder": ("encoder.", "embed_source.", "body.encoder."),
    "decoder": ("decoder.", "embed_target."),
}


class Base:
    """The model that is trained further: a run folder, or a bundled model by its name. All of it is checked at once."""

    def __init__(self, folder: str | Path) -> None:
        self.name, self.place = str(folder), find_model(folder)
        self.model, self.vocabulary, self.recipe = load_by_task(folder)
        if is_from_elsewhere(self.vocabulary, self.recipe):
            raise OptionError(
                f"a model that is trained further was trained here, or is an encoder, got {self.name}, which was imported"
            )

    def files(self) -> dict[str, bytes]:
        """What a model keeps from it beside its weights."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def held_out(self) -> list[str] | None:
        """What it was judged by, if its run still has it."""
        files = [self.place / "data" / name for name in DEV]
        return [str(file) for file in files] if all(file.is_file() for file in files) else None


def is_from_elsewhere(vocabulary: Vocabulary, recipe: Recipe) -> bool:
    """An encoder knows by their lengths where texts end; others by id 0, which is one of the pieces of a model that was imported."""
    return isinstance(vocabulary.source, ForeignPieces) and TASKS[recipe.task].model is not EncoderConfig


def finetune_recipe(base: Base) -> str:
    """Of those who name none: that of the task, if it has one."""
    own = f"{base.recipe.task}/{FINETUNE}"
    return own if own in recipe_names() else FINETUNE


def is_finetuning(recipe: str | Path | Recipe) -> bool:
    """Is it one of our recipes that say nothing of a model's shape?"""
    return str(recipe) in recipe_names() and str(recipe).rpartition("/")[2] == FINETUNE


def tuned_recipe(base: Base, name: str | Path | Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The model, data and decoding of the base, the training of the recipe that is named, and then the changes."""
    tables, wanted = base.recipe.as_tables(), name if isinstance(name, Recipe) else load_recipe(name)
    all_at_once = wanted.task == "parallel" and base.recipe.task in TRANSLATORS
    may_change = (*SHAPELESS, *(f"model.{key}" for key in WAYS_OF_WRITING if all_at_once))
    for key in changes:
        if key in PIECES or (key.startswith("model.") and key not in may_change):
            raise OptionError(
                f"a model that is trained further keeps its shape and its tokenizer, got --set {key}={changes[key]}",
                hint=f"what may change of the model: {', '.join(may_change)}",
            )
    tables["train"] = wanted.as_tables()["train"]
    tables |= {"description": f"{base.name}, trained further", "base": base.name}
    if wanted.task in ON_ENCODERS and TASKS[base.recipe.task].model is EncoderConfig:
        tables = for_another_task(tables, wanted.task, {} if isinstance(name, Recipe) else resolve(str(name)))
    elif all_at_once:
        tables = for_another_task(tables, wanted.task, {})
        tables["model"] |= {key: getattr(wanted.parallel, key) for key in WAYS_OF_WRITING}
        tables["refine"] = asdict(wanted.refine)
    elif wanted.task != base.recipe.task and not says_no_task(name):
        raise OptionError(
            f"a model is trained further for what it is for, an encoder also for vectors and labels, a translator also to write all at once, "
            f"got {base.name}, for {base.recipe.task!r}, and a recipe for {wanted.task!r}",
            hint="encoders are what `manyheads import` makes of a BERT, and what bert/, embed/ and classify/ recipes train",
        )
    return change_recipe(tables, changes, f"{base.name}, trained further")


def says_no_task(name: str | Path | Recipe) -> bool:
    """Does a recipe say neither what it is for nor what a model is like? It is for any, then."""
    if isinstance(name, Recipe):
        return (name.task, name.model) == (Recipe().task, Recipe().model)
    return not {"task", "model"} & resolve(str(name)).keys()


def for_another_task(tables: Table, task: str, said: Table) -> Table:
    """The tables of a base, without what the new task has no use for, and with what its recipe says of texts and vectors itself."""
    for key in IDLE[task]:
        section, _, option = key.partition(".")
        if section != "train":
            tables.get(section, {}).pop(option, None)
    for section in ("data", "embed"):
        own = {key: value for key, value in said.get(section, {}).items() if f"{section}.{key}" not in PIECES}
        tables[section] = tables.get(section, {}) | own
    sections = TASKS[task].tables
    kept = {name: table for name, table in tables.items() if name not in SECTIONS or name in sections}
    return kept | {"task": task}


def keeps_head(base: Base, recipe: Recipe, vocabulary: Vocabulary) -> bool:
    """Does a model that is trained further go on as a whole? Not if it was for another task, or told other labels, or wrote another way."""
    if base.recipe.task != recipe.task:
        return False
    if recipe.task == "parallel":
        return base.recipe.parallel.writes == recipe.parallel.writes
    return not isinstance(base.model, TextClassifier) or base.vocabulary.labels.names == vocabulary.labels.names


def take_over(model: nn.Module, base: Base, recipe: Recipe, vocabulary: Vocabulary) -> None:
    """The weights of the base. If its head is of no use, those of its encoder; what is built on that begins anew. One that is to write all at once
    has a mask behind its words, and parts of its own."""
    if keeps_head(base, recipe, vocabulary):
        model.load_state_dict(base.model.state_dict())
    elif isinstance(model, ParallelTransformer):
        take_over_rows(model, base.model)
    else:
        encoder_in(model, vocabulary).load_state_dict(encoder_in(base.model, base.vocabulary).state_dict())


@torch.no_grad()
def take_over_rows(model: nn.Module, base: nn.Module) -> None:
    """Every weight of the base that the model has, too; where it has more rows, the others begin anew."""
    own = model.state_dict()
    for name, weight in base.state_dict().items():
        if name in own:
            own[name][: len(weight)] = weight


def freeze(model: nn.Module, parts: str) -> None:
    """Parameters that stay as they are: "embeddings", "encoder", "decoder", or the beginning of their names."""
    names = [name for name, _ in model.named_parameters()]
    for part in filter(None, map(str.strip, parts.split(","))):
        beginnings = PARTS.get(part, (part,))
        chosen = {name for name in names if name.startswith(beginnings)}
        if not chosen:
            known = [name for name, those in PARTS.items() if any(one.startswith(those) for one in names)]
            raise OptionError(
                f"train.freeze must name parts of the model, got {part!r}", hint=did_you_mean(part, known)
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
