"""The inspector as a notebook widget: it asks the kernel what the served page asks its server.

It is an anywidget, with the same module and the same messages as everywhere else.
"""

from typing import Any

import anywidget
import traitlets

from manyheads.errors import ManyheadsError
from manyheads.inspection.atonce import WrittenAtOnce
from manyheads.inspection.bundle import Bundle
from manyheads.inspection.comparison import second_bundle
from manyheads.inspection.live import Live, tells_of
from manyheads.inspection.singlefile import script, style
from manyheads.inspection.switches import Head
from manyheads.inspection.translated import Inspection

__all__ = ["Inspector"]


class Inspector(anywidget.AnyWidget):
    """Holds what is shown, and answers when the page asks for something else."""

    _esm = script()
    _css = style()
    header = traitlets.Dict().tag(sync=True)
    planes = traitlets.Dict().tag(sync=True)
    other = traitlets.Dict(allow_none=True).tag(sync=True)

    tells = traitlets.Unicode().tag(sync=True)

    def __init__(self, inspection: Inspection | WrittenAtOnce, second: Inspection | None = None) -> None:
        other = None if second is None else as_bytes(second_bundle(second))
        super().__init__(other=other, tells=" ".join(tells_of(inspection.translator)))
        self.live = Live(inspection.translator, inspection.report if isinstance(inspection, Inspection) else None)
        self.show(self.live.add(inspection, inspection.source.text))
        self.on_msg(self.hear)

    def show(self, header: dict[str, Any]) -> None:
        """Set the planes first: the page looks for them as soon as it gets a new header."""
        number = header["number"]
        self.planes = {name: self.live.plane(number, name) for name in header["planes"]}
        self.header = header

    def hear(self, _: Any, message: dict[str, Any], buffers: list[bytes]) -> None:
        try:
            self.answer(**message)
        except ManyheadsError as error:
            plane = {"plane": message["name"], "number": message["number"]} if message["type"] == "plane" else {}
            self.send({"type": "refused", "error": error.message, "hint": error.hint, **plane})

    def answer(self, type: str, **question: Any) -> None:  # noqa: A002
        """Answer the page. It already has the planes of what it shows, and asks for those of an earlier answer."""
        match type:
            case "inspect":
                off = [Head(**head) for head in question.pop("off", [])]
                self.show(self.live.inspect(off=off, **question))
            case "plane":
                number, name = question["number"], question["name"]
                self.send({"type": "plane", "number": number, "name": name}, [self.live.plane(number, name)])
            case "importance":
                self.send({"type": "importance", "heads": self.live.importance(**question), **question})
            case "attribution":
                number, method = question["number"], question["method"]
                found = self.live.attribution(number, method)
                self.send({"type": "attribution", "number": number, "found": found})


def as_bytes(bundle: Bundle) -> dict[str, Any]:
    return {"header": bundle.header, "planes": {name: plane.tobytes() for name, plane in bundle.planes.items()}}
