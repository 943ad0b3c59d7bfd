"""`manyheads.train`: from files to a model in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from manyheads.machine import Machine, choose_machine
from manyheads.modelfolder import load_model
from manyheads.recipe import TASKS, Recipe, load_recipe
from manyheads.report.page import write_report
from manyheads.text.corpus import check_paths
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.log import Log
from manyheads.training.loop import Ending, fit, steps_of
from manyheads.training.run import Run
from manyheads.training.show import Show, metrics_line
from manyheads.training.signals import listen
from manyheads.training.state import State

__all__ = ["Trained", "train"]


@dataclass(frozen=True)
class Trained:
    """Where the model is and how good it is on the development set; `stopped` is the signal that ended it early."""

    folder: Path
    steps: int
    metrics: Mapping[str, float]
    stopped: int | None = None


def train(
    recipe: str | Path | Recipe,
    *,
    train: Sequence[str],
    dev: Sequence[str] | None = None,
    out: str | Path,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> Trained:
    """Train what a recipe describes on pairs from files.

    recipe   a preset's name, a TOML file, or a Recipe
    train    one TSV file, or a source file and a target file
    dev      the same, to judge by; without it some training pairs are held out
    out      the run's folder
    changes  keys of the recipe that differ: {"train.steps": 1000}
    resume   go on with the run in `out`, if there is one
    """
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, changes)
    data = {"train": check_paths(train, "--train"), "dev": check_paths(dev, "--dev") if dev else None}
    run = Run(Path(out))
    with Show(quiet) as show, run.locked():
        run.begin(chosen, resume)
        if finished := already_finished(run, chosen):
            show.say(f"{run.root} is finished: {finished['reason']} at step {finished['step']:,}; nothing to do")
            return Trained(run.root, finished["step"], finished["metrics"])
        return train_in(run, chosen, data, choose_machine(device, chosen.train.precision, chosen.model.width), show)


def already_finished(run: Run, recipe: Recipe) -> dict[str, Any] | None:
    """The summary, if the run ended and nobody asks for more of it."""
    summary = run.summary()
    return summary if summary and summary["asked"] == asked(recipe) else None


def asked(recipe: Recipe) -> dict[str, Any]:
    return {"steps": recipe.train.steps, "epochs": recipe.train.epochs, "patience": recipe.train.patience}


def train_in(run: Run, recipe: Recipe, data: Mapping[str, Any], machine: Machine, show: Show) -> Trained:
    log = Log(run.log, show.say)
    task_class = import_module(TASKS[recipe.task]).Task
    with listen() as stop:
        task = task_class.prepare(recipe, run.data, data, run.files(), show.say)
        run.publish_recipe(recipe, task.files())
        torch.manual_seed(recipe.train.seed)
        state = State(task.build(), recipe.train, machine.device)
        go_on(run, state, show)
        introduce(state, recipe, task.batches_per_epoch, machine, log, show)
        ending = fit(task, state, recipe.train, run, machine, log, show, stop)
    if ending.reason == "stopped":
        log.write("stopped", step=state.progress.step, signal=ending.number)
        show.say(f"stopped and saved at step {state.progress.step:,}; the same command with --resume goes on")
        return Trained(run.root, state.progress.step, {}, ending.number)
    return conclude(run, recipe, task, state, machine, ending, log, show)


def go_on(run: Run, state: State, show: Show) -> None:
    """From the newest whole checkpoint, if there is one, with the threads it was made with."""
    newest = Checkpoints(run.checkpoints, show.say).newest()
    if newest is None:
        return
    state.restore(newest)
    torch.set_num_threads(state.progress.threads)
    show.say(f"going on from step {state.progress.step:,}")


def introduce(state: State, recipe: Recipe, batches: int, machine: Machine, log: Log, show: Show) -> None:
    parameters = sum(p.numel() for p in state.model.parameters())
    steps = steps_of(recipe.train, batches)
    show.say(f"model: {parameters:,} parameters, {steps:,} steps ({steps / batches:.1f} epochs) on {machine}")
    log.write(
        "start", step=state.progress.step, steps=steps, batches_per_epoch=batches, parameters=parameters,
        machine=str(machine), torch=torch.__version__,
    )  # fmt: skip


def conclude(
    run: Run, recipe: Recipe, task: Any, state: State, machine: Machine, ending: Ending, log: Log, show: Show
) -> Trained:
    """Score the model as it will be used, write the report, and mark the run as finished."""
    model, *_ = load_model(run.root)
    validation = task.validate(model.to(machine.device), final=True)
    step = state.progress.step
    samples = [{"source": s.source, "target": s.target, "output": s.output} for s in validation.samples]
    log.write("final", step=step, reason=ending.reason, **validation.metrics, samples=samples)
    run.publish_summary(
        {"step": step, "reason": ending.reason, "metrics": dict(validation.metrics), "asked": asked(recipe),
         "best_step": state.progress.best_step, "seconds": round(state.progress.seconds, 1)}
    )  # fmt: skip
    task.close()
    write_report_or_say(run, show)
    show.bar.stop()
    show.say(
        f"done: {metrics_line(validation.metrics)}  (dev, as it will be used)\nmodel in {run.root}, report in {run.report}"
    )
    return Trained(run.root, step, validation.metrics)


def write_report_or_say(run: Run, show: Show) -> None:
    """A report is for looking at: that it cannot be drawn takes nothing from the model."""
    try:
        write_report(run)
    except Exception as error:
        show.say(f"{run.report} could not be written: {error!r}")
