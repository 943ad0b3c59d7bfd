"""The training loop: one for every task.

It knows a task's batches, its loss and its score, and nothing else about it. A run that was stopped and resumed is the
same run, bit for bit, on the same machine with the same number of threads.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from manyheads.errors import first_line
from manyheads.recipe import TrainConfig
from manyheads.storage import is_whole
from manyheads.tasks.task import Batch, Validation
from manyheads.training.average import mean_weights
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.keeping import publish, save_checkpoint
from manyheads.training.memory import release_memory
from manyheads.training.meter import Meter
from manyheads.training.overdue import OVERDUE, Overdue
from manyheads.training.prefetch import prefetch
from manyheads.training.replay import Moments, early_steps, moments_of
from manyheads.training.schedule import rate_at
from manyheads.training.session import Session
from manyheads.training.shaped import recorded_steps
from manyheads.training.signals import StopRequest
from manyheads.training.state import WEIGHTS, Progress, State, read_tensors
from manyheads.training.steps import EagerSteps, GraphedSteps, Loss, Steps, can_graph
from manyheads.training.watch import check_weights, note_split, watch

__all__ = ["Ending", "fit", "warmup_of"]

LOG_EVERY = 10
LOWEST = -1e300


@dataclass(frozen=True)
class Ending:
    """Why training ended: "finished", "patience" or "stopped" (by the signal `number`)."""

    reason: str
    number: int | None = None


def warmup_of(config: TrainConfig, steps: int) -> int:
    """Steps of warm-up: at most a tenth of the run, so that a recipe for much data also works for little."""
    return min(config.warmup, max(1, steps // 10))


def fit(session: Session, stop: StopRequest) -> Ending:
    """Train until the steps are done, the score no longer improves, or someone asks to stop; then save."""
    task, state, config, show, team = session.task, session.state, session.config, session.show, session.team
    tired = out_of_patience(state, config)
    left = 0 if tired else config.steps_for(task.batches_per_epoch) - state.progress.step
    learn, make = choose_steps(session, left)  # first: without a recording, batches are others, and maybe more
    steps = config.steps_for(task.batches_per_epoch)
    warmup = warmup_of(config, steps)
    validate_every = config.validate_every or max(1, steps // 20)
    save_every = config.save_every or validate_every
    keep = max(config.keep, config.average)
    checkpoints = Checkpoints(session.run.checkpoints, show.say, every=save_every, keep=keep)
    meter = Meter(state.progress, session.machine.device, team)
    state.model.train()
    ending = Ending("patience" if tired and state.progress.step < steps else "finished")
    last_step = 0 if tired else steps
    moments, early = moments_of(session), early_steps(validate_every) if config.replay else ()
    moments.begin(state.progress.step)
    if state.progress.step == 0:
        moments.keep(state.best_model(), 0, state.progress.before.get("dev", {}))
    show.start(steps, state.progress.step)
    overdue = Overdue(config.save_minutes, state.progress.step)
    for batch in batches(session, make, last_step):
        step = state.progress.step + 1
        meter.resume()
        rate = config.rate * rate_at(step, schedule=config.schedule, warmup=warmup, steps=steps)
        meter.add(batch, *learn(batch, step, rate))
        state.progress.step = step
        show.step(step)

        last, said = step == steps, team.loudest(stop.number or overdue.says())
        if step % LOG_EVERY == 0 or last:
            meter.send(step, rate)
            log_readings(session, meter, all_of_them=last)
        if step % validate_every == 0 or last:
            meter.send(step, rate)
            validate(session, meter, moments)
        elif step in early:
            meter.pause()
            moments.keep(state.best_model(), step, {})
        if out_of_patience(state, config) and not last:
            ending = Ending("patience")
        elif said > OVERDUE and not last:
            ending = Ending("stopped", said)
        if step % save_every == 0 or last or ending.reason != "finished" or overdue.heard(said, step):
            meter.send(step, rate)
            save(session, meter, checkpoints, must=ending.reason == "stopped")
            overdue.saved(step)
        if ending.reason != "finished":
            break
    if last_step and state.progress.step == steps and state.progress.best is None and not state.progress.unsaved:
        validate(session, meter, moments)  # of a run that was stopped, and then resumed with no steps left
    if config.average > 1 and ending.reason != "stopped":
        average_checkpoints(session, [path for path in checkpoints.steps()[: config.average] if is_whole(path)])
        save(session, meter, checkpoints)  # a resumed run must know how good the mean was
    return ending


def batches(session: Session, make: Callable[[int], Batch], last: int) -> Iterator[Batch]:
    """The batches of the coming steps, made ahead; for a GPU, in pinned memory."""
    first, device = session.state.progress.step, session.machine.device
    if device.type != "cuda" or first >= last:
        yield from prefetch(make, first, last)
        return

    def make_pinned(step: int) -> Batch:
        with torch.cuda.device(device):  # a thread starts on the first GPU, which may be another process'
            return make(step).pinned()

    with session.task.hastened(), closing(prefetch(make_pinned, first, last)) as ahead:
        yield from ahead


def choose_steps(session: Session, steps: int) -> tuple[Steps, Callable[[int], Batch]]:
    """(what computes an update, what makes the batch of a step). `steps`: how many are left."""
    task, state, machine, team = session.task, session.state, session.machine, session.team
    since = state.progress.data_since
    alone = state.progress.packed and steps > 0 and can_graph(machine, team)
    if alone and session.config.fast != "off" and (graphed := record(session)):
        return graphed, lambda step: task.packs(step - since)
    eager = EagerSteps(state, session.config, machine, loss_as_it_is(session), team, partial(note_split, session))
    if team.size > 1 and not state.sharded:
        # DistributedDataParallel exchanges gradients in another order after a process' first backward pass. Without a
        # rehearsal, a resumed run would round its sums differently from one that was never stopped.
        eager.rehearse(task.batch(0, team))
    packed = state.progress.packed and can_graph(machine, team)
    if not packed and steps > 0 and can_shape(session) and session.config.fast != "off":
        by_shapes = recorded_steps(eager, task.fused_loss(), partial(say_not_recorded, session))
        return by_shapes, lambda step: task.rounded(step - since)
    return eager, (lambda step: task.packs(step - since)) if packed else lambda step: task.batch(step - since, team)


def loss_as_it_is(session: Session) -> Loss:
    """The loss where nothing is compiled: from logits, unless these dominate memory and time.

    They do on a CPU, and for a model that writes a graph.
    """
    task, machine = session.task, session.machine
    by_states = session.team.size == 1 and (machine.device.type == "cpu" or task.has_few_shapes)
    return task.fused_loss() if by_states else task.loss


def can_shape(session: Session) -> bool:
    return can_graph(session.machine, session.team) and session.task.has_few_shapes


def say_not_recorded(session: Session, why: str) -> None:
    session.show.say(f"could not record a training step as a CUDA graph, continuing without: {why}")


def record(session: Session) -> GraphedSteps | None:
    """An update recorded as a CUDA graph; None if that is not possible here."""
    session.show.say("compiling: once, before the first step (train.fast=off skips it)")
    try:
        steps = GraphedSteps(
            session.state, session.config, session.machine, session.task.fused_loss(), session.task.packs(0)
        )
    except Exception as error:  # it can fail in many ways; without it training is only slower
        session.show.say(f"could not compile, continuing without: {first_line(error)}")
    else:
        session.state.progress.compile_seconds += steps.compile_seconds
        session.log.write("compiled", step=session.state.progress.step, seconds=round(steps.compile_seconds, 1))
        return steps
    session.state.optimizer.zero_grad(set_to_none=True)
    release_memory(session.machine.device)  # there may have been too little; eager batches can be split
    if session.state.progress.step == 0:  # a run that has not started may as well have padded batches
        session.state.progress.packed = 0
        session.task.arrange(0)
    return None


def out_of_patience(state: State, config: TrainConfig) -> bool:
    return bool(config.patience) and state.progress.waited >= config.patience


def log_readings(session: Session, meter: Meter, *, all_of_them: bool) -> None:
    for reading in meter.readings(all_of_them=all_of_them):
        session.log.write(
            "step", step=reading.step, loss=reading.loss, rate=reading.rate, gradient_norm=reading.norm,
            tokens_per_second=round(reading.speed), tokens=reading.tokens, seconds=round(reading.seconds, 3),
        )  # fmt: skip
        session.show.figures(reading.loss, reading.speed)
        watch(session, reading)


def validate(session: Session, meter: Meter, moments: Moments) -> None:
    """Score the model; the best so far becomes the run's model."""
    meter.pause()
    log_readings(session, meter, all_of_them=True)
    check_weights(session)
    session.show.doing("scoring")
    state, progress = session.state, session.state.progress
    model = state.best_model()
    validation = session.task.validate(model, team=session.team)
    before = progress.best if progress.best is not None else float("-inf")
    score = validation.score if math.isfinite(validation.score) else float("-inf")
    learning = loss_fell(progress, validation)
    assert progress.lowest_loss is not None  # there is one now
    # Of two equal scores, the later one counts, unless the loss was lower before.
    best = score > before or (score == before and not loss_of(validation) > progress.lowest_loss)
    better = best and publish(session, model.state_dict())
    progress.waited = 0 if score > before or learning else progress.waited + 1
    if better:
        progress.best, progress.best_step = max(score, LOWEST), progress.step
    log_validation(session, "validation", validation, better)
    moments.keep(model, progress.step, validation.metrics)
    session.show.validated(progress.step, meter.loss, meter.speed, validation, better)
    session.show.samples(validation)
    session.show.doing("training")


def loss_fell(progress: Progress, validation: Validation) -> bool:
    """True if the loss is the lowest so far: beginners may score nothing for long, but a falling loss is progress."""
    loss = loss_of(validation)
    better = progress.lowest_loss is None or loss < progress.lowest_loss
    if better:
        progress.lowest_loss = loss
    return better


def loss_of(validation: Validation) -> float:
    return validation.metrics.get("loss", float("inf"))


def log_validation(session: Session, event: str, validation: Validation, best: bool) -> None:
    samples = [asdict(sample) for sample in validation.samples]
    step = session.state.progress.step
    session.log.write(event, step=step, score=validation.score, best=best, **validation.metrics, samples=samples)


def save(session: Session, meter: Meter, checkpoints: Checkpoints, *, must: bool = False) -> None:
    session.show.doing("saving")
    meter.pause()
    log_readings(session, meter, all_of_them=True)  # the checkpoint must cover every step so far
    check_weights(session)
    save_checkpoint(session, checkpoints, must=must)
    session.show.doing("training")


def average_checkpoints(session: Session, folders: list[Path]) -> None:
    """The mean of the last checkpoints becomes the run's model, if it is at least as good as the best of them."""
    if not folders:  # none could be saved
        return
    progress = session.state.progress
    weights = mean_weights(read_tensors(folder, WEIGHTS) for folder in folders)
    model = session.task.build().to(session.machine.device)
    model.load_state_dict(weights)
    validation = session.task.validate(model, team=session.team)
    better = (progress.best is None or validation.score >= progress.best) and publish(session, weights)
    if better:
        progress.best, progress.best_step = validation.score, progress.step
    log_validation(session, "average", validation, better)
    session.show.say(f"mean of {len(folders)} checkpoints: score {validation.score:.2f}" + ("  best" if better else ""))
