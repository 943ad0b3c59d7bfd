"""The inspector as a widget: what the served page asks its server, this asks the kernel.

Beside a notebook's text it is an anywidget: the same module and the same messages as everywhere else.
"""

from typing import Any

import anywidget
import traitlets

from manyheads.errors import ManyheadsError
from manyheads.inspection.api import Inspection
from manyheads.inspection.live import Live
from manyheads.inspection.singlefile import script, style
from manyheads.inspection.switches import Head

__all__ = ["Inspector"]


class Inspector(anywidget.AnyWidget):
    """What is shown, and who answers when the page asks for something else."""

    _esm = script()
    _css = style()
    header = traitlets.Dict().tag(sync=True)
    planes = traitlets.Dict().tag(sync=True)

    def __init__(self, inspection: Inspection) -> None:
        super().__init__()
        self.live = Live(inspection.translator)
        self.show(self.live.add(inspection, inspection.source.text))
        self.on_msg(self.hear)

    def show(self, header: dict[str, Any]) -> None:
        """Planes first: who hears of a new header looks for them."""
        number = header["number"]
        self.planes = {name: self.live.plane(number, name) for name in header["planes"]}
        self.header = header

    def hear(self, _: Any, message: dict[str, Any], buffers: list[bytes]) -> None:
        try:
            self.answer(**message)
        except ManyheadsError as error:
            self.send({"type": "refused", "error": error.message, "hint": error.hint})

    def answer(self, type: str, **question: Any) -> None:  # noqa: A002
        """The questions of the page; a plane is never asked for, as all of them are here."""
        match type:
            case "inspect":
                off = [Head(**head) for head in question.pop("off", [])]
                self.show(self.live.inspect(off=off, **question))
            case "importance":
                number = question["number"]
                self.send({"type": "importance", "number": number, "heads": self.live.importance(number)})
            case "attribution":
                number, method = question["number"], question["method"]
                found = self.live.attribution(number, method)
                self.send({"type": "attribution", "number": number, "found": found})
