"""The teachers of a student: existing models, whose vocabulary it has. Everything else about it is its own."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from manyheads.errors import InputError, ManyheadsError, OptionError
from manyheads.machine import Machine
from manyheads.modelfolder import TOKENIZER, load_by_task
from manyheads.recipe import DataConfig, Recipe
from manyheads.rules import RULES
from manyheads.sections import refuse
from manyheads.tasks.task import changed_data
from manyheads.text.vocabulary import Vocabulary
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.run import Run
from manyheads.training.state import Progress, read_progress
from manyheads.training.tuning import PIECES, Base, is_from_elsewhere

__all__ = ["Faculty", "check_not_itself", "check_unchanged", "taught_recipe"]

DROPOUTS = ("dropout", "attention_dropout", "feedforward_dropout", "drop_path")


@dataclass(frozen=True, eq=False)
class Faculty:
    """The teachers that a recipe names, checked completely before anything is created.

    vocabulary, recipe   of the first; the others have the same vocabulary
    fingerprints         of the models as they were read: a resumed student has the teachers it started with, wherever
                         they are stored now
    """

    models: Sequence[nn.Module]
    vocabulary: Vocabulary
    recipe: Recipe
    fingerprints: Sequence[str]

    @classmethod
    def of(cls, student: Recipe, begun: Base | Run | None = None) -> Self | None:
        """None if the student has no teachers. `begun`, the model it starts from, must have their vocabulary, too."""
        names = student.train.teachers
        if not names:
            return None
        models, vocabularies, recipes = zip(*map(load_teacher, names), strict=True)
        for name, vocabulary, recipe in zip(names, vocabularies, recipes, strict=True):
            check_teacher(name, vocabulary, recipe, student)
        known = [(begun.name, begun.vocabulary)] if begun else []
        check_same_vocabulary([*known, *zip(names, vocabularies, strict=True)])
        fingerprints = [fingerprint_of(model) for model in models]
        check_once(names, fingerprints)
        return cls(models, vocabularies[0], recipes[0], fingerprints)

    def files(self) -> dict[str, bytes]:
        """The files that a student takes over when it starts."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def ready(self, machine: Machine) -> list[nn.Module]:
        """The models, cast once: they do not learn, and casting them at each step would take longer than using them."""
        return [model.requires_grad_(False).to(machine.device, machine.dtype) for model in self.models]


def check_unchanged(faculty: Faculty | None, checkpoints: Path) -> None:
    """Refuse teachers other than those that the newest checkpoint learnt from."""
    if progress := newest_progress(checkpoints):
        then, now = progress.data.get("teachers", "").split(), list(faculty.fingerprints) if faculty else []
        if then != now:
            raise changed_data(f"other teachers than at step {progress.step:,}: {difference(then, now)}")


def check_once(names: Sequence[str], fingerprints: Sequence[str]) -> None:
    for number, one in enumerate(fingerprints):
        if one in fingerprints[:number]:
            first = names[fingerprints.index(one)]
            raise OptionError(f"each teacher must be named once, got the same model as {first} and as {names[number]}")


def check_not_itself(names: Sequence[str], run: Run) -> None:
    """Refuse a student as its own teacher: what it learns from would change as it learns."""
    for name in names:
        if Path(name).resolve() == run.root.resolve():
            raise OptionError(f"a teacher must be another model than its student, got {name} for both")


def newest_progress(checkpoints: Path) -> Progress | None:
    """The newest progress that can be read, without reading the weights, which takes long."""
    for place in Checkpoints(checkpoints, lambda _: None).steps():
        with suppress(InputError):
            return read_progress(place)
    return None


def difference(then: Sequence[str], now: Sequence[str]) -> str:
    if len(then) != len(now):
        return f"{len(now)} instead of {len(then)}"
    if sorted(then) == sorted(now):
        return "the same in another order"
    return f"number {next(n for n, (one, other) in enumerate(zip(then, now, strict=True), 1) if one != other)} has other weights or another configuration"


def load_teacher(name: str) -> tuple[nn.Module, Vocabulary, Recipe]:
    try:
        return load_by_task(name)
    except ManyheadsError as error:
        raise type(error)(
            f"train.teachers: {error.message}",
            error.hint or "name them with --teacher, separated by spaces, also to resume a run after they have moved",
        ) from None


def check_teacher(name: str, vocabulary: Vocabulary, teacher: Recipe, student: Recipe) -> None:
    if teacher.task != student.task:
        raise OptionError(
            f"teachers must be for the student's task, {student.task!r}, got {name}, for {teacher.task!r}",
            hint=f"use models for {student.task!r} that were trained on the same data",
        )
    if is_from_elsewhere(vocabulary, teacher):
        raise OptionError(
            f"a teacher must be an encoder or a model trained by Manyheads, got {name}, which was imported",
            hint="train on texts that it writes instead: manyheads generate",
        )
    if student.task == "translate" and student.transformer.tie == "all" and not vocabulary.joint:
        raise OptionError(
            f"model.tie = 'all' needs one vocabulary for both sides, got a teacher with one for each: {name}",
            hint="--set model.tie=target",
        )
    # The teachers must be able to read whatever the student reads.
    reading = replace(teacher, data=replace(teacher.data, max_length=student.data.max_length))
    refuse(list(RULES[teacher.task](reading)), f"the teacher {name}")


def check_same_vocabulary(models: Sequence[tuple[str, Vocabulary]]) -> None:
    (first, its_own), *others = models
    for name, vocabulary in others:
        if vocabulary.dumps() != its_own.dumps():
            raise OptionError(
                f"a student and its teachers must share one vocabulary, got another in {name} than in {first}",
                hint="train them from the same pairs with the same [data], and different seeds",
            )


def taught_recipe(recipe: Recipe, theirs: DataConfig, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with the teachers' tokenizer settings in place of its own; `changes` that disagree are refused."""
    pieces = {key.removeprefix("data."): key for key in PIECES}
    faults = [
        f"a student must have the vocabulary of its teachers, with {key} = {piece(theirs, name)!r}, got --set {key}={changes[key]}"
        for name, key in pieces.items()
        if key in changes and piece(recipe.data, name) != piece(theirs, name)
    ]
    refuse(faults)
    return replace(recipe, data=replace(recipe.data, **{name: getattr(theirs, name) for name in pieces}))


def piece(data: DataConfig, name: str) -> Any:
    """The effective value of a key: the target's tokenizer is the source's by default."""
    return data.tokenizers[1] if name == "target_tokenizer" else getattr(data, name)


def fingerprint_of(model: nn.Module) -> str:
    """A hash of a model's weights and configuration; dropouts do not count, as they only matter in its training."""
    shape = {name: value for name, value in asdict(model.config).items() if name not in DROPOUTS}  # type: ignore[arg-type]
    digest = hashlib.sha256(repr(sorted(shape.items())).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
