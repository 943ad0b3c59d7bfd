"""The log in TensorBoard's format, in OUT/tensorboard, if the recipe asks for it. It never stops a run."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from manyheads.report.history import NO_METRIC, as_number
from manyheads.training.log import Listener, nobody

__all__ = ["TensorBoard", "tensorboard_listener"]

Say = Callable[[str], None]

CURVES = ("loss", "rate", "gradient_norm", "tokens_per_second")
SCORED = {"validation": "dev", "average": "average", "final": "final"}
"""Events with scores, and the group that TensorBoard shows them in."""

LAST = ("final", "stopped")


def tensorboard_listener(asked: bool, folder: Path, say: Say) -> Listener:
    """A listener that writes what the log gets; one that does nothing if TensorBoard is not wanted or not installed."""
    if not asked:
        return nobody
    if find_spec("tensorboard") is None:
        say(
            "train.tensorboard needs the package tensorboard, which is not installed; training continues without it"
            "\n\nhint: pip install 'manyheads[tensorboard]'"
        )
        return nobody
    return TensorBoard(folder, say).hear


class TensorBoard:
    """Writes the numbers of a log to event files, one for each start of the run.

    A run resumes from its last save. Whatever came after that is hidden, so that no step appears twice.
    """

    def __init__(self, folder: Path, say: Say) -> None:
        self.folder, self.say, self.lost = folder, say, False

    def hear(self, event: str, values: Mapping[str, Any]) -> None:
        if self.lost:
            return
        try:
            self.write(event, values)
        except Exception as error:  # whatever a library or a disk may raise
            self.lost = True
            self.say(f"{self.folder} cannot be written ({error}); training continues without it")

    def write(self, event: str, values: Mapping[str, Any]) -> None:
        if event == "start":
            from torch.utils.tensorboard import SummaryWriter  # only once it is known to be wanted and installed

            self.writer = SummaryWriter(str(self.folder), purge_step=values["step"] + 1)
        for name, value in scalars(event, values):
            self.writer.add_scalar(name, value, values["step"])
        self.writer.flush()  # a killed run keeps its curves
        if event in LAST:
            self.writer.close()  # it has a thread of its own


def scalars(event: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(group/name, number) of every value that can be drawn: finite numbers."""
    if event == "step":
        chosen = {f"train/{key}": values[key] for key in CURVES}
    elif event in SCORED:
        chosen = {f"{SCORED[event]}/{key}": value for key, value in values.items() if key not in NO_METRIC}
    else:
        return
    for name, value in chosen.items():
        if (number := as_number(value)) is not None:
            yield name, number
