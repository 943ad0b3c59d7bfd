"""`manyheads align`: which words of given pairs belong together."""

import json
import sys
from typing import Any

from manyheads.cli.options import AlignHead, Data, Device, Json, Model, SourceName, TargetName, say

__all__ = ["align", "choose_reading"]


def align(
    model: Model,
    /,
    *,
    data: Data,
    source: SourceName = None,
    target: TargetName = None,
    align_head: AlignHead = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Link the words of given pairs by a model's attention: one line a pair, as Moses writes it, 0-0 1-2 2-1.

    ```
    manyheads align de-en --data pairs.tsv
    manyheads align runs/de-en --data pairs.de pairs.en --align-head 2.3
    ```

    A link is source word - target word, both counted from 0; words are what stands between spaces. Where a model's pieces
    are characters, a link names the character.

    Parameters
    ----------
    as_json
        One JSON object a line: alignment, align_head.
    """
    from manyheads.decoding.api import align as align_pairs
    from manyheads.decoding.translator import Translator

    translator = Translator.load(model, device, "fp32").naming(source, target)
    head = str(choose_reading(model, translator, align_head))
    cut = 0
    for one in align_pairs(translator, data, head=head):
        cut += one.truncated
        print(json.dumps({"alignment": one.links, "align_head": head}) if as_json else one)  # noqa: T201
    say(cut, "longer than is aligned: what is beyond has no links")


def choose_reading(folder: str, translator: Any, head: str | None) -> Any:
    """The attention to read. That an older run does not name it, and where it was found instead, is said."""
    from manyheads.decoding.find_reading import reading_of

    reading = reading_of(folder, translator, head)
    if not head and not translator.recipe.decode.alignment:
        print(  # noqa: T201
            f"alignments are read from {reading}, found on the run's development set; --align-head {reading} spares the search",
            file=sys.stderr,
        )
    return reading
