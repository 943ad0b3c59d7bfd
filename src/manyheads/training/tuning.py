"""Fine-tuning: an existing model, the base, is trained further on other data.

It keeps its shape and its tokenizer; steps, rate and everything else about the training are new. At the end its scores
before and after are printed, on the new data and on the old.
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
"""Tasks whose models can be fine-tuned to write all tokens at once, whether by "mask", "end" or "graph"."""

ON_ENCODERS = ("embed", "classify")
"""Tasks that any encoder may be fine-tuned for, whatever its own task was."""

WAYS_OF_WRITING = ("writes", "places")
"""Keys of the shape of a model that writes all tokens at once; one that writes token by token has none of them."""

SHAPELESS = ("model.dropout", "model.attention_dropout", "model.feedforward_dropout", "model.drop_path")
PIECES = ("data.vocabulary", "data.tokenizer", "data.target_tokenizer", "data.backwards")
PARTS = {
    "embeddings": ("words.", "target_words.", "head.", "embed.", "body.words.", "body.embed."),
    "encoder": ("encoder.", "embed_source.", "body.encoder."),
    "decoder": ("decoder.", "embed_target."),
}


class Base:
    """The model to fine-tune: a run folder, or a bundled model by its name. All of it is checked immediately."""

    def __init__(self, folder: str | Path) -> None:
        self.name, self.place = str(folder), find_model(folder)
        self.model, self.vocabulary, self.recipe = load_by_task(folder)
        if is_from_elsewhere(self.vocabulary, self.recipe):
            raise OptionError(
                f"a model to fine-tune must be an encoder or a model trained by Manyheads, got {self.name}, which was imported"
            )

    def files(self) -> dict[str, bytes]:
        """What a fine-tuned model keeps from its base besides the weights."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def held_out(self) -> list[str] | None:
        """The development set of the base, if its run still has it."""
        files = [self.place / "data" / name for name in DEV]
        return [str(file) for file in files] if all(file.is_file() for file in files) else None


def is_from_elsewhere(vocabulary: Vocabulary, recipe: Recipe) -> bool:
    """True if a model was imported and is not an encoder.

    Encoders know the lengths of texts; other models find their end by id 0, which in an imported model is a piece.
    """
    return isinstance(vocabulary.source, ForeignPieces) and TASKS[recipe.task].model is not EncoderConfig


def finetune_recipe(base: Base) -> str:
    """The default recipe for fine-tuning a base: that of its task, if there is one."""
    own = f"{base.recipe.task}/{FINETUNE}"
    return own if own in recipe_names() else FINETUNE


def is_finetuning(recipe: str | Path | Recipe) -> bool:
    """True for our own recipes that say nothing about a model's shape."""
    return str(recipe) in recipe_names() and str(recipe).rpartition("/")[2] == FINETUNE


def tuned_recipe(base: Base, name: str | Path | Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The model, data and decoding of the base with the training of the named recipe, and then the changes."""
    tables, wanted = base.recipe.as_tables(), name if isinstance(name, Recipe) else load_recipe(name)
    all_at_once = wanted.task == "parallel" and base.recipe.task in TRANSLATORS
    may_change = (*SHAPELESS, *(f"model.{key}" for key in WAYS_OF_WRITING if all_at_once))
    for key in changes:
        if key in PIECES or (key.startswith("model.") and key not in may_change):
            raise OptionError(
                f"a fine-tuned model keeps its shape and its tokenizer, got --set {key}={changes[key]}",
                hint=f"of the model, these keys may change: {', '.join(may_change)}",
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
            f"a model can be fine-tuned for its own task, an encoder also for vectors and labels, a translator also to write all at once, "
            f"got {base.name}, for {base.recipe.task!r}, and a recipe for {wanted.task!r}",
            hint="encoders come from `manyheads import` of a BERT, or from bert/, embed/ and classify/ recipes",
        )
    return change_recipe(tables, changes, f"{base.name}, trained further")


def says_no_task(name: str | Path | Recipe) -> bool:
    """True if a recipe specifies neither a task nor a model: it is then for any."""
    if isinstance(name, Recipe):
        return (name.task, name.model) == (Recipe().task, Recipe().model)
    return not {"task", "model"} & resolve(str(name)).keys()


def for_another_task(tables: Table, task: str, said: Table) -> Table:
    """The tables of a base, without keys that the new task does not use.

    The new recipe's own tables, `said`, take precedence in [data], except for the tokenizer, and in [embed].
    """
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
    """True if a fine-tuned model keeps its head: same task, same labels, same way of writing as the base."""
    if base.recipe.task != recipe.task:
        return False
    if recipe.task == "parallel":
        return base.recipe.parallel.writes == recipe.parallel.writes
    return not isinstance(base.model, TextClassifier) or base.vocabulary.labels.names == vocabulary.labels.names


def take_over(model: nn.Module, base: Base, recipe: Recipe, vocabulary: Vocabulary) -> None:
    """Load the weights of the base.

    If its head is of no use, only its encoder is taken over, and everything on top of that starts anew. A model that
    writes all tokens at once has a mask after its words, and parts of its own.
    """
    if keeps_head(base, recipe, vocabulary):
        model.load_state_dict(base.model.state_dict())
    elif isinstance(model, ParallelTransformer):
        take_over_rows(model, base.model)
    else:
        encoder_in(model, vocabulary).load_state_dict(encoder_in(base.model, base.vocabulary).state_dict())


@torch.no_grad()
def take_over_rows(model: nn.Module, base: nn.Module) -> None:
    """Copy every weight of the base that the model also has; additional rows start anew."""
    own = model.state_dict()
    for name, weight in base.state_dict().items():
        if name in own:
            own[name][: len(weight)] = weight


def freeze(model: nn.Module, parts: str) -> None:
    """Freeze parameters. `parts`, comma-separated: "embeddings", "encoder", "decoder", or prefixes of names."""
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
        raise OptionError(f"train.freeze must leave something to train, got {parts!r}, which freezes everything")


SETS = {"dev": "new development set", "old": "old development set"}
Metrics = Mapping[str, float]


def comparison(before: Mapping[str, Metrics], after: Mapping[str, Metrics], say: Callable[[str], None]) -> None:
    """Print the scores before and after, on the new data and on the old, side by side."""
    for name, then in ((name, then) for name, then in before.items() if name in after):
        now, width = after[name], max(map(len, then))
        say(f"{SETS[name]}, before → after")
        for key, value in then.items():
            if key != "loss":
                say(f"  {key:<{width}}  {value:8.2f} → {now[key]:8.2f}  ({now[key] - value:+.2f})")
