"""How a run starts or resumes: its batches, its checkpoint, and what is printed about it."""

from dataclasses import replace
from typing import Any

import torch

from manyheads.errors import InputError, OptionError, how_many
from manyheads.tasks.task import changed_data
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.loop import warmup_of
from manyheads.training.session import Session
from manyheads.training.show import metrics_line
from manyheads.training.steps import can_graph
from manyheads.training.tuning import SETS, Base, keeps_head

__all__ = ["go_on", "introduce", "judge_base"]

WORTH_COMPILING = 300
"""Steps of a run. Compiling takes as long as some hundred steps of a small model without it."""


SHOWN = 5
"""Labels of a base that are printed."""


def go_on(session: Session, changed: bool) -> bool:
    """Resume from the newest whole checkpoint, with its number of threads. False if there is none: the run starts."""
    team = session.team
    newest = Checkpoints(session.run.checkpoints, session.show.say).newest()
    if newest is None:
        if Checkpoints(session.run.checkpoints, session.show.say).steps():
            raise InputError(
                f"a run resumes from a complete checkpoint, got none in {session.run.checkpoints}: starting over would replace its model",
                hint="another --out starts a new run",
            )
        if session.run.has_model():
            session.show.say("no step was saved: the run starts over")
        session.state.progress.data = dict(session.task.fingerprint)
        session.state.progress.packed = pack(session)
        session.state.progress.precision = session.machine.precision
        return False
    session.state.restore(newest)
    progress = session.state.progress
    session.task.arrange(progress.packed)
    recorded = progress.packed or session.task.has_few_shapes
    if session.config.fast == "on" and not (recorded and can_graph(session.machine, team)):
        raise OptionError(
            "resuming with train.fast = 'on' needs one GPU in bf16, one process, and batches that can be recorded, "
            f"got a run of {'packs' if progress.packed else 'padded batches'} "
            f"on {session.machine}",
            hint="train.fast=auto keeps the run's batches, and records them if possible",
        )
    torch.set_num_threads(progress.threads)
    session.show.say(f"resuming from step {progress.step:,}")
    check_data(session, changed)
    if (steps := session.config.steps_for(session.task.batches_per_epoch)) < progress.step:
        raise OptionError(
            f"a run must not end before the step it has reached, got {how_many(steps, 'step')} (train.steps or train.epochs) at step {progress.step:,}"
        )
    if progress.processes != team.size:
        session.show.say(f"processes: {team.size} instead of {progress.processes}, so sums are rounded differently")
        progress.processes = team.size
    if progress.precision not in ("", session.machine.precision):
        session.show.say(f"precision: {session.machine.precision} instead of {progress.precision}")
    progress.precision = session.machine.precision
    return True


def pack(session: Session) -> int:
    """Packs per batch; 0 if batches are padded. Decided when a run starts: it keeps its batches wherever it resumes."""
    config, task = session.config, session.task
    known = task.packs_well and all(map(reads_packs_well, task.teachers))
    recorded = known or task.has_few_shapes
    able = recorded and can_graph(session.machine, session.team)
    if config.fast == "on" and not able:
        got = f"{session.machine}, processes: {session.team.size}" if recorded else "attention without such a kernel"
        raise OptionError(
            f"train.fast = 'on' needs one GPU in bf16, one process, and attention with kernels for packed sentences, got {got}",
            hint="train.fast=auto is fast where possible",
        )
    long = config.steps_for(session.task.batches_per_epoch) >= WORTH_COMPILING
    fast = able and (config.fast == "on" or (config.fast == "auto" and long))
    packs = config.accumulate if fast and known else 0
    session.task.arrange(packs)
    return packs


def reads_packs_well(teacher: Any) -> bool:
    """True if packs suit a teacher, which reads the student's batches without dropout."""
    return replace(teacher.config, attention_dropout=0.0).packs_well


def check_data(session: Session, changed: bool) -> None:
    """Compare the data with the checkpoint's. Data that has `changed` starts an epoch here; otherwise it is refused."""
    progress, now = session.state.progress, dict(session.task.fingerprint)
    if progress.data == now:
        return
    if not changed:
        raise changed_data(f"other data than at step {progress.step:,}")
    if progress.data.get("train") != now["train"]:
        progress.data_since, progress.first_loss, progress.high = progress.step, None, 0
    progress.data = now
    progress.best, progress.best_step, progress.lowest_loss, progress.waited = None, 0, None, 0
    session.show.say("the data has changed: training continues with the new data, and earlier scores no longer count")


def judge_base(session: Session, base: Base) -> None:
    """Score the base before fine-tuning: on the new data, and on the old if there is any.

    With a new head there is nothing to score yet.
    """
    task = session.task
    if not keeps_head(base, task.recipe, task.vocabulary):
        if base.recipe.task == task.recipe.task == "classify":
            labels = ", ".join(map(repr, base.vocabulary.labels.names[:SHOWN]))
            more = ", …" if len(base.vocabulary.labels.names) > SHOWN else ""
            session.show.say(f"head: new, because the labels differ from those of {base.name} ({labels}{more})")
        return
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
    steps, machine = config.steps_for(batches), session.machine
    where = f"{machine} in each of {session.team.size} processes" if session.team.size > 1 else str(machine)
    warmup = warmup_of(config, steps)
    session.show.say(
        f"model: {parameters:,} parameters{frozen}; training for {how_many(steps, 'step')} ({steps / batches:.1f} epochs) on {where}"
    )
    if config.teachers:
        session.show.say(f"teachers: {len(config.teachers)}, {config.taught:.0%} of the loss comes from them")
    if warmup < config.warmup:
        session.show.say(f"warm-up: {how_many(warmup, 'step')} instead of {config.warmup:,}, because the run is short")
    session.log.write(
        "start", step=session.state.progress.step, steps=steps, batches_per_epoch=batches, parameters=parameters,
        machine=where, torch=torch.__version__, warmup=warmup,
    )  # fmt: skip
