"""`manyheads align`: word alignments of given sentence pairs."""

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
    """Align the words of sentence pairs by a model's attention.

    ```
    manyheads align de-en --data pairs.tsv
    manyheads align runs/de-en --data pairs.de pairs.en --align-head 2.3
    ```

    Each pair gives one line of links in the format of Moses: 0-0 1-2 2-1. A link is source word - target word, both
    counted from 0; words are separated by spaces. If the model's pieces are characters, links count characters.

    Parameters
    ----------
    as_json
        Print one JSON object per line: alignment, align_head.
    """
    from manyheads.decoding.api import align as align_pairs
    from manyheads.decoding.translator import Translator

    translator = Translator.load(model, device, "fp32").naming(source, target)
    head = str(choose_reading(model, translator, align_head))
    cut = 0
    for one in align_pairs(translator, data, head=head):
        cut += one.truncated
        print(json.dumps({"alignment": one.links, "align_head": head}) if as_json else one)  # noqa: T201
    say(cut, "too long to align in full: words beyond the limit have no links")


def choose_reading(folder: str, translator: Any, head: str | None) -> Any:
    """The attention to read alignments from. If an older run does not name one, it is found, with a note on stderr."""
    from manyheads.decoding.find_reading import reading_of

    reading = reading_of(folder, translator, head)
    if not head and not translator.recipe.decode.alignment:
        print(  # noqa: T201
            f"alignments are read from {reading}, found on the run's development set; --align-head {reading} skips the search",
            file=sys.stderr,
        )
    return reading
