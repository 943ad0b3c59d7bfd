"""Saves what a run keeps while it trains: its best model and its checkpoints.

A failed save ends the run, unless it is lenient (`--on-save-error warn`): then each failure is reported and counted.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from manyheads.errors import SaveError
from manyheads.modelfolder import MODEL, dump_weights
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.session import Session

__all__ = ["check_kept", "publish", "save_checkpoint"]


def publish(session: Session, weights: Mapping[str, Tensor]) -> bool:
    """Save the model that the run would yield if it ended here. Returns whether that worked."""
    return kept(session, lambda: session.run.publish({MODEL: dump_weights(weights)}))


def save_checkpoint(session: Session, checkpoints: Checkpoints, *, must: bool) -> None:
    """Save a checkpoint. All processes gather sharded weights, and the first one writes.

    `must`: a failure ends even a lenient run.
    """
    state = session.state
    contents = state.contents() if session.team.first or state.sharded else {}
    if kept(session, lambda: checkpoints.save(state.progress.step, contents), must=must):
        session.log.write("save", step=state.progress.step)


def kept(session: Session, save: Callable[[], None], *, must: bool = False) -> bool:
    """Save in the first process. Returns whether that worked; all processes count a failure alike."""
    if must or not session.lenient:
        session.team.together(save)
        return True
    refused = session.team.together(partial(refusal, save))
    if refused is None:
        return True
    progress = session.state.progress
    progress.unsaved += 1
    session.log.write("unsaved", step=progress.step, reason=refused)
    session.show.say(f"step {progress.step:,}: {refused}; training continues")
    return False


def refusal(save: Callable[[], None]) -> str | None:
    """Save, and return why that failed, if it did."""
    try:
        save()
    except SaveError as error:
        return error.message
    return None


def check_kept(session: Session) -> None:
    """Refuse to finish without a model: a lenient run may have reached its end without saving any."""
    if not session.run.has_model():
        raise SaveError(
            f"a run must save its model at least once, got none in {session.run.root} in {session.state.progress.step:,} steps",
            hint="make room, then continue with --resume",
        )
