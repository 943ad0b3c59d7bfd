"""Who teaches a student: models that are there already. The student has their vocabulary; all else of it is its own."""

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
    """The teachers that a recipe names. All of them is checked at once, before anything is made.

    vocabulary, recipe   of the first; the others have the same vocabulary
    fingerprints         of the weights that they were read with: wherever they lie, a student that goes on has the teachers that it began with
    """

    models: Sequence[nn.Module]
    vocabulary: Vocabulary
    recipe: Recipe
    fingerprints: Sequence[str]

    @classmethod
    def of(cls, student: Recipe, begun: Base | Run | None = None) -> Self | None:
        """None if it has no teachers. What the student has begun as has their vocabulary, too."""
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
        """What a student takes over from the beginning."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def ready(self, machine: Machine) -> list[nn.Module]:
        """Rounded once: nothing is learnt about their weights, and to cast them in every step would take longer than to use them."""
        return [model.requires_grad_(False).to(machine.device, machine.dtype) for model in self.models]


def check_unchanged(faculty: Faculty | None, checkpoints: Path) -> None:
    """Refuse other teachers than those that the newest checkpoint learnt from."""
    if progress := newest_progress(checkpoints):
        then, now = progress.data.get("teachers", "").split(), list(faculty.fingerprints) if faculty else []
        if then != now:
            raise changed_data(f"other teachers than at step {progress.step:,}: {difference(then, now)}")


def check_once(names: Sequence[str], fingerprints: Sequence[str]) -> None:
    for number, one in enumerate(fingerprints):
        if one in fingerprints[:number]:
            first = names[fingerprints.index(one)]
            raise OptionError(f"each teacher is asked once, got the same model as {first} and as {names[number]}")


def check_not_itself(names: Sequence[str], run: Run) -> None:
    """What it learns from would change with what it has learnt."""
    for name in names:
        if Path(name).resolve() == run.root.resolve():
            raise OptionError(f"a teacher is another model than its student, got {name} for both")


def newest_progress(checkpoints: Path) -> Progress | None:
    """As far as it can be read. Who wants to know whose student a run is need not read its weights, which takes long; who goes on from there does."""
    for place in Checkpoints(checkpoints, lambda _: None).steps():
        with suppress(InputError):
            return read_progress(place)
    return None


def difference(then: Sequence[str], now: Sequence[str]) -> str:
    if len(then) != len(now):
        return f"{len(now)} instead of {len(then)}"
    if sorted(then) == sorted(now):
        return "the same in another order"
    return f"number {next(n for n, (one, other) in enumerate(zip(then, now, strict=True), 1) if one != other)} has other weights, or computes something else with them"


def load_teacher(name: str) -> tuple[nn.Module, Vocabulary, Recipe]:
    try:
        return load_by_task(name)
    except ManyheadsError as error:
        raise type(error)(
            f"train.teachers: {error.message}",
            error.hint
            or "--teacher names them, with spaces between them; also where a run goes on and they lie elsewhere now",
        ) from None


def check_teacher(name: str, vocabulary: Vocabulary, teacher: Recipe, student: Recipe) -> None:
    if teacher.task != student.task:
        raise OptionError(
            f"a student learns from teachers of its own task, {student.task!r}, got {name}, for {teacher.task!r}",
            hint=f"models for {student.task!r} that were trained on the same data are its teachers",
        )
    if is_from_elsewhere(vocabulary, teacher):
        raise OptionError(
            f"a teacher was trained here, or is an encoder, got {name}, which was imported",
            hint="its text can be learnt from: manyheads generate",
        )
    if student.task == "translate" and student.transformer.tie == "all" and not vocabulary.joint:
        raise OptionError(
            f"model.tie = 'all' is for one vocabulary on both sides, got a teacher with one for each: {name}",
            hint="--set model.tie=target",
        )
    # What the student reads, its teachers must be able to read.
    reading = replace(teacher, data=replace(teacher.data, max_length=student.data.max_length))
    refuse(list(RULES[teacher.task](reading)), f"the teacher {name}")


def check_same_vocabulary(models: Sequence[tuple[str, Vocabulary]]) -> None:
    (first, its_own), *others = models
    for name, vocabulary in others:
        if vocabulary.dumps() != its_own.dumps():
            raise OptionError(
                f"a student and its teachers have one vocabulary, got another in {name} than in {first}",
                hint="train them from the same pairs with the same [data], and different seeds",
            )


def taught_recipe(recipe: Recipe, theirs: DataConfig, changes: Mapping[str, Any]) -> Recipe:
    """With the teachers' pieces, whatever the recipe says of them; who asks for others is refused."""
    pieces = {key.removeprefix("data."): key for key in PIECES}
    faults = [
        f"a student has the vocabulary of its teachers, with {key} = {piece(theirs, name)!r}, got --set {key}={changes[key]}"
        for name, key in pieces.items()
        if key in changes and piece(recipe.data, name) != piece(theirs, name)
    ]
    refuse(faults)
    return replace(recipe, data=replace(recipe.data, **{name: getattr(theirs, name) for name in pieces}))


def piece(data: DataConfig, name: str) -> Any:
    """What a key means: the target's tokenizer is the source's, if nothing is said."""
    return data.tokenizers[1] if name == "target_tokenizer" else getattr(data, name)


def fingerprint_of(model: nn.Module) -> str:
    """Of its weights, and of what is computed with them; how it was kept from learning by heart does not matter any more."""
    shape = {name: value for name, value in asdict(model.config).items() if name not in DROPOUTS}  # type: ignore[arg-type]
    digest = hashlib.sha256(repr(sorted(shape.items())).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
