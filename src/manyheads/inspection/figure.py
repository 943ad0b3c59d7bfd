"""What all pictures share: colours, fonts, and a figure that becomes SVG or PNG.

In SVG the words are text, not outlines.
"""

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from manyheads.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "PAPER", "SOFT", "Picture", "drawn", "frame"]

PAPER, INK, SOFT = "#fdfcfa", "#23211e", "#6f6a62"
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari", "Arial Unicode MS"]
"""Each letter comes from the first installed font that has it; DejaVu comes with matplotlib."""


class Picture(NamedTuple):
    """The bytes of a picture. `missing` counts letters that no installed font has: in a PNG they are boxes."""

    content: bytes
    missing: int


def drawn(form: str, draw: "Callable[[Figure], None]") -> Picture:
    """Render what `draw` puts on a figure, as "svg" or "png"."""
    mpl = load_matplotlib()
    style = {"svg.fonttype": "none", "svg.hashsalt": "manyheads", "font.family": fonts(), "text.parse_math": False}
    with mpl.rc_context(style), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        figure = mpl.figure.Figure(layout="constrained", facecolor=PAPER)
        draw(figure)
        content = io.BytesIO()
        stamps = {"Date": None} if form == "svg" else {}
        figure.savefig(content, format=form, dpi=200, facecolor=PAPER, metadata=stamps)
    missing = {str(one.message) for one in said if "missing from" in str(one.message)}
    return Picture(content.getvalue(), len(missing) if form == "png" else 0)


def load_matplotlib() -> Any:
    """matplotlib, whose figures are used directly: nothing global is touched, and no window is opened."""
    try:
        import matplotlib as mpl
        import matplotlib.figure
        import matplotlib.font_manager
    except ImportError:
        raise OptionError(
            "pictures need matplotlib, which is not installed", hint="pip install 'manyheads[inspect]'"
        ) from None
    return mpl


def fonts() -> list[str]:
    installed = set(load_matplotlib().font_manager.get_font_names())
    return [name for name in FONTS if name in installed]


def frame(axes: "Axes", title: str) -> None:
    axes.set_title(title, fontsize=9, color=SOFT)
    axes.tick_params(length=0, labelsize=9, colors=INK, top=True, labeltop=True, bottom=False, labelbottom=False)
    for spine in axes.spines.values():
        spine.set(color="#e4dfd6")
