"""Watches the health of a run.

Faults of single steps are logged, with everything that helps to find their cause; a run that will not recover is ended.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from torch import Tensor, nn

from manyheads.errors import TrainingError
from manyheads.tasks.task import Batch
from manyheads.training.examine import find_not_finite, weights_not_finite
from manyheads.training.memory import is_out_of_memory
from manyheads.training.meter import Reading
from manyheads.training.session import Session
from manyheads.training.state import Progress
from manyheads.training.steps import seed_step

__all__ = ["check_weights", "note_split", "watch"]

MOST_HIGH = 3
"""A run ends after this many readings in a row of a loss that is far too high."""

MOST_SKIPPED = 20
"""A run ends after this many updates in a row were skipped because a gradient was not finite."""

SHOWN = 5

Lines = Mapping[str, list[int]]


def watch(session: Session, reading: Reading) -> None:
    """Check a reading of some steps, as soon as there is one."""
    progress, found = session.state.progress, ""
    for step, batch in reading.skipped:
        found = note_not_finite(session, step, batch)
    watch_loss(progress, reading.loss, reading.step)
    if progress.skipped >= MOST_SKIPPED:
        raise TrainingError(
            f"training diverged: the gradient was not finite {progress.skipped} times in a row before step {reading.step}, {found}",
            hint=f"try a lower train.rate or a longer train.warmup; the saved weights are finite; details in {session.run.log}",
        )


def watch_loss(progress: Progress, loss: float, step: int) -> None:
    """End a run whose loss stays far above its first. (Losses that are not finite are counted elsewhere.)"""
    if not isfinite(loss):
        return
    if progress.first_loss is None:
        progress.first_loss = loss
    progress.high = progress.high + 1 if loss > 3 * progress.first_loss + 3 else 0
    if progress.high >= MOST_HIGH:
        raise TrainingError(
            f"training diverged: at step {step} the loss is {loss:.3g}, it started at {progress.first_loss:.3g}",
            hint="try a lower train.rate or a longer train.warmup",
        )


# ── numbers that are not finite ─────────────────────────────────────────────────────────────────────────────────────


def note_not_finite(session: Session, step: int, batch: Batch) -> str:
    """Log which lines were in the batch, and where its numbers first were not finite. Returns this in words.

    In a team each process looks at its own share; if only some shares are to blame, only their lines are named.
    """
    progress = session.state.progress
    shares = session.team.gather({"module": examine(session, step, batch), "lines": session.task.lines(batch)})
    bad = [share for share in shares if share["module"]]
    module = bad[0]["module"] if bad else None
    lines = joined([share["lines"] for share in bad or shares])
    session.log.write("not_finite", step=step, module=module, lines=lines)
    where = f"first in {module}" if module else "origin unknown"
    found = f"{where}, at step {step:,} with {listed(lines)}"
    check_weights(session, f": the gradient was not finite, {found}")
    progress.not_finite += 1
    if progress.not_finite == 1:
        session.show.say(f"the gradient was not finite, {found}; such updates are skipped, and listed in log.jsonl")
    return found


def check_weights(session: Session, why: str = "") -> None:
    """End a run whose weights are not finite: no batch will do better, and whatever it saves is of no use."""
    bad = weights_not_finite(session.state.model)
    if bad:
        raise TrainingError(
            f"weights must be finite, got NaN or infinity in {bad[0]} at step {session.state.progress.step:,}{why}",
            hint="try a lower train.rate; if it is not too high, this machine's memory may be at fault: --resume continues from the last save, "
            "whose weights are finite",
        )


def examine(session: Session, step: int, batch: Batch) -> str | None:
    """Where numbers first are not finite when the batch is computed again, with the random draws of its step.

    None if they are all finite now, or if there is no memory to look. With sharded weights only the forward pass is
    computed: all processes must take part, in the same order.
    """
    state, config, machine = session.state, session.config, session.machine
    seed_step(config.seed, step, session.team.rank)
    parts = batch.to(machine.device).split(config.accumulate)

    def loss(model: nn.Module, part: Any) -> Tensor:
        return session.task.loss(model, part) * session.team.size / batch.count

    try:
        return find_not_finite(state.model, loss, parts, machine, backward=not state.sharded)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None


def joined(shares: list[dict[str, Any]]) -> dict[str, list[int]]:
    names = dict.fromkeys(name for share in shares for name in share)
    return {name: sorted({line for share in shares for line in share.get(name, ())}) for name in names}


def listed(lines: Lines) -> str:
    """The first few lines of each file, in words."""
    return "; ".join(f"{name}, {some(numbers)}" for name, numbers in lines.items())


def some(numbers: list[int]) -> str:
    more = f" and {len(numbers) - SHOWN:,} more" if len(numbers) > SHOWN else ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(f'{n:,}' for n in numbers[:SHOWN])}{more}"


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def note_split(session: Session, step: int, parts: int) -> None:
    """Log that a batch was computed in more parts than planned, because there was no memory for it."""
    progress = session.state.progress
    progress.split += 1
    session.log.write("split", step=step, parts=parts)
    if progress.split == 1:
        when = "for a new run" if progress.packed else "also with --resume"  # packs are planned when a run starts
        session.show.say(
            f"step {step:,}: not enough memory for its batch at once, computed in {parts} parts with the same gradient; such "
            f"retries cost time: train.accumulate={parts} ({when}) or a smaller train.tokens (for a new run) avoids them"
        )
