"""How a run ends: its model is scored as it will be used, the run is marked as finished, and a report is written."""

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

    reason    why training ended: "finished", "patience" (it no longer improved) or "stopped"
    stopped   the number of the signal that stopped it
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
            f"stopped early at step {progress.step:,} of {steps:,}: no improvement in {progress.waited} validations (train.patience)"
        )
    if troubles := list(troubles_of(progress)):
        session.show.say(f"during training: {', '.join(troubles)}; details in {run.log}")
    comparison(progress.before, after, session.show.say)
    session.show.say(
        f"done: {metrics_line(validation.metrics)}  (dev, scored as the model will be used{kept_from(progress)})\nmodel in {run.root}{report}"
    )
    return Trained(run.root, progress.step, validation.metrics, ending.reason)


def kept_from(progress: Progress) -> str:
    """Names the validation that the model comes from, unless it was the last step."""
    return (
        f"; weights from step {progress.best_step:,}, the best validation"
        if progress.best_step != progress.step
        else ""
    )


def judged_again(session: Session, model: nn.Module, on_dev: Validation) -> dict[str, dict[str, float]]:
    """Scores on the held-out sets that the base was scored on before fine-tuning; empty for other runs."""
    task, progress = session.task, session.state.progress
    found = {}
    for name in progress.before:
        if name in task.held_out:
            now = on_dev if name == "dev" else task.validate(model, final=True, on=name, team=session.team)
            found[name] = dict(now.metrics)
            session.log.write("after", on=name, step=progress.step, **now.metrics)
    return found


def troubles_of(progress: Progress) -> Iterator[str]:
    """The problems that a run survived, each with its count."""
    if progress.not_finite:
        yield f"{progress.not_finite:,} × update skipped (gradient not finite)"
    if progress.split:
        yield f"{progress.split:,} × batch split for lack of memory"
    if progress.unsaved:
        yield f"{progress.unsaved:,} × save failed"


def finish(task: Any, model: Any, run: Run, summary: dict[str, Any]) -> str:
    """Store what only the finished model can tell, then write report and inspector page.

    Returns the part of the closing message that names the two.
    """
    settled = task.settle(model)
    found = [key for key, _, _ in compare(task.recipe.as_tables(), settled.as_tables())]
    run.publish_recipe(settled, task.files())
    run.publish_summary(summary | ({"found": found} if found else {}))
    task.close()
    inspector = write_inspector_or_say(run)  # first: the report links to it if it exists
    return write_report_or_say(run) + inspector


def write_report_or_say(run: Run) -> str:
    """Write the report. The model does not depend on it, so a failure is only mentioned."""
    try:
        write_report(run)
    except Exception as error:
        return f"; {run.report} could not be written: {error!r}"
    return f", report in {run.report}"


def write_inspector_or_say(run: Run) -> str:
    """Write the inspector page: the model on the observed pair, with what its heads did during training.

    A run that kept no moments has no such page. As with the report, a failure is only mentioned.
    """
    try:
        run.inspector.unlink(missing_ok=True)  # a page left from before shows another model
        if not steps_in(run.replay):
            return ""
        inspect(Translator.load(run.root, "cpu", "fp32"), replay=True).save(run.inspector)
    except Exception as error:
        return f"; {run.inspector} could not be written: {first_line(error)}"
    return f", attention heads in {run.inspector}"
