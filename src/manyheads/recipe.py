"""A recipe: all the choices of a run, from a TOML file to checked, frozen sections.

    recipe = load_recipe("paper/base")                                a preset
    recipe = load_recipe("mine.toml", {"model.width": 256})           a file of your own, one key changed

Precedence: the defaults of the sections < the recipe that it extends < the recipe < the keys set by hand.
Nothing here imports torch.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from manyheads.errors import OptionError, brief, did_you_mean, nearest
from manyheads.models.config import EncoderConfig, LanguageModelConfig, ParallelConfig, StackConfig, TransformerConfig
from manyheads.rules import IDLE, RULES
from manyheads.sections import Section, refuse
from manyheads.settings import (
    DataConfig,
    DecodeConfig,
    EmbedConfig,
    GenerateConfig,
    MaskConfig,
    Published,
    RefineConfig,
    TrainConfig,
)

__all__ = [
    "DataConfig",
    "DecodeConfig",
    "EmbedConfig",
    "GenerateConfig",
    "MaskConfig",
    "Published",
    "Recipe",
    "RefineConfig",
    "TrainConfig",
    "change_recipe",
    "homes_of",
    "load_recipe",
    "recipe_from_text",
    "recipe_names",
]

Table = dict[str, Any]
Shape = TypeVar("Shape", bound=StackConfig)

LARGEST, LONGEST_LINE = 100_000, 4_000
DEEP_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){20}")
"""A key with 20 dots or more. Each word is matched once, so a hostile file cannot make the search quadratic."""


@dataclass(frozen=True)
class Kind:
    """What the recipes of a task consist of.

    model      section [model]: the shape of what is built
    sections   names of the other sections
    trainer    module whose `Task` trains the model
    """

    model: type[StackConfig]
    sections: tuple[str, ...]
    trainer: str

    @property
    def tables(self) -> dict[str, type[Section]]:
        return {"model": self.model, **{name: SECTIONS[name] for name in self.sections}}


TASKS = {
    "translate": Kind(TransformerConfig, ("data", "train", "decode", "published"), "manyheads.tasks.translate"),
    "parallel": Kind(ParallelConfig, ("data", "train", "refine", "published"), "manyheads.tasks.parallel"),
    "embed": Kind(EncoderConfig, ("data", "train", "embed"), "manyheads.tasks.embed"),
    "classify": Kind(EncoderConfig, ("data", "train", "embed"), "manyheads.tasks.classify"),
    "generate": Kind(LanguageModelConfig, ("data", "train", "generate"), "manyheads.tasks.generate"),
    "mask": Kind(EncoderConfig, ("data", "train", "mask", "embed"), "manyheads.tasks.mask"),
}

SECTIONS: dict[str, type[Section]] = {
    "data": DataConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
    "refine": RefineConfig,
    "embed": EmbedConfig,
    "generate": GenerateConfig,
    "mask": MaskConfig,
    "published": Published,
}


@dataclass(frozen=True)
class Recipe:
    """Everything a run needs to know.

    description   purpose of the recipe, in a sentence
    task          what the model does: "translate"; "parallel", translate by writing all tokens at once; "embed", turn
                  texts into vectors; "classify", label texts; "generate", continue a text; "mask", predict hidden
                  words, which is how an encoder is pre-trained
    base          model that is trained further, if there is one; `train --from` writes it

    A file may also begin with this:

    extends       preset or file that this recipe changes: keys that are not here are taken from there; the path of a
                  file is relative to this one
    """

    description: str = ""
    task: str = "translate"
    base: str = ""
    model: TransformerConfig | EncoderConfig | LanguageModelConfig = field(default_factory=TransformerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    generate: GenerateConfig = field(default_factory=GenerateConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    published: Published = field(default_factory=Published)

    @property
    def transformer(self) -> TransformerConfig:
        """[model] of an encoder-decoder."""
        return self.of(TransformerConfig)

    @property
    def parallel(self) -> ParallelConfig:
        """[model] of an encoder-decoder that writes all tokens at once."""
        return self.of(ParallelConfig)

    @property
    def encoder(self) -> EncoderConfig:
        """[model] of an encoder alone."""
        return self.of(EncoderConfig)

    @property
    def language_model(self) -> LanguageModelConfig:
        """[model] of a decoder alone."""
        return self.of(LanguageModelConfig)

    def of(self, kind: type[Shape]) -> Shape:
        if not isinstance(self.model, kind):
            wanted = " or ".join(repr(name) for name, one in TASKS.items() if one.model is kind)
            raise OptionError(f"a model for the task {wanted} is needed, got one for {self.task!r}")
        return self.model

    def as_tables(self) -> Table:
        """The recipe as nested plain values, without those that were not set."""
        sections = {
            name: {k: v for k, v in asdict(getattr(self, name)).items() if v not in (None, "")}
            for name in TASKS[self.task].tables
        }
        return {
            "description": self.description,
            "task": self.task,
            **({"base": self.base} if self.base else {}),
            **{name: table for name, table in sections.items() if table},
        }


def load_recipe(name: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A preset by its name, or a TOML file of your own, with keys like "model.width" changed.

    A file may start with `extends = "small"` and contain only what differs from that preset or file. Keys that are
    not set anywhere have the default of their section. All faults of the result are reported in one error.
    """
    return change_recipe(resolve(str(name)), changes or {}, str(name))


def change_recipe(tables: Table, changes: Mapping[str, Any], name: str) -> Recipe:
    """A recipe from its tables, with keys changed."""
    for key, value in changes.items():
        section, _, option = key.partition(".")
        if not option or not isinstance(tables.setdefault(section, {}), dict):
            raise OptionError(
                f"{name}: a key to change must be section.key, got {key!r}", hint="for example model.width"
            )
        tables[section][option] = value
    if "train.epochs" in changes and "train.steps" not in changes:
        tables["train"].pop("steps", None)
    changed = ", ".join(f"{key} = {brief(value)}" for key, value in changes.items())
    return build_recipe(tables, where=f"{name} with {changed}" if changed else name)


def recipe_from_text(text: str, where: str) -> Recipe:
    """A recipe as a run stores it: complete, without `extends`."""
    return build_recipe(parse_toml(text, where), where)


def recipe_names() -> list[str]:
    """The names of all presets, as `load_recipe` takes them."""
    root = Path(str(files("manyheads.recipes")))
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.toml"))
    return sorted(names, key=lambda name: ("/" in name, name))  # our own first


def resolve(name: str, seen: tuple[str, ...] = ()) -> Table:
    """The tables of a recipe, merged over those of the recipe that it extends."""
    place = os.path.abspath(name) if name.endswith(".toml") else name
    if place in seen:
        raise OptionError(f"a recipe must not extend itself, got {' → '.join((*seen, place))}")
    if len(seen) == 20:
        raise OptionError(f"recipes may extend one another at most 20 deep, got more from {seen[0]}")
    tables = read_tables(name)
    if "extends" not in tables:
        return tables
    parent = tables.pop("extends")
    if not isinstance(parent, str):
        raise OptionError(f"{name}: extends must be the name of a recipe, got {parent!r}")
    if parent.endswith(".toml"):
        parent = os.path.join(os.path.dirname(name), parent)  # relative to the file that names it
    try:
        return merge(resolve(parent, (*seen, place)), tables)
    except OptionError as error:
        raise OptionError(f"{name}: extends: {error.message}", error.hint) from None


def read_tables(name: str) -> Table:
    path = find(name)
    try:
        return parse_toml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise OptionError(f"a recipe must be TOML, got {path}: {error}") from None
    except OSError as error:
        raise OptionError(f"a recipe must be readable, got {path}: {error.strerror}") from None


def parse_toml(text: str, where: str) -> Table:
    """The tables of a TOML text, within bounds: the parser needs memory quadratic in the number of parts of a key."""
    if len(text) > LARGEST or any(len(line) > LONGEST_LINE for line in text.split("\n")) or DEEP_KEY.search(text):
        raise OptionError(
            f"a recipe must have at most {LARGEST:,} characters, {LONGEST_LINE:,} per line, and keys of two parts, got {where}"
        )
    try:
        return tomllib.loads(text)
    # Bad TOML, numbers of 5,000 digits, tables in tables in tables:
    except (ValueError, RecursionError) as error:
        raise OptionError(f"a recipe must be TOML, got {where}: {error}") from None


def find(name: str) -> Path:
    """A preset by its name, or any file that ends in .toml."""
    if name.endswith(".toml"):
        if not is_file(name):
            raise OptionError(f"a recipe must be a preset or a file, got {name!r}: there is no such file")
        return Path(name)
    if name not in recipe_names():
        raise OptionError(
            f"a recipe must be a preset or end in .toml, got {name!r}",
            hint=nearest(name, recipe_names()) or "`manyheads recipes` lists the presets",
        )
    return Path(str(files("manyheads.recipes"))) / f"{name}.toml"


def is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def merge(below: Table, above: Table) -> Table:
    """Both tables as one. `above` wins, key by key, also inside tables."""
    both = {
        k: merge(below[k], above[k]) for k in above if isinstance(above[k], dict) and isinstance(below.get(k), dict)
    }
    merged = {**below, **above, **both}
    if "epochs" in above and "steps" not in above:
        merged.pop("steps", None)  # a number of epochs overrides the steps of the recipe below
    return merged


def build_recipe(tables: Table, where: str) -> Recipe:
    """A recipe from plain values, with the faults of all sections in one error."""
    refuse(list(table_faults(tables)), where)
    task = tables.get("task", "translate")
    kinds = TASKS[task].tables.items()
    sections: Any = {name: build_section(name, kind, tables.get(name, {}), where) for name, kind in kinds}
    recipe = Recipe(tables.get("description", ""), task, tables.get("base", ""), **sections)
    refuse(list(rules_between_sections(recipe)), where)
    return recipe


def rules_between_sections(recipe: Recipe) -> Iterator[str]:
    yield from RULES[recipe.task](recipe)
    for name in IDLE[recipe.task]:
        section, _, key = name.partition(".")
        default = SECTIONS[section].__dataclass_fields__[key].default  # type: ignore[attr-defined]
        if (value := getattr(getattr(recipe, section), key)) not in (default, 0):
            yield f"{name} does nothing for the task {recipe.task!r}, got {value!r}"


def table_faults(tables: Table) -> Iterator[str]:
    task = tables.get("task", "translate")
    if not isinstance(task, str) or task not in TASKS:
        yield f"task must be one of {', '.join(map(repr, TASKS))}, got {brief(task)}"
        return
    known = TASKS[task].tables
    for name, table in tables.items():
        if name in ("description", "base"):
            if not isinstance(table, str):
                yield f"{name} must be text, got {brief(table)}"
        elif name == "task":
            continue
        elif name not in known:
            yield f"{name} is not a section of a recipe{for_task(task)}: {where_it_belongs(name, known)}"
        elif not isinstance(table, dict):
            yield f"{name} must be a section, [{name}], got {brief(table)}"
        else:
            yield from known[name].faults(table, prefix=f"{name}.")


def for_task(task: str) -> str:
    return "" if task == "translate" else f" for the task {task!r}"


def where_it_belongs(name: str, known: Mapping[str, type[Section]]) -> str:
    """A hint for an unknown name: the section that a bare key belongs under, or the name that was probably meant."""
    homes = homes_of(name, known)
    return f"it belongs under [{homes[0]}]" if homes else did_you_mean(name, [*known, "extends", "description", "task"])


def homes_of(key: str, known: Mapping[str, type[Section]]) -> list[str]:
    """The sections that have a key of this name."""
    return [section for section, kind in known.items() if key in kind.__dataclass_fields__]  # type: ignore[attr-defined]


def build_section(name: str, kind: type[Section], table: Table, where: str) -> Section:
    try:
        return kind(**table)
    except OptionError as error:
        raise OptionError(f"{where}: in [{name}], {error.message}") from None
