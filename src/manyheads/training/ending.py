"""How a run ends: its model is scored as it will be used, and the run is marked as finished and reported."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from manyheads.decoding.translator import Translator
from manyheads.errors import first_line
from manyheads.inspection.api import inspect
from manyheads.inspection.moments import steps_in
from manyheads.modelfolder import MODEL, load_weights
from manyheads.report.page import write_report
from manyheads.storage import read_file
from manyheads.tasks.task import Validation
from manyheads.training.keeping import check_kept
from manyheads.training.loop import Ending
from manyheads.training.run import Run, compare
from manyheads.training.session import Session
from manyheads.training.show import metrics_line
from manyheads.training.state import Progress
from manyheads.training.tuning import comparison

__all__ = ["Trained", "conclude"]


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


def conclude(session: Session, ending: Ending, asked: dict[str, Any]) -> Trained:
    """Score the model as it will be used, mark the run as finished, and write the report."""
    task, run, progress = session.task, session.run, session.state.progress
    check_kept(session)
    model = task.build()
    load_weights(model, read_file(run.root, MODEL), str(run.root / MODEL))
    model = model.to(session.machine.device)
    validation = task.validate(model, final=True, team=session.team)
    samples = [asdict(sample) for sample in validation.samples]
    session.log.write("final", step=progress.step, reason=ending.reason, **validation.metrics, samples=samples)
    after = judged_again(session, model, validation)
    summary = {
        "step": progress.step, "reason": ending.reason, "metrics": dict(validation.metrics), "asked": asked,
        "best_step": progress.best_step, "seconds": round(progress.seconds, 1),
        "compile_seconds": round(progress.compile_seconds, 1),
        "not_finite": progress.not_finite, "split": progress.split, "unsaved": progress.unsaved,
        **({"before": progress.before, "after": after} if after else {}),
    }  # fmt: skip
    report = session.team.together(partial(finish, task, model, run, summary))
    session.show.bar.stop()
    if ending.reason == "patience":
        steps = session.config.steps_for(task.batches_per_epoch)
        session.show.say(
            f"stopped early, at step {progress.step:,} of {steps:,}: no better in {progress.waited} validations (train.patience)"
        )
    if troubles := list(troubles_of(progress)):
        session.show.say(f"on the way: {', '.join(troubles)}; {run.log} has every one")
    comparison(progress.before, after, session.show.say)
    session.show.say(
        f"done: {metrics_line(validation.metrics)}  (dev, as it will be used{kept_from(progress)})\nmodel in {run.root}{report}"
    )
    return Trained(run.root, progress.step, validation.metrics, ending.reason)


def kept_from(progress: Progress) -> str:
    """The best is not always the last."""
    return (
        f": the best of its validations, at step {progress.best_step:,}" if progress.best_step != progress.step else ""
    )


def judged_again(session: Session, model: nn.Module, on_dev: Validation) -> dict[str, dict[str, float]]:
    """How good the model now is on what it was judged on before a fine-tuning; of other trainings, nothing."""
    task, progress = session.task, session.state.progress
    found = {}
    for name in progress.before:
        if name in task.held_out:
            now = on_dev if name == "dev" else task.validate(model, final=True, on=name, team=session.team)
            found[name] = dict(now.metrics)
            session.log.write("after", on=name, step=progress.step, **now.metrics)
    return found


def troubles_of(progress: Progress) -> Iterator[str]:
    """What a run went on in spite of."""
    if progress.not_finite:
        yield f"{progress.not_finite:,} × a gradient that was not finite changed nothing"
    if progress.split:
        yield f"{progress.split:,} × a batch was split for want of memory"
    if progress.unsaved:
        yield f"{progress.unsaved:,} × a save failed"


def finish(task: Any, model: Any, run: Run, summary: dict[str, Any]) -> str:
    """Store what only the finished model can tell; then nothing is left to do but to look at it. Gives what to say of the
    report."""
    settled = task.settle(model)
    found = [key for key, _, _ in compare(task.recipe.as_tables(), settled.as_tables())]
    run.publish_recipe(settled, task.files())
    run.publish_summary(summary | ({"found": found} if found else {}))
    task.close()
    inspector = write_inspector_or_say(run)  # first: the report leads to what is there
    return write_report_or_say(run) + inspector


def write_report_or_say(run: Run) -> str:
    """A report is for looking at: that it cannot be drawn takes nothing from the model."""
    try:
        write_report(run)
    except Exception as error:
        return f"; {run.report} could not be written: {error!r}"
    return f", report in {run.report}"


def write_inspector_or_say(run: Run) -> str:
    """The model on the pair that was looked at on the way, with what its heads did then. Of a run that kept nothing there is no such
    page; for one that fails the same holds as for a report."""
    try:
        run.inspector.unlink(missing_ok=True)  # it would be of another model
        if not steps_in(run.replay):
            return ""
        inspect(Translator.load(run.root, "cpu", "fp32"), replay=True).save(run.inspector)
    except Exception as error:
        return f"; {run.inspector} could not be written: {first_line(error)}"
    return f", its heads in {run.inspector}"
