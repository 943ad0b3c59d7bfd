"""A recipe: all the choices of a run, from a TOML file to checked, frozen sections.

    recipe = load_recipe("paper/base")                                a preset
    recipe = load_recipe("mine.toml", {"model.width": 256})           a file of your own, one key changed

Precedence: the sections' defaults < the recipe it extends < the recipe < the keys set by hand.
Nothing here imports torch.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from manyheads.decoding.reading import Reading
from manyheads.errors import OptionError, brief, did_you_mean, nearest
from manyheads.models.config import TransformerConfig
from manyheads.sections import Section, between, refuse
from manyheads.text.rows import BadLines, ReadOptions

__all__ = [
    "DataConfig",
    "DecodeConfig",
    "Published",
    "Recipe",
    "TrainConfig",
    "change_recipe",
    "load_recipe",
    "recipe_from_text",
    "recipe_names",
]

Table = dict[str, Any]

LARGEST = 100_000
DEEP_KEY = re.compile(r"(?:[\w\"'-]+\s*\.\s*){20}[\w\"'-]+\s*[=\]]")

TASKS = {"translate": "manyheads.tasks.translate"}
"""What can be trained, and the module whose `Task` does it."""


TokenizerKind = Literal["bpe", "characters", "symbols"]


@dataclass(frozen=True)
class DataConfig(Section):
    """
    vocabulary         pieces of a vocabulary, at most; one vocabulary for both sides if model.tie is "all", else one each
    tokenizer          "bpe", "characters" or "symbols" (what stands between spaces)
    target_tokenizer   of the target, if another
    max_length         pieces of a sentence in training, without its end; longer pairs are left out and counted
    bpe_dropout        probability that a merge is left out when a sentence is cut into pieces, anew in every epoch (0.1 helps
                       where there is little data); 0 = always the same pieces
    source, target     what the sides are called in files that name them: keys of JSONL, languages of TMX
    bad_lines          lines that are not UTF-8 or no pair: "error" refuses the file, "skip" leaves them out, "replace" puts
                       U+FFFD for bytes that are not UTF-8 and leaves out what is no pair; all of them are counted
    """

    vocabulary: int = between(4, 16_777_216, default=8_000)
    tokenizer: TokenizerKind = "bpe"
    target_tokenizer: TokenizerKind | None = None
    max_length: int = between(1, 1_048_576, default=255)
    bpe_dropout: float = between(0, 0.9, default=0.0)
    source: str | None = None
    target: str | None = None
    bad_lines: BadLines = "error"

    def rules(self) -> Iterator[str]:
        if (self.source is None) != (self.target is None) or (self.source and self.source == self.target):
            yield f"both sides are named, differently, or none is, got source = {self.source!r} and target = {self.target!r}"
        if self.bpe_dropout and "bpe" not in self.tokenizers:
            yield f"bpe_dropout is for the tokenizer 'bpe', got {self.bpe_dropout} and {self.tokenizer!r}"

    @property
    def reading(self) -> ReadOptions:
        """How the files of a corpus are read."""
        return ReadOptions(self.source, self.target, self.bad_lines)

    @property
    def tokenizers(self) -> tuple[str, str]:
        """(source, target)"""
        return self.tokenizer, self.target_tokenizer or self.tokenizer


@dataclass(frozen=True)
class TrainConfig(Section):
    """
    epochs           passes over the data
    steps            updates, instead of epochs
    tokens           of either side of a batch, padding included
    accumulate       parts a batch is computed in, one after the other, to save memory; the gradient is the same
    optimizer        "adamw", or "muon" for the hidden matrices and AdamW for all else
    rate             the highest learning rate
    warmup           steps until the rate is reached; never more than a tenth of the run
    schedule         what the rate does then: fall with the "inverse-sqrt" of the step, as a "cosine" to 0 at the end, or stay
                     and fall to 0 over the last fifth ("stable-decay")
    weight_decay     of matrices, a step times the rate
    clip             the gradient's norm, at most; 0 = any
    smoothing        share of the probability that label smoothing spreads over the vocabulary
    simcut           weight α of SimCut: the prediction should stay when words are cut out of the pair; 0 = off
    cut              share of the words that SimCut cuts out, of source and target
    rdrop            weight α of R-Drop: the prediction should stay under another dropout; 0 = off
    ema              decay of the moving average of the weights, which is then the model; 0 = none
    average          checkpoints, the last ones, whose mean is the model (if there is no moving average)
    validate_every   steps (default: a twentieth of the run)
    validate_lines   sources of the development set that are translated at each validation; the loss is of all of it
    save_every       steps (default: at each validation)
    keep             checkpoints
    freeze           parts that stay as they are: "embeddings", "encoder", "decoder", or the beginning of the names of
                     parameters, with commas between them
    patience         validations without a better score (or loss) before training stops; 0 = never stops early
    shard            among several processes, share out weights, gradients and the optimizer's state: for models that do not
                     fit on one device; slower
    precision        "bf16" or "fp32" ("auto": bf16 where the device is good at it)
    fast             on one GPU in bf16, "on" packs sentences end to end and records an update, compiled, as a CUDA graph; "off" pads
                     them and computes operation by operation; "auto" is "on" where it can be and the run is long enough to pay
                     for compiling
    tensorboard      write the curves for TensorBoard, too, to tensorboard/ in the folder of the run
    seed             of everything random
    """

    epochs: int = between(1, 1_000_000, default=30)
    steps: int | None = between(1, 1_000_000_000, default=None)
    tokens: int = between(1, 1_000_000_000, default=25_000)
    accumulate: int = between(1, 10_000, default=1)
    optimizer: Literal["adamw", "muon"] = "adamw"
    rate: float = between(0, 100, default=7e-4)
    warmup: int = between(0, 1_000_000_000, default=4_000)
    schedule: Literal["inverse-sqrt", "cosine", "stable-decay"] = "inverse-sqrt"
    weight_decay: float = between(0, 10, default=0.0)
    clip: float = between(0, 1e9, default=1.0)
    smoothing: float = between(0, 0.99, default=0.1)
    simcut: float = between(0, 1_000, default=0.0)
    cut: float = between(0, 0.99, default=0.05)
    rdrop: float = between(0, 1_000, default=0.0)
    ema: float = between(0, 0.999999, default=0.0)
    average: int = between(1, 1_000, default=1)
    validate_every: int | None = between(1, 1_000_000_000, default=None)
    validate_lines: int = between(0, 1_000_000_000, default=1_000)
    save_every: int | None = between(1, 1_000_000_000, default=None)
    keep: int = between(2, 1_000_000, default=2)
    patience: int = between(0, 1_000_000, default=0)
    freeze: str = ""
    shard: bool = False
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    fast: Literal["auto", "on", "off"] = "auto"
    tensorboard: bool = False
    seed: int = between(0, 2**32 - 1, default=1)

    def rules(self) -> Iterator[str]:
        if self.ema and self.average > 1:
            yield f"the model is the moving average or the mean of checkpoints, got ema = {self.ema} and average = {self.average}"
        if self.optimizer == "muon" and self.shard:
            yield "Muon needs whole matrices, got optimizer = 'muon' and shard = true"
        if self.simcut and self.rdrop:
            yield f"a model learns with SimCut or with R-Drop, got simcut = {self.simcut} and rdrop = {self.rdrop}"


@dataclass(frozen=True)
class DecodeConfig(Section):
    """
    beam             hypotheses kept at each step; 1 = greedy
    length_penalty   the exponent α: a hypothesis of n tokens is scored by log P / ((5 + n) / 6)^α
    max_source       pieces of a line beyond which it is translated sentence by sentence (default: data.max_length)
    max_ratio        a translation has at most max_ratio × source pieces + max_extra pieces
    max_extra
    alignment        the cross-attention that says which words belong together: "2" is that of layer 2, "2.3" of its head 3, both
                     counted from 0; with ":read" the weights of the step that reads a word, not of the one that writes it
                     (default: found on the development set when training ends)
    """

    beam: int = between(1, 1_000, default=4)
    length_penalty: float = between(0, 10, default=0.6)
    max_source: int | None = between(1, 1_048_576, default=None)
    max_ratio: float = between(0, 1_000, default=2.0)
    max_extra: int = between(1, 1_000_000, default=20)
    alignment: str | None = None

    def rules(self) -> Iterator[str]:
        try:
            Reading.parse(self.alignment or "0")
        except OptionError as error:
            yield error.message


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
    """Everything a run needs to know.

    description   in a sentence, what it is for
    task          what is trained
    base          the model that it is trained further from, if there is one
    """

    description: str = ""
    task: str = "translate"
    base: str = ""
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
        return {
            "description": self.description,
            "task": self.task,
            **({"base": self.base} if self.base else {}),
            **{name: table for name, table in sections.items() if table},
        }


def load_recipe(name: str | Path, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A preset by its name, or a TOML file of your own, with keys like "model.width" changed.

    A file may begin with `extends = "small"` and say only what differs from that preset or file. What nobody says has the
    default of its section. Every fault of the result comes in one error.
    """
    return change_recipe(resolve(str(name)), changes or {}, str(name))


def change_recipe(tables: Table, changes: Mapping[str, Any], name: str) -> Recipe:
    """A recipe from its tables, with keys changed."""
    for key, value in changes.items():
        section, _, option = key.partition(".")
        if not option or not isinstance(tables.setdefault(section, {}), dict):
            raise OptionError(f"{name}: a key to change is section.key, got {key!r}", hint="model.width")
        tables[section][option] = value
    if "train.epochs" in changes and "train.steps" not in changes:
        tables["train"].pop("steps", None)
    changed = ", ".join(f"{key} = {brief(value)}" for key, value in changes.items())
    return build_recipe(tables, where=f"{name} with {changed}" if changed else name)


def recipe_from_text(text: str, where: str) -> Recipe:
    """A recipe as a run stores it: whole, extending nothing."""
    return build_recipe(parse_toml(text, where), where)


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
        return parse_toml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise OptionError(f"a recipe must be TOML, got {path}: {error}") from None
    except OSError as error:
        raise OptionError(f"a recipe must be readable, got {path}: {error.strerror}") from None


def parse_toml(text: str, where: str) -> Table:
    """Tables of a TOML text, within bounds: keys of many parts take the parser's memory by the square of their number."""
    if len(text) > LARGEST or DEEP_KEY.search(text):
        raise OptionError(f"a recipe has at most {LARGEST:,} characters and keys of two parts, got {where}")
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
    """`above` wins, key by key, also inside tables."""
    both = {
        k: merge(below[k], above[k]) for k in above if isinstance(above[k], dict) and isinstance(below.get(k), dict)
    }
    merged = {**below, **above, **both}
    if "epochs" in above and "steps" not in above:
        merged.pop("steps", None)  # who says how many epochs does not want the steps of the recipe below
    return merged


def build_recipe(tables: Table, where: str) -> Recipe:
    """Sections from plain values; every fault of every section in one error."""
    refuse(list(table_faults(tables)), where)
    sections: Any = {name: build_section(name, tables.get(name, {}), where) for name in SECTIONS}
    recipe = Recipe(tables.get("description", ""), tables.get("task", "translate"), tables.get("base", ""), **sections)
    refuse(list(rules_between_sections(recipe)), where)
    return recipe


def rules_between_sections(recipe: Recipe) -> Iterator[str]:
    model, longest = recipe.model, recipe.data.max_length
    if model.positions == "learned" and model.max_length <= longest:
        yield (
            f"learned positions must reach to the end of the longest sentence, got model.max_length = {model.max_length} "
            f"and data.max_length = {longest}"
        )
    if recipe.train.rdrop and not (
        model.dropout or model.attention_dropout or model.feedforward_dropout or model.drop_path
    ):
        yield f"R-Drop compares two dropouts, got train.rdrop = {recipe.train.rdrop} and no dropout in [model]"
    source, target = recipe.data.tokenizers
    if recipe.model.tie == "all" and source != target:
        yield (
            f"model.tie = 'all' needs one tokenizer for both sides, got {source!r} and {target!r}: "
            "tie = 'target' has a vocabulary for each"
        )
    if recipe.decode.alignment:
        yield from Reading.parse(recipe.decode.alignment).misfits(model.depth, model.heads)


def table_faults(tables: Table) -> Iterator[str]:
    for name, table in tables.items():
        if name in ("description", "base"):
            if not isinstance(table, str):
                yield f"{name} must be text, got {brief(table)}"
        elif name == "task":
            if not isinstance(table, str) or table not in TASKS:
                yield f"task must be one of {', '.join(map(repr, TASKS))}, got {brief(table)}"
        elif name not in SECTIONS:
            yield f"{name} is not a section of a recipe: {where_it_belongs(name)}"
        elif not isinstance(table, dict):
            yield f"{name} must be a section, [{name}], got {brief(table)}"
        else:
            yield from SECTIONS[name].faults(table, prefix=f"{name}.")


def where_it_belongs(name: str) -> str:
    """A key that lost its section, or a word that was meant to be another."""
    homes = [section for section, kind in SECTIONS.items() if name in kind.__dataclass_fields__]  # type: ignore[attr-defined]
    return (
        f"it belongs under [{homes[0]}]" if homes else did_you_mean(name, [*SECTIONS, "extends", "description", "task"])
    )


def build_section(name: str, table: Table, where: str) -> Section:
    try:
        return SECTIONS[name](**table)
    except OptionError as error:
        raise OptionError(f"{where}: in [{name}], {error.message}") from None
