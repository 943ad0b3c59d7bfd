"""All tokens of a translation at once: what takes the place of a search when a model writes in parallel.

    mask    places for each of the likeliest lengths are filled in again and again; the surest is taken (`in_masks`)
    end     enough places for any translation are filled in again and again, and cut at the first end (`up_to_the_end`)
    graph   the likeliest path through a graph (`through_a_graph`)
    judged  several candidates of the first or the last, among which another model chooses (`judging`)

Each way is a computation on the device, which may be recorded (`desks`): given the number of places, it reads nothing
back to the host. The host reads the result.

B sentences · S source tokens
"""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from manyheads.decoding.desks import applies, write_at_desk
from manyheads.decoding.hypothesis import Hypothesis
from manyheads.decoding.in_masks import InMasks
from manyheads.decoding.judging import Judged, WriterAndJudge, narrowed
from manyheads.decoding.seen import Seen, unseen
from manyheads.decoding.through_a_graph import ThroughAGraph
from manyheads.decoding.up_to_the_end import UpToTheEnd
from manyheads.decoding.way import AtOnce, Way, copied, shape_of
from manyheads.models.parallel import ParallelTransformer

__all__ = ["WAYS", "way_of", "write_at_once"]

WAYS: dict[str, type[Way]] = {"mask": InMasks, "end": UpToTheEnd, "graph": ThroughAGraph}


def way_of(model: ParallelTransformer | WriterAndJudge, how: AtOnce, longest: int) -> Way:
    if isinstance(model, WriterAndJudge):
        return Judged(how, longest, WAYS[shape_of(model.writer).writes], model.alpha)
    return WAYS[shape_of(model).writes](how, longest)


@torch.no_grad()
def write_at_once(
    model: ParallelTransformer | WriterAndJudge,
    source: Int[Tensor, "B S"],
    how: AtOnce,
    longest: int,
    seen: Seen = unseen,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every source, the best first, computed in the model's own precision.

    `seen` is shown what happens on the way.
    """
    way = way_of(model, how, longest)
    with torch.autocast(source.device.type, enabled=False):
        if seen is not unseen:
            return way.read(way.compute(model, source, seen=seen))
        if (found := write_at_desk(model, source, way, way.read)) is not None:
            return found
        return way.read(compute_without_desk(model, source, way))


def compute_without_desk(model: ParallelTransformer | WriterAndJudge, source: Int[Tensor, "B S"], way: Way) -> Any:
    """Compute what has no desk of its own.

    If there is a judge, the writer may still have a desk, unless it would be refused for the same reason. There are two
    cases: a graph takes fewer places without its candidates; and judges that read other pieces than the first of them
    cannot be recorded, but the writer can.
    """
    if isinstance(way, Judged) and (way.inner.rows < way.rows or not applies(model, source)):
        assert isinstance(model, WriterAndJudge)
        written = write_at_desk(model.writer, source, way.inner, copied)
        if written is not None:
            return way.judge(model, source, narrowed(written))
    return way.compute(model, source)
