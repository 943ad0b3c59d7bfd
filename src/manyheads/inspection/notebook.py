"""The inspector in a notebook: a widget that can ask the model if anywidget is installed, else the page in a frame.

Only translators get the widget; for other models, the page is shown.

The viewer chooses the form: all that exist are offered, down to plain text.
"""

import html
from contextlib import suppress
from typing import Any

from manyheads.errors import OptionError
from manyheads.inspection.atonce import WrittenAtOnce
from manyheads.inspection.bundle import make_bundle
from manyheads.inspection.comparison import second_bundle
from manyheads.inspection.inspected import Inspected
from manyheads.inspection.singlefile import single_file
from manyheads.inspection.translated import Inspection

__all__ = ["forms_of", "framed", "widget"]

FRAME = (
    '<iframe sandbox="allow-scripts allow-downloads" referrerpolicy="no-referrer" width="100%" height="820" frameborder="0" '
    'srcdoc="{page}"></iframe>'
)


def forms_of(inspection: Inspected, second: Inspection | None = None) -> dict[str, Any]:
    """The forms by media type. `second` is what the inspection is compared with."""
    shown = [one for one in (inspection, second) if one is not None]
    plain = "\n".join(text for one in shown for text in one.texts)
    forms = {"text/plain": plain, "text/html": framed(inspection, second)}
    if isinstance(inspection, Inspection | WrittenAtOnce):
        with suppress(OptionError):  # without anywidget the frame is shown
            forms |= widget(inspection, second)._repr_mimebundle_()[0]
    return forms | {"text/plain": plain}


def framed(inspection: Inspected, second: Inspection | None = None) -> str:
    """The page in a frame that has no origin of its own: it can neither see nor touch what is around it.

    It is plain ASCII: a host that assumed another encoding would change the script, and its hash would no longer match.
    """
    other = None if second is None else second_bundle(second)
    page = html.escape(single_file(make_bundle(inspection), other).decode())
    return FRAME.format(page=page.encode("ascii", "xmlcharrefreplace").decode())


def widget(inspection: Inspection | WrittenAtOnce, second: Inspection | None = None) -> Any:
    """A live inspector: it can translate other texts, and go without heads.

    It can also continue from any word or, if the model writes all at once, use other iterations and lengths.
    """
    try:
        from manyheads.inspection.widget import Inspector
    except ImportError:
        raise OptionError(
            "widgets need anywidget, which is not installed", hint="pip install 'manyheads[inspect]'"
        ) from None
    return Inspector(inspection, second)
