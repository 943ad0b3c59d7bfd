"""Two inspections side by side: two models, two checkpoints, two sentences, or a model with and without a head.

    both = inspect("de-en", text).compare(inspect("de-en", text, off=[Head("cross", 3, 1)]))
    both.difference["cross"][3]            what layer 3's heads look at more (> 0) or less in the second:
                                           (heads, target, source)
    both.save("both.html")                 a page to look at

H heads · T queries · S keys
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from manyheads.decoding.translator import Translator
from manyheads.errors import InputError, OptionError
from manyheads.inspection.api import Subject, load_subject
from manyheads.inspection.bundle import LARGEST, Bundle, make_bundle
from manyheads.inspection.translated import Inspection
from manyheads.storage import replace_file

__all__ = ["Comparison", "open_model", "second_bundle"]


@dataclass(frozen=True, eq=False)
class Comparison:
    first: Inspection
    second: Inspection

    @cached_property
    def difference(self) -> Mapping[str, list[Float[Tensor, "H T S"]]]:
        """The weights of the second − those of the first, by kind and layer.

        Both must have the same pieces, layers and heads. (The page can do with less in common.)
        """
        for side in ("source", "target"):
            pieces = [[piece.text for piece in getattr(one, side).pieces] for one in (self.first, self.second)]
            if pieces[0] != pieces[1]:
                raise InputError(
                    f"weights can be subtracted only if both models have the same pieces, got a different {side}: "
                    f"{getattr(self.first, side).text!r} and {getattr(self.second, side).text!r}",
                    hint="use target= to make one model write what the other wrote" if side == "target" else None,
                )
        shapes = [{kind: (len(found), len(found[0])) for kind, found in one.attention.items()} for one in self.sides]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"weights can be subtracted only if both models have equally many layers and heads, "
                f"got {shapes[0]} and {shapes[1]}"
            )
        return {
            kind: [b.to(a) - a for a, b in zip(layers, self.second.attention[kind], strict=True)]
            for kind, layers in self.first.attention.items()
        }

    @property
    def sides(self) -> tuple[Inspection, Inspection]:
        return self.first, self.second

    def save(self, path: str | Path) -> Path:
        """Save a page that shows both, as .html."""
        from manyheads.inspection.saving import page_of
        from manyheads.inspection.singlefile import single_file

        path = Path(path)
        if path.suffix.lower() != ".html":
            raise OptionError(f"a comparison must be saved as .html, got {str(path)!r}")
        replace_file(path, single_file(page_of(self.first), second_bundle(self.second)))
        return path

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """What a notebook shows."""
        from manyheads.inspection.notebook import forms_of

        return forms_of(self.first, self.second)


def second_bundle(inspection: Inspection) -> Bundle:
    """The bundle of the second inspection. Only weights are compared, so what they are computed from is left out."""
    return make_bundle(inspection, LARGEST // 2, inside=False)


def open_model(place: str, device: str) -> Subject:
    """Load a run folder, a bundled model, or a checkpoint of a run such as runs/mine/checkpoints/step-100."""
    path = Path(place)
    if path.parent.name != "checkpoints" or not path.is_dir():
        return load_subject(place, device)
    from manyheads.training.soup import checkpoint_weights

    run = load_subject(path.parent.parent, device)
    model = run.single if isinstance(run, Translator) else run.model
    model.load_state_dict(checkpoint_weights(path, model))
    run.folder = path.absolute()
    return run
