"""A run's folder: its lock, the recipe of the run in it, and whether that run is finished."""

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from manyheads.errors import InputError, ManyheadsError, OptionError, SaveError
from manyheads.modelfolder import MODEL, RECIPE, TOKENIZER, dump_recipe
from manyheads.recipe import Recipe, Table, recipe_from_text
from manyheads.storage import MANIFEST, publish, read_file, read_manifest, withdraw
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Run"]

SUMMARY = "summary.json"
LOCK = ".lock"
WRITING = ".writing"
LEFT_EARLY = {"data", "log.jsonl", RECIPE, TOKENIZER}
MAY_CHANGE = {
    "description", "train.steps", "train.epochs", "train.patience", "train.validate_every",
    "train.save_every", "train.save_minutes", "train.keep", "train.average", "train.accumulate", "train.shard", "train.tensorboard",
    "train.replay", "train.fast", "train.teachers",
    "decode.beam", "decode.length_penalty", "decode.max_source", "decode.max_ratio", "decode.max_extra", "decode.alignment",
}  # fmt: skip
"""What may differ when a run resumes; anything else would make it another run.

Teachers may be stored elsewhere: their weights are compared.
"""


UNTOLD = {"description", "train.teachers", "decode.alignment"}
"""Changes that are not printed: they are reported elsewhere, or nobody asked for them."""


class Run:
    """A run folder, where recipe, tokenizer, model and summary are published."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoints, self.data, self.log = root / "checkpoints", root / "data", root / "log.jsonl"
        self.report, self.tensorboard = root / "report.html", root / "tensorboard"
        self.replay, self.inspector = root / "replay", root / "inspect.html"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock. The kernel releases it when its owner dies, however it dies.

        A run that is refused before anything was learnt leaves no new folder behind.
        """
        try:
            new = self.make_root()
            first = not (self.root / LOCK).exists()
            file = open(self.root / LOCK, "a+")  # noqa: SIM115
        except NotADirectoryError:
            raise OptionError(f"--out must be a folder, got {self.root}: part of its path is a file") from None
        except FileExistsError:
            raise OptionError(f"--out must be a folder, got {self.root}: it is a file") from None
        except ValueError as error:
            raise OptionError(f"--out must be the name of a folder, got {str(self.root)!r}: {error}") from None
        except OSError as error:
            kind = OptionError if error.errno == errno.ENAMETOOLONG else SaveError
            raise kind(f"{self.root} cannot be written to: {error.strerror or error}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise InputError(f"{self.root} is being written to by another run: {file.read().strip()}") from None
            with suppress(OSError):  # a full disk: the owner cannot be noted, but the lock holds
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                file.flush()
            try:
                yield
            except ManyheadsError as error:
                refused = isinstance(error, OptionError) and not any(self.checkpoints.glob("step-*"))
                if new and (refused or not (self.root / MANIFEST).exists()):
                    shutil.rmtree(self.root, ignore_errors=True)
                elif first and not (self.root / MANIFEST).exists():  # somebody else's folder
                    (self.root / LOCK).unlink(missing_ok=True)
                raise

    def make_root(self) -> bool:
        """Make the folder. True if it is new; only making it tells, as new/../old names an old one once new exists."""
        try:
            self.root.mkdir(parents=True)
        except FileExistsError:
            if not self.root.is_dir():
                raise
            return False
        return True

    def begin(self, recipe: Recipe, resume: bool) -> None:
        """Refuse a folder that holds something else. A run that was killed early has left no more than LEFT_EARLY."""
        inside = {path.name for path in self.root.iterdir() if not path.name.endswith(WRITING)} - {LOCK}
        if MANIFEST in inside and resume:
            self.check_same_recipe(recipe)
        elif inside - LEFT_EARLY or MANIFEST in inside:
            raise OptionError(
                f"--out must be a new or empty folder, got {self.root}: it holds {min(inside)}",
                hint="--resume continues the run in it" if MANIFEST in inside else "choose another",
            )

    def check_same_recipe(self, recipe: Recipe) -> None:
        stored = self.recipe()
        differences = [
            told(*change) for change in compare(stored.as_tables(), recipe.as_tables()) if change[0] not in MAY_CHANGE
        ]
        if differences:
            raise OptionError(
                f"a run resumes with the recipe it started with, got one that differs from {self.root / RECIPE}:\n"
                + "\n".join(f"  - {difference}" for difference in differences),
                hint="another --out starts a new run",
            )

    def changes(self, recipe: Recipe) -> list[str]:
        """The permitted changes from the recipe that the run has, in words."""
        both = self.began_with(), recipe.as_tables()
        return [told(*change) for change in compare(*both) if change[0] in MAY_CHANGE - UNTOLD]

    def recipe(self) -> Recipe:
        return recipe_from_text(read_file(self.root, RECIPE).decode(), str(self.root / RECIPE))

    def began_with(self) -> Table:
        """The run's recipe without what was found out from the finished model: a resumed run finds it out again."""
        tables, summary = self.recipe().as_tables(), self.summary() or {}
        for key in summary.get("found", ()):
            section, _, option = key.partition(".")
            tables[section].pop(option, None)
        return tables

    @property
    def name(self) -> str:
        return str(self.root)

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.loads(read_file(self.root, TOKENIZER).decode(), str(self.root / TOKENIZER))

    def files(self) -> dict[str, bytes]:
        """What was published, except the model."""
        if not (self.root / MANIFEST).exists():
            return {}
        return {name: read_file(self.root, name) for name in read_manifest(self.root) if name != MODEL}

    def has_model(self) -> bool:
        return MODEL in read_manifest(self.root)

    def publish(self, files: dict[str, bytes]) -> None:
        publish(self.root, files)

    def publish_recipe(self, recipe: Recipe, others: dict[str, bytes]) -> None:
        files = {RECIPE: dump_recipe(recipe), **others}
        before = self.files()
        if any(before.get(name) != content for name, content in files.items()):
            self.publish(files)

    def summary(self) -> dict[str, Any] | None:
        """How the run ended, if it did."""
        content = self.files().get(SUMMARY)
        return json.loads(content) if content else None

    def reopen(self) -> None:
        """Withdraw the summary: a resumed run has not ended."""
        withdraw(self.root, SUMMARY)

    def publish_summary(self, summary: dict[str, Any]) -> None:
        self.publish({SUMMARY: (json.dumps(summary, indent=1) + "\n").encode()})


def told(key: str, old: Any, new: Any) -> str:
    then, now = ("not set" if value is None else json.dumps(value, ensure_ascii=False) for value in (old, new))
    return f"{key}: was {then}, now {now}"


def compare(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(section.key, old, new) for every difference."""
    flat_old, flat_new = flat(old), flat(new)
    for key in sorted(flat_old.keys() | flat_new.keys()):
        if flat_old.get(key) != flat_new.get(key):
            yield key, flat_old.get(key), flat_new.get(key)


def flat(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for name, table in tables.items()
        for key, value in (
            {f"{name}.{k}": v for k, v in table.items()} if isinstance(table, dict) else {name: table}
        ).items()
    }
