"""`manyheads.train`: from files to a model in a folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from manyheads.errors import InputError, ManyheadsError, OptionError, TrainingError, choose, how_many
from manyheads.machine import Machine, choose_machine
from manyheads.recipe import TASKS, Recipe, change_recipe, load_recipe
from manyheads.team import Team, gathered
from manyheads.text.corpus import Paths
from manyheads.training.auto import recipe_for
from manyheads.training.beginning import go_on, introduce, judge_base
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.ending import Trained, conclude
from manyheads.training.log import Log, Silent
from manyheads.training.loop import fit
from manyheads.training.memory import is_out_of_memory
from manyheads.training.run import Run
from manyheads.training.session import Session
from manyheads.training.show import Show
from manyheads.training.signals import listen
from manyheads.training.state import State
from manyheads.training.teaching import Faculty, check_not_itself, check_unchanged, newest_progress, taught_recipe
from manyheads.training.tensorboard import tensorboard_listener
from manyheads.training.tuning import Base, finetune_recipe, is_finetuning, take_over, tuned_recipe

__all__ = ["Trained", "train"]

LENIENT = {"stop": False, "warn": True}
"""For each value of `on_save_error`: does the run continue after a failed save?"""


def train(
    recipe: str | Path | Recipe | None = None,
    *,
    train: Paths,
    dev: Paths | None = None,
    base: str | Path | None = None,
    teachers: str | Path | Sequence[str | Path] = (),
    old_dev: Paths | None = None,
    out: str | Path,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    data_changed: bool = False,
    on_save_error: str = "stop",
    device: str = "auto",
    quiet: bool = False,
) -> Trained:
    """Train what a recipe describes on pairs from files.

    recipe   a preset's name, a TOML file, or a Recipe; by default one that suits the number of pairs, or the resumed
             run's. With a base its training section counts, by default that of "finetune".
    train    one file of pairs, or a source file and a target file; or several of these
    dev      the same, for validation; without it some training pairs are held out
    base     a run folder or a bundled model to fine-tune
    teachers run folders or bundled models whose predictions are learnt, too (train.taught sets their share); the model
             has their vocabulary
    old_dev  what the base was validated on, to see what is forgotten (by default what its run folder has of it)
    out      the run's folder
    changes  keys of the recipe to change: {"train.steps": 1000}
    resume   resume the run in `out`, if there is one
    data_changed   resume although the data is not what the run started with, and train on the new data from here on
    on_save_error  "stop": a failed save, such as on a full disk, ends the run; "warn": it is reported and counted, and
                   the run continues
    """
    lenient = choose("--on-save-error", on_save_error, LENIENT)
    run = Run(Path(out))
    going_on = run if resume and run.files() else None
    recipe, changes = with_teachers(recipe, changes or {}, teachers)
    chosen, origin, why = choose_recipe(recipe, changes, base, train, going_on)
    chosen, faculty = with_pieces(chosen, changes, origin, going_on)
    known = origin.held_out() if origin and origin.recipe.task == chosen.task else None
    data = {"train": train, "dev": dev, "old": old_dev or known}
    with gathered() as team, Show(quiet or not team.first) as show, ExitStack() as until_the_end:
        if why:
            show.say(why)
        team.together(lambda: task_of(chosen).check_team(team))
        lock = partial(until_the_end.enter_context, run.locked())
        finished = team.together(lambda: begin(run, chosen, resume or team.restarted, lock))
        told = going_on.changes(chosen) if going_on else []
        if finished and not data_changed:
            team.together(lambda: task_of(chosen).check(chosen, run.data, data))
        if finished:
            why = "it stopped improving" if finished["reason"] == "patience" else "all steps done"
            for change in told:
                show.say(f"{change} (ignored)")
            show.say(f"{run.root} is finished ({why}, step {finished['step']:,}); nothing to do")
            return Trained(run.root, finished["step"], finished["metrics"], finished["reason"])
        if going_on:
            faculty = team.in_turn(lambda: Faculty.of(chosen, origin or run))
            if not data_changed:
                check_unchanged(faculty, run.checkpoints)
        machine = choose_machine(team.device(device), chosen.train.precision, chosen.model.width)
        machine = as_before(machine, chosen.train.precision, run) if going_on else as_one(machine, team)
        return train_in(run, chosen, origin, faculty, data, data_changed, lenient, machine, team, show, told)


def as_one(machine: Machine, team: Team) -> Machine:
    """The machine, in a precision that suits all processes of a team: fp32 if any of them needs it."""
    return replace(machine, precision="fp32") if "fp32" in team.gather(machine.precision) else machine


def as_before(machine: Machine, wanted: str, run: Run) -> Machine:
    """The machine, in the precision that a resumed run on a CPU started with.

    "auto" might now choose another. Before the precision was noted, it was fp32.
    """
    progress = newest_progress(run.checkpoints)
    if progress is None or wanted != "auto" or machine.device.type != "cpu":
        return machine
    return replace(machine, precision=progress.precision or "fp32")


def with_teachers(
    recipe: str | Path | Recipe | None, changes: Mapping[str, Any], teachers: str | Path | Sequence[str | Path]
) -> tuple[str | Path | Recipe | None, Mapping[str, Any]]:
    """(the recipe, its changes), where one of the two now has the teachers that were named separately."""
    names = [str(one) for one in ([teachers] if isinstance(teachers, (str, Path)) else teachers)]
    if not names:
        return recipe, changes
    if "train.teachers" in changes:
        raise OptionError(
            f"teachers must be named in one place, got --teacher {' '.join(names)} and --set train.teachers={changes['train.teachers']}"
        )
    if isinstance(recipe, Recipe):
        return replace(recipe, train=replace(recipe.train, teachers=tuple(names))), changes
    return recipe, {**changes, "train.teachers": names}


def with_pieces(
    recipe: Recipe, changes: Mapping[str, Any], base: Base | None, run: Run | None
) -> tuple[Recipe, Faculty | None]:
    """(the recipe with its teachers' tokenizer settings, the teachers).

    A resumed run has these settings already. It knows its teachers even if its recipe is given again, but they are not
    loaded yet: if it is finished, it no longer needs them.
    """
    if run is None:
        faculty = Faculty.of(recipe, base)
        return (taught_recipe(recipe, faculty.recipe.data, changes) if faculty else recipe), faculty
    stored = run.recipe()
    names = recipe.train.teachers or (() if "train.teachers" in changes else stored.train.teachers)
    check_not_itself(names, run)
    taught = replace(recipe, train=replace(recipe.train, teachers=names))
    return (taught_recipe(taught, stored.data, changes) if names else recipe), None


def choose_recipe(
    recipe: str | Path | Recipe | None,
    changes: Mapping[str, Any],
    base: str | Path | None,
    train: Paths,
    run: Run | None,
) -> tuple[Recipe, Base | None, str]:
    """(the recipe, the base to fine-tune, a message about the choice). `run`: the run to resume, if any."""
    if isinstance(recipe, Recipe) and changes:
        raise OptionError("changes need the name of a recipe, got a Recipe", hint="use load_recipe(name, changes)")
    if base is not None:
        origin = Base(base)
        return tuned_recipe(origin, recipe or finetune_recipe(origin), changes), origin, ""
    if recipe is None and run:
        return change_recipe(run.began_with(), changes, str(run.root)), base_to_begin_with(run), ""
    if recipe is None:
        recipe, pairs = recipe_for(train)
        return load_recipe(recipe, changes), None, f"recipe: {recipe}, for about {how_many(pairs, 'pair')}"
    if is_finetuning(recipe) and not run:
        raise OptionError(f"the recipe {recipe} needs a model to fine-tune, got none", hint="name it with --from MODEL")
    return recipe if isinstance(recipe, Recipe) else load_recipe(recipe, changes), None, ""


def base_to_begin_with(run: Run) -> Base | None:
    """The base of a run that has not saved a checkpoint of its own yet; the run's recipe has its name."""
    name = run.recipe().base
    return Base(name) if name and not Checkpoints(run.checkpoints, lambda _: None).any_whole() else None


def begin(run: Run, recipe: Recipe, resume: bool, lock: Callable[[], None]) -> dict[str, Any] | None:
    """Lock the run's folder and check it. Returns the summary if the run ended and no more is requested of it."""
    lock()
    run.begin(recipe, resume)
    summary = run.summary()
    if summary and summary["asked"] == asked(recipe):
        return summary
    if summary and not Checkpoints(run.checkpoints, lambda _: None).any_whole():
        raise InputError(
            f"a finished run continues from its last checkpoint, got {run.root} without a complete one",
            hint=f"--from {run.root} with another --out fine-tunes its model",
        )
    return None


def asked(recipe: Recipe) -> dict[str, Any]:
    return {"steps": recipe.train.steps, "epochs": recipe.train.epochs, "patience": recipe.train.patience}


def train_in(
    run: Run,
    recipe: Recipe,
    base: Base | None,
    faculty: Faculty | None,
    data: Mapping[str, Any],
    changed: bool,
    lenient: bool,
    machine: Machine,
    team: Team,
    show: Show,
    told: Sequence[str],
) -> Trained:
    """Train a new or a resumed run in its folder.

    `told`: human-readable list of the settings that changed since the run was started. When a run is refused, it prints
    only the refusal.
    """
    known, before = base or faculty, run.files()
    task = team.in_turn(
        partial(prepare, run, recipe, known.files() if known else {}, data, changed and team.first, show)
    )
    with enough_memory(), listen() as stop:  # until here there is nothing to save: a signal just ends the run
        torch.manual_seed(recipe.train.seed)
        model = task.build()
        if base:
            take_over(model, base, recipe, task.vocabulary)
        if faculty:
            task.learn_from(faculty.ready(machine), " ".join(faculty.fingerprints))
        state = State(model, recipe.train, machine.device, team)
        listener = tensorboard_listener(recipe.train.tensorboard, run.tensorboard, show.say)
        log = Log(run.log, show.say, listener) if team.first else Silent()
        session = Session(task, state, recipe.train, machine, team, run, log, show, lenient)
        try:
            going_on = go_on(session, changed)
        except ManyheadsError:
            team.together(lambda: run.publish(before) if before else None)  # a refused run must change nothing
            raise
        for change in told:
            show.say(change)
        introduce(session)
        if base and not going_on:
            judge_base(session, base)
        with machine.chosen():
            ending = fit(session, stop)
    if ending.reason != "stopped":
        return conclude(session, ending, asked(recipe))
    step = state.progress.step
    session.log.write("stopped", step=step, signal=ending.number)
    show.bar.stop()
    show.say(f"stopped and saved at step {step:,}; continue with the same command and --resume")
    return Trained(run.root, step, {}, ending.reason, ending.number)


def task_of(recipe: Recipe) -> Any:
    return import_module(TASKS[recipe.task].trainer).Task


def prepare(
    run: Run, recipe: Recipe, known: Mapping[str, bytes], data: Mapping[str, Any], changed: bool, show: Show
) -> Any:
    """The task, with its data ready; the folder is now this run's. `known`: files of the base or of teachers."""
    files = {**known, **run.files()}
    task = task_of(recipe).prepare(recipe, run.data, data, files, show.say, changed)
    run.publish_recipe(recipe, task.files())
    run.reopen()
    return task


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn errors of running out of memory, of which torch has several, into a TrainingError."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            f"there is not enough memory: {str(error).splitlines()[0][:160] if str(error) else 'none left'}",
            hint="for a new run: train.accumulate=2 computes each batch in two parts, a smaller train.tokens makes it smaller",
        ) from None
