"""`manyheads.train`: from files to a model in a folder."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from manyheads.errors import OptionError, TrainingError
from manyheads.machine import Machine, choose_machine
from manyheads.modelfolder import MODEL, load_weights
from manyheads.recipe import TASKS, Recipe, change_recipe, load_recipe
from manyheads.report.page import write_report
from manyheads.storage import read_file
from manyheads.tasks.task import changed_data
from manyheads.team import Team, gathered
from manyheads.text.corpus import Paths
from manyheads.training.auto import recipe_for
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.log import Log, Silent
from manyheads.training.loop import Ending, fit, steps_of, warmup_of
from manyheads.training.run import Run
from manyheads.training.session import Session
from manyheads.training.show import Show, metrics_line
from manyheads.training.signals import listen
from manyheads.training.state import State
from manyheads.training.steps import can_graph
from manyheads.training.tensorboard import tensorboard_listener
from manyheads.training.tuning import FINETUNE, SETS, Base, comparison, tuned_recipe

__all__ = ["Trained", "train"]

WORTH_COMPILING = 300
"""Steps. Compiling takes as long as some hundred of a small model's take without it."""


@dataclass(frozen=True)
class Trained:
    """Where the model is and how good it is on the development set.

    reason    why training ended: "finished", "patience" (it no longer got better) or "stopped"
    stopped   the signal that did it
    """

    folder: Path
    steps: int
    metrics: Mapping[str, float]
    reason: str = "finished"
    stopped: int | None = None


def train(
    recipe: str | Path | Recipe | None = None,
    *,
    train: Paths,
    dev: Paths | None = None,
    base: str | Path | None = None,
    old_dev: Paths | None = None,
    out: str | Path,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    data_changed: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> Trained:
    """Train what a recipe describes on pairs from files.

    recipe   a preset's name, a TOML file, or a Recipe; by default one that suits the number of pairs, or that of the run that goes on.
             With a base its training section counts, by default that of "finetune".
    train    one file of pairs, or a source file and a target file; or several of them
    dev      the same, to judge by; without it some training pairs are held out
    base     a run folder or a bundled model to be trained further
    old_dev  what the base was judged by, to see what is forgotten (by default what its run folder has of it)
    out      the run's folder
    changes  keys of the recipe that differ: {"train.steps": 1000}
    resume   go on with the run in `out`, if there is one
    data_changed   go on although the data is not what the run began with: from here on with what is there now
    """
    run = Run(Path(out))
    chosen, origin, why = choose_recipe(recipe, changes or {}, base, train, run if resume else None)
    data = {"train": train, "dev": dev, "old": old_dev or (origin.held_out() if origin else None)}
    with gathered() as team, Show(quiet or not team.first) as show, ExitStack() as until_the_end:
        if why:
            show.say(why)
        lock = partial(until_the_end.enter_context, run.locked())
        finished = team.together(lambda: begin(run, chosen, resume or team.restarted, lock))
        if finished and not data_changed:
            team.together(lambda: task_of(chosen).check(chosen, run.data, data))
        if finished:
            why = "it no longer got better" if finished["reason"] == "patience" else "all steps done"
            show.say(f"{run.root} is finished ({why}, step {finished['step']:,}); nothing to do")
            return Trained(run.root, finished["step"], finished["metrics"], finished["reason"])
        machine = choose_machine(team.device(device), chosen.train.precision)
        return train_in(run, chosen, origin, data, data_changed, machine, team, show)


def choose_recipe(
    recipe: str | Path | Recipe | None,
    changes: Mapping[str, Any],
    base: str | Path | None,
    train: Paths,
    run: Run | None,
) -> tuple[Recipe, Base | None, str]:
    """(the recipe, the model that is trained further, what is to be said about it); `run` is one that may go on."""
    if isinstance(recipe, Recipe) and changes:
        raise OptionError(
            "changes go with the name of a recipe, got them with a Recipe", hint="load_recipe(name, changes)"
        )
    if base is not None:
        origin = Base(base)
        return tuned_recipe(origin, recipe or FINETUNE, changes), origin, ""
    if recipe is None and run and run.files():
        return change_recipe(run.recipe().as_tables(), changes, str(run.root)), None, ""
    if recipe is None:
        recipe, pairs = recipe_for(train)
        return load_recipe(recipe, changes), None, f"recipe: {recipe}, for some {pairs:,} pairs"
    return recipe if isinstance(recipe, Recipe) else load_recipe(recipe, changes), None, ""


def begin(run: Run, recipe: Recipe, resume: bool, lock: Callable[[], None]) -> dict[str, Any] | None:
    """The summary, if the run ended and nobody asks for more of it."""
    lock()
    run.begin(recipe, resume)
    summary = run.summary()
    return summary if summary and summary["asked"] == asked(recipe) else None


def asked(recipe: Recipe) -> dict[str, Any]:
    return {"steps": recipe.train.steps, "epochs": recipe.train.epochs, "patience": recipe.train.patience}


def train_in(
    run: Run,
    recipe: Recipe,
    base: Base | None,
    data: Mapping[str, Any],
    changed: bool,
    machine: Machine,
    team: Team,
    show: Show,
) -> Trained:
    task = team.in_turn(partial(prepare, run, recipe, base, data, changed and team.first, show))
    with enough_memory(), listen() as stop:  # up to here there is nothing to save: a signal just ends it
        torch.manual_seed(recipe.train.seed)
        model = task.build()
        if base:
            model.load_state_dict(base.model.state_dict())
        state = State(model, recipe.train, machine.device, team)
        listener = tensorboard_listener(recipe.train.tensorboard, run.tensorboard, show.say)
        log = Log(run.log, show.say, listener) if team.first else Silent()
        session = Session(task, state, recipe.train, machine, team, run, log, show)
        going_on = go_on(session, changed)
        introduce(session)
        if base and not going_on:
            judge_base(session)
        with machine.chosen():
            ending = fit(session, stop)
    if ending.reason != "stopped":
        return conclude(session, ending, asked(recipe))
    step = state.progress.step
    session.log.write("stopped", step=step, signal=ending.number)
    show.bar.stop()
    show.say(f"stopped and saved at step {step:,}; the same command with --resume goes on")
    return Trained(run.root, step, {}, ending.reason, ending.number)


def task_of(recipe: Recipe) -> Any:
    return import_module(TASKS[recipe.task]).Task


def prepare(run: Run, recipe: Recipe, base: Base | None, data: Mapping[str, Any], changed: bool, show: Show) -> Any:
    """The task, with its data ready. The folder is then that of this run."""
    files = {**(base.files() if base else {}), **run.files()}
    task = task_of(recipe).prepare(recipe, run.data, data, files, show.say, changed)
    run.publish_recipe(recipe, task.files())
    run.reopen()
    return task


@contextmanager
def enough_memory() -> Iterator[None]:
    """That there is none left is a failure like others; torch says it in several ways."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        if (
            isinstance(error, RuntimeError)
            and not isinstance(error, torch.OutOfMemoryError)
            and "alloc" not in str(error)
        ):
            raise
        raise TrainingError(
            f"there is not enough memory: {str(error).splitlines()[0][:160] if str(error) else 'none left'}",
            hint="for a new run: train.accumulate=2 computes each batch in two parts, a smaller train.tokens makes it smaller",
        ) from None


def go_on(session: Session, changed: bool) -> bool:
    """From the newest whole checkpoint, if there is one, with the threads it was made with."""
    team = session.team
    newest = Checkpoints(session.run.checkpoints, session.show.say).newest()
    if newest is None:
        session.state.progress.data = dict(session.task.fingerprint)
        session.state.progress.packed = pack(session)
        return False
    session.state.restore(newest)
    progress = session.state.progress
    session.task.arrange(progress.packed)
    if session.config.fast == "on" and not (progress.packed and can_graph(session.machine, team)):
        raise OptionError(
            f"train.fast = 'on' goes on where a run that began with it can, got a run of {'packs' if progress.packed else 'padded batches'} "
            f"on {session.machine}",
            hint="train.fast=auto goes on with its batches",
        )
    torch.set_num_threads(progress.threads)
    session.show.say(f"going on from step {progress.step:,}")
    check_data(session, changed)
    if steps_of(session.config, session.task.batches_per_epoch) < progress.step:
        raise OptionError(
            f"a run goes on to a step that it has not reached, got step {progress.step:,} and train.steps or train.epochs before it"
        )
    if progress.processes != team.size:
        session.show.say(f"processes: {team.size} instead of {progress.processes}: sums are rounded otherwise")
        progress.processes = team.size
    return True


def pack(session: Session) -> int:
    """How many packs is a batch, or is it padded (0)? Decided when a run begins; it goes on with the same batches, wherever that is."""
    config, known = session.config, session.task.packs_well
    able = known and can_graph(session.machine, session.team)
    if config.fast == "on" and not able:
        got = f"{session.machine}, processes: {session.team.size}" if known else "attention that no such kernel knows"
        raise OptionError(
            f"train.fast = 'on' is for one GPU in bf16, one process, and attention with kernels for packed sentences, got {got}",
            hint="train.fast=auto is fast where it can be",
        )
    long = steps_of(config, session.task.batches_per_epoch) >= WORTH_COMPILING
    fast = able and (config.fast == "on" or (config.fast == "auto" and long))
    packs = config.accumulate if fast else 0
    session.task.arrange(packs)
    return packs


def check_data(session: Session, changed: bool) -> None:
    """A checkpoint knows what data it was trained on. With other data an epoch begins here."""
    progress, now = session.state.progress, dict(session.task.fingerprint)
    if progress.data == now:
        return
    if not changed:
        raise changed_data(f"other data than at step {progress.step:,}")
    if progress.data.get("train") != now["train"]:
        progress.data_since, progress.first_loss, progress.high = progress.step, None, 0
    progress.data = now
    progress.best, progress.best_step, progress.lowest_loss, progress.waited = None, 0, None, 0
    session.show.say("the data has changed: from here on it is what is there now, and scores before do not count")


def judge_base(session: Session) -> None:
    """How good the model is before it is trained further: on the new data, and on the old if there is some."""
    for name in session.task.held_out:
        validation = session.task.validate(session.state.best_model(), final=True, on=name, team=session.team)
        session.state.progress.before[name] = dict(validation.metrics)
        session.log.write("before", on=name, step=0, **validation.metrics)
        session.show.say(f"before, {SETS[name]}: {metrics_line(validation.metrics)}")


def introduce(session: Session) -> None:
    batches, config = session.task.batches_per_epoch, session.config
    parameters = sum(p.numel() for p in session.state.parameters)
    learning = sum(p.numel() for p in session.state.parameters if p.requires_grad)
    frozen = f", {parameters - learning:,} of them frozen" if learning < parameters else ""
    steps, machine = steps_of(config, batches), session.machine
    where = f"{machine} in each of {session.team.size} processes" if session.team.size > 1 else str(machine)
    warmup = warmup_of(config, steps)
    session.show.say(
        f"model: {parameters:,} parameters{frozen}, {steps:,} steps ({steps / batches:.1f} epochs) on {where}"
    )
    if warmup < config.warmup:
        session.show.say(f"warm-up: {warmup:,} instead of {config.warmup:,} steps, for so short a run")
    session.log.write(
        "start", step=session.state.progress.step, steps=steps, batches_per_epoch=batches, parameters=parameters,
        machine=where, torch=torch.__version__, warmup=warmup,
    )  # fmt: skip


def conclude(session: Session, ending: Ending, asked: dict[str, Any]) -> Trained:
    """Score the model as it will be used, mark the run as finished, and write the report."""
    task, run, progress = session.task, session.run, session.state.progress
    model = task.build()
    load_weights(model, read_file(run.root, MODEL), str(run.root / MODEL))
    model = model.to(session.machine.device)
    validation = task.validate(model, final=True, team=session.team)
    samples = [asdict(sample) for sample in validation.samples]
    session.log.write("final", step=progress.step, reason=ending.reason, **validation.metrics, samples=samples)
    summary = {
        "step": progress.step, "reason": ending.reason, "metrics": dict(validation.metrics), "asked": asked,
        "best_step": progress.best_step, "seconds": round(progress.seconds, 1),
        "compile_seconds": round(progress.compile_seconds, 1),
    }  # fmt: skip
    after = {
        name: validation.metrics
        if name == "dev"
        else task.validate(model, final=True, on=name, team=session.team).metrics
        for name in progress.before
        if name in task.held_out
    }
    for name, metrics in after.items():
        session.log.write("after", on=name, step=progress.step, **metrics)
    if after:
        summary |= {"before": progress.before, "after": {name: dict(metrics) for name, metrics in after.items()}}
    report = session.team.together(partial(finish, task, model, run, summary))
    session.show.bar.stop()
    if ending.reason == "patience":
        steps = steps_of(session.config, task.batches_per_epoch)
        session.show.say(
            f"stopped early, at step {progress.step:,} of {steps:,}: no better in {progress.waited} validations (train.patience)"
        )
    comparison(progress.before, after, session.show.say)
    session.show.say(
        f"done: {metrics_line(validation.metrics)}  (dev, as it will be used)\nmodel in {run.root}{report}"
    )
    return Trained(run.root, progress.step, validation.metrics, ending.reason)


def finish(task: Any, model: Any, run: Run, summary: dict[str, Any]) -> str:
    """Store what only the finished model can tell; then nothing is left to do but to look at it. Gives what to say of the
    report."""
    run.publish_recipe(task.settle(model), task.files())
    run.publish_summary(summary)
    task.close()
    return write_report_or_say(run)


def write_report_or_say(run: Run) -> str:
    """A report is for looking at: that it cannot be drawn takes nothing from the model."""
    try:
        write_report(run)
    except Exception as error:
        return f"; {run.report} could not be written: {error!r}"
    return f", report in {run.report}"
