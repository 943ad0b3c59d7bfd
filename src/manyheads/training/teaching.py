"""Who teaches a student: models that are there already. The student has their vocabulary; all else of it is its own."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from manyheads.errors import OptionError
from manyheads.machine import Machine
from manyheads.modelfolder import MODEL, TOKENIZER, find_model, load_by_task, load_description
from manyheads.recipe import Recipe, change_recipe
from manyheads.rules import RULES
from manyheads.sections import refuse
from manyheads.storage import read_file
from manyheads.text.vocabulary import Vocabulary
from manyheads.training.tuning import PIECES, Base, is_from_elsewhere

__all__ = ["Faculty"]


@dataclass(frozen=True)
class Faculty:
    """The teachers that a recipe names, looked at before any weights are read.

    vocabulary   that all of them have
    """

    names: Sequence[str]
    vocabulary: Vocabulary
    recipes: Sequence[Recipe]

    @classmethod
    def of(cls, student: Recipe, base: Base | None = None) -> Self | None:
        """None if it has no teachers. All have the task and the vocabulary that the student has."""
        names = student.train.teachers
        if not names:
            return None
        vocabularies, recipes = zip(*map(load_description, names), strict=True)
        for name, vocabulary, recipe in zip(names, vocabularies, recipes, strict=True):
            check_teacher(name, vocabulary, recipe, student)
        known = ([(base.name, base.vocabulary)] if base else []) + list(zip(names, vocabularies, strict=True))
        (first, its_own), *others = known
        for name, vocabulary in others:
            if vocabulary.dumps() != its_own.dumps():
                raise OptionError(
                    f"a student and its teachers have one vocabulary, got another in {name} than in {first}",
                    hint="train them from the same pairs with the same [data], and different seeds",
                )
        return cls(names, vocabularies[0], recipes)

    def student(self, recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
        """With the teachers' pieces, whatever the recipe says of them; who asks for others is refused."""
        tables, theirs = recipe.as_tables(), self.recipes[0].as_tables()["data"]
        pieces = {key: theirs.get(key.removeprefix("data.")) for key in PIECES}
        for key in pieces.keys() & changes.keys():
            if changes[key] != pieces[key]:
                raise OptionError(
                    f"a student has the vocabulary of its teachers, with {key} = {pieces[key]!r}, got --set {key}={changes[key]}"
                )
        if recipe.task == "translate" and recipe.transformer.tie == "all" and not self.vocabulary.joint:
            raise OptionError(
                f"model.tie = 'all' is for one vocabulary on both sides, got teachers with one for each: {self.names[0]}",
                hint="--set model.tie=target",
            )
        return change_recipe(tables, pieces, "the student")

    def files(self) -> dict[str, bytes]:
        """What a student takes over from the beginning."""
        return {TOKENIZER: self.vocabulary.dumps().encode()}

    def models(self, machine: Machine) -> list[nn.Module]:
        """With their weights, rounded once: nothing is learnt about these, and to cast them in every step would take longer than to use them."""
        return [load_by_task(name)[0].requires_grad_(False).to(machine.device, machine.dtype) for name in self.names]

    def fingerprint(self) -> str:
        """Of their weights: who is resumed has the same teachers."""
        weights = (read_file(find_model(name), MODEL) for name in self.names)
        return " ".join(hashlib.sha256(one).hexdigest()[:16] for one in weights)


def check_teacher(name: str | Path, vocabulary: Vocabulary, teacher: Recipe, student: Recipe) -> None:
    if teacher.task != student.task:
        raise OptionError(
            f"a student learns from teachers of its own task, {student.task!r}, got {name}, for {teacher.task!r}"
        )
    if is_from_elsewhere(vocabulary, teacher):
        raise OptionError(f"a teacher was trained here, or is an encoder, got {name}, which was imported")
    # What the student reads, its teachers must be able to read.
    reading = replace(teacher, data=replace(teacher.data, max_length=student.data.max_length))
    refuse(list(RULES[teacher.task](reading)), f"the teacher {name}")
