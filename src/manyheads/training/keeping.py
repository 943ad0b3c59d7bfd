"""What a run keeps while it goes on: its best model and its checkpoints. A save that fails ends the run, unless it was told to go on
without: then that is said each time, and counted."""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from manyheads.errors import SaveError
from manyheads.modelfolder import MODEL, dump_weights
from manyheads.training.checkpoints import Checkpoints
from manyheads.training.session import Session

__all__ = ["check_kept", "publish", "save_checkpoint"]


def publish(session: Session, weights: Mapping[str, Tensor]) -> bool:
    """What the run would give if it ended here. Is it kept?"""
    return kept(session, lambda: session.run.publish({MODEL: dump_weights(weights)}))


def save_checkpoint(session: Session, checkpoints: Checkpoints, *, must: bool) -> None:
    """Weights that are shared out come together in all processes; the first one writes. `must`: the run ends with it."""
    state = session.state
    contents = state.contents() if session.team.first or state.sharded else {}
    if kept(session, lambda: checkpoints.save(state.progress.step, contents), must=must):
        session.log.write("save", step=state.progress.step)


def kept(session: Session, save: Callable[[], None], *, must: bool = False) -> bool:
    """Did the first process save it? All processes count alike if it did not."""
    if must or not session.lenient:
        session.team.together(save)
        return True
    refused = session.team.together(partial(refusal, save))
    if refused is None:
        return True
    progress = session.state.progress
    progress.unsaved += 1
    session.log.write("unsaved", step=progress.step, reason=refused)
    session.show.say(f"step {progress.step:,}: {refused}; training goes on")
    return False


def refusal(save: Callable[[], None]) -> str | None:
    """Why something could not be saved, if it could not."""
    try:
        save()
    except SaveError as error:
        return error.message
    return None


def check_kept(session: Session) -> None:
    """A run that went on without its saves may have come to its end without any model."""
    if not session.run.has_model():
        raise SaveError(
            f"a run must have room for its model at last, got none in {session.run.root} in {session.state.progress.step:,} steps",
            hint="make room and go on with --resume",
        )
