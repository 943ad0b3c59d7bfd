"""A recipe: all the choices of a run, from a TOML file to checked, frozen sections.

    recipe = load_recipe("paper/base")                                a preset
    recipe = load_recipe("mine.toml", {"model.width": 256})           a file of your own, one key changed

Precedence: the sections' defaults < the recipe it extends < the recipe < the keys set by hand.
Nothing here imports torch.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from manyheads.errors import OptionError, brief, did_you_mean, nearest
from manyheads.models.config import TransformerConfig
from manyheads.sections import Section, between, refuse

__all__ = ["DataConfig", "DecodeConfig", "Published", "Recipe", "TrainConfig", "load_recipe", "recipe_names"]

Table = dict[str, Any]


@dataclass(frozen=True)
class DataConfig(Section):
    """vocabulary   words (pieces) of the vocabulary"""

    vocabulary: int = between(4, 16_777_216, default=8_000)


@dataclass(frozen=True)
class TrainConfig(Section):
    """
    steps       updates
    tokens      target tokens in a batch
    rate        the highest learning rate
    warmup      steps until the rate is reached
    schedule    what the rate does then
    smoothing   share of the probability that label smoothing spreads over the vocabulary
    average     checkpoints, the last ones, whose mean is the model
    """

    steps: int = between(1, 1_000_000_000, default=100_000)
    tokens: int = between(1, 1_000_000_000, default=25_000)
    rate: float = between(0, 100, default=7e-4)
    warmup: int = between(0, 1_000_000_000, default=4_000)
    schedule: Literal["inverse-sqrt", "cosine", "stable-decay"] = "inverse-sqrt"
    smoothing: float = between(0, 0.99, default=0.1)
    average: int = between(1, 1_000, default=1)


@dataclass(frozen=True)
class DecodeConfig(Section):
    """
    beam             hypotheses kept at each step
    length_penalty   the exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    """

    beam: int = between(1, 1_000, default=4)
    length_penalty: float = between(0, 10, default=0.6)


@dataclass(frozen=True)
class Published(Section):
    """What the authors of a setting reported: to be compared with, never read by anything that computes.

    parameters   in millions
    perplexity   per piece, on the development set
    bleu         on the set that `on` names
    """

    source: str = ""
    on: str = ""
    parameters: float | None = None
    perplexity: float | None = None
    bleu: float | None = None


SECTIONS: dict[str, type[Section]] = {
    "model": TransformerConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
    "published": Published,
}


@dataclass(frozen=True)
class Recipe:
    """Everything a run needs to know. `description` says in a sentence what it is for."""

    description: str = ""
    model: TransformerConfig = field(default_factory=TransformerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    published: Published = field(default_factory=Published)

    def as_tables(self) -> Table:
        """Nested plain values, without what was not set."""
        sections = {
            name: {k: v for k, v in asdict(getattr(self, name)).items() if v not in (None, "")} for name in SECTIONS
        }
        return {"description": self.description, **{name: table for name, table in sections.items() if table}}


def load_recipe(name: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A preset by its name, or a TOML file of your own, with keys like "model.width" changed.

    A file may begin with `extends = "small"` and say only what differs from that preset or file. What nobody says has the
    default of its section. Every fault of the result comes in one error.
    """
    name = str(name)
    tables, changes = resolve(name), changes or {}
    for key, value in changes.items():
        section, _, option = key.partition(".")
        if not option or not isinstance(tables.setdefault(section, {}), dict):
            raise OptionError(f"{name}: a key to change is section.key, got {key!r}", hint="model.width")
        tables[section][option] = value
    changed = ", ".join(f"{key} = {brief(value)}" for key, value in changes.items())
    return build_recipe(tables, where=f"{name} with {changed}" if changed else name)


def recipe_names() -> list[str]:
    """Every preset, as `load_recipe` takes it."""
    root = Path(str(files("manyheads.recipes")))
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.toml"))
    return sorted(names, key=lambda name: ("/" in name, name))  # our own first


def resolve(name: str, seen: tuple[str, ...] = ()) -> Table:
    """The tables of a recipe over those of the recipe that it extends."""
    place = os.path.abspath(name) if name.endswith(".toml") else name
    if place in seen:
        raise OptionError(f"a recipe must not extend itself, got {' → '.join((*seen, place))}")
    if len(seen) == 20:
        raise OptionError(f"a recipe extends another, and so on at most 20 times, got more from {seen[0]}")
    tables = read_tables(name)
    if "extends" not in tables:
        return tables
    parent = tables.pop("extends")
    if not isinstance(parent, str):
        raise OptionError(f"{name}: extends must be the name of a recipe, got {parent!r}")
    if parent.endswith(".toml"):
        parent = os.path.join(os.path.dirname(name), parent)  # a file names its neighbours
    try:
        return merge(resolve(parent, (*seen, place)), tables)
    except OptionError as error:
        raise OptionError(f"{name}: extends: {error.message}", error.hint) from None


def read_tables(name: str) -> Table:
    path = find(name)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    # Bad TOML, bad UTF-8, numbers of 5,000 digits, tables in tables in tables:
    except (ValueError, RecursionError) as error:
        raise OptionError(f"a recipe must be TOML, got {path}: {error}") from None
    except OSError as error:
        raise OptionError(f"a recipe must be readable, got {path}: {error.strerror}") from None


def find(name: str) -> Path:
    """A preset by its name, or any file that ends in .toml."""
    if name.endswith(".toml"):
        if "\0" in name or len(Path(name).name) > 255 or not Path(name).is_file():
            raise OptionError(f"a recipe must be a preset or a file, got {name!r}: there is no such file")
        return Path(name)
    if name not in recipe_names():
        raise OptionError(
            f"a recipe must be a preset or end in .toml, got {name!r}",
            hint=nearest(name, recipe_names()) or "`manyheads recipes` lists the presets",
        )
    return Path(str(files("manyheads.recipes"))) / f"{name}.toml"


def merge(below: Table, above: Table) -> Table:
    """`above` wins, key by key, also inside tables."""
    both = {
        k: merge(below[k], above[k]) for k in above if isinstance(above[k], dict) and isinstance(below.get(k), dict)
    }
    return {**below, **above, **both}


def build_recipe(tables: Table, where: str) -> Recipe:
    """Sections from plain values; every fault of every section in one error."""
    refuse(list(table_faults(tables)), where)
    sections: Any = {name: build_section(name, tables.get(name, {}), where) for name in SECTIONS}
    return Recipe(tables.get("description", ""), **sections)


def table_faults(tables: Table) -> Iterator[str]:
    for name, table in tables.items():
        if name == "description":
            if not isinstance(table, str):
                yield f"description must be text, got {table!r}"
        elif name not in SECTIONS:
            yield f"{name} is not a section of a recipe: {where_it_belongs(name)}"
        elif not isinstance(table, dict):
            yield f"{name} must be a section, [{name}], got {table!r}"
        else:
            yield from SECTIONS[name].faults(table, prefix=f"{name}.")


def where_it_belongs(name: str) -> str:
    """A key that lost its section, or a word that was meant to be another."""
    homes = [section for section, kind in SECTIONS.items() if name in kind.__dataclass_fields__]  # type: ignore[attr-defined]
    return f"it belongs under [{homes[0]}]" if homes else did_you_mean(name, [*SECTIONS, "extends", "description"])


def build_section(name: str, table: Table, where: str) -> Section:
    try:
        return SECTIONS[name](**table)
    except OptionError as error:
        raise OptionError(f"{where}: in [{name}], {error.message}") from None
