"""A training replayed: what the page gets of the moments that a run has kept.

    header["replay"]                    steps, scores and curves; at each step, how likely the reference was and
                                        which pieces were likeliest
    header["planes"]["replay/cross/2"]  the weights of a layer at every step: (moments, heads, queries, keys)
    header["planes"]["replay/numbers/cross"]   the measures of every head: (moments, layers, measures, heads)

The measures are those of summaries.py and `formed`, the share of a head's attention that is already where it will be
at the end.

N moments · H heads · T queries · S keys
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from manyheads.errors import InputError
from manyheads.inspection.moments import Moment, Pair, read_moments, steps_in, thinned
from manyheads.inspection.sides import NAMES, name_pieces
from manyheads.inspection.summaries import summarise
from manyheads.inspection.trace import KINDS
from manyheads.models.config import TransformerConfig
from manyheads.report.charts import Curve, thin
from manyheads.report.history import History, read_history
from manyheads.text.tokenizer import BEGIN, END, Tokenizer
from manyheads.text.vocabulary import Vocabulary

__all__ = ["Replay", "read_replay", "replay_header", "replay_planes"]

MOST = 200
"""Moments read at most: a run keeps fewer, but a folder may come from anywhere."""
MOST_POINTS = 240
"""Points per curve."""


@dataclass(frozen=True, eq=False)
class Replay:
    """The moments of a run and its log. `lost` counts the moments that were damaged or of another pair."""

    moments: list[Moment]
    history: History
    lost: int = 0

    @property
    def pair(self) -> Pair:
        return self.moments[-1].pair


def read_replay(folder: Path | None, vocabulary: Vocabulary, config: TransformerConfig) -> Replay:
    """The moments that a run kept of its training. They must fit this model: its layers, heads and vocabulary."""
    root = folder.parent.parent if folder and folder.parent.name == "checkpoints" else folder
    steps = steps_in(root / "replay") if root else []
    if root is None or not steps:
        raise InputError(
            f"a replay needs moments kept during training, got none in {root / 'replay' if root else 'this model'}",
            hint="train.replay=true, the default, keeps one at each validation",
        )
    moments, lost = read_moments(root / "replay", thinned(steps, MOST))
    if not moments or not fits(moments[-1], vocabulary, config):
        raise InputError(
            f"a replay must come from the model it is shown with, got another model's or damaged moments in {root / 'replay'}"
        )
    return Replay(moments, read_history(root / "log.jsonl"), lost)


def fits(moment: Moment, vocabulary: Vocabulary, config: TransformerConfig) -> bool:
    layers = {"encoder": config.layers, "decoder": config.depth, "cross": config.depth}
    shaped = all(moment.shape[kind][:2] == (count, config.heads) for kind, count in layers.items())
    (*read, end), (begin, *written, last) = moment.pair
    pieces = ((read, vocabulary.source.size), (written, vocabulary.target.size))
    plain = all(END < one < size for ids, size in pieces for one in ids)
    known = bool(((moment.best >= 0) & (moment.best < vocabulary.target.size)).all())
    return shaped and plain and known and (begin, end, last) == (BEGIN, END, END)


# ── what the page gets ──────────────────────────────────────────────────────────────────────────────────────────────


def chosen(replay: Replay, room: int) -> list[Moment]:
    """As many moments as fit into `room` bytes, but at least the first and the last."""
    size = sum(layer.nbytes for layers in replay.moments[-1].weights.values() for layer in layers)
    by_step = {moment.step: moment for moment in replay.moments}
    return [by_step[step] for step in thinned(list(by_step), max(2, room // size))]


def replay_header(replay: Replay, tokenizer: Tokenizer, room: int) -> dict[str, Any]:
    moments, history = chosen(replay, room), replay.history
    return {
        "steps": [moment.step for moment in moments],
        "metrics": [dict(moment.metrics) for moment in moments],
        "log_probability": [moment.log_probability.tolist() for moment in moments],
        "best": [likeliest(moment, tokenizer) for moment in moments],
        "measures": {kind: list(measured(moments[-1:], kind)[0][0]) for kind in KINDS},
        "curves": {"loss": drawn(history.losses()), "score": drawn(history.scores())},
        "chosen": history.best_step(),
        "left_out": len(replay.moments) - len(moments),
        "lost": replay.lost,
    }


def likeliest(moment: Moment, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    ids = moment.best.tolist()
    return [
        {"text": text, "id": i, "log_probability": value}
        for text, i, value in zip(name_pieces(tokenizer, ids), ids, moment.best_log_probability.tolist(), strict=True)
    ]


def drawn(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    return [{"name": curve.name, "points": thin(curve.points, MOST_POINTS)} for curve in curves if curve.points]


def replay_planes(replay: Replay, room: int) -> dict[str, np.ndarray]:
    moments = chosen(replay, room)
    planes = {
        f"replay/{kind}/{n}": np.stack([moment.weights[kind][n] for moment in moments])
        for kind in KINDS
        for n in range(len(moments[-1].weights[kind]))
    }
    for kind in KINDS:
        numbers = [[list(layer.values()) for layer in layers] for layers in measured(moments, kind)]
        planes[f"replay/numbers/{kind}"] = np.array(numbers, "float32")
    return planes


def measured(moments: Sequence[Moment], kind: str) -> list[list[dict[str, Float[np.ndarray, " H"]]]]:
    """For each moment and layer, the measures of all heads, by name."""
    last = moments[-1]
    keys = last.pair.target[:-1] if kind == "decoder" else last.pair.source
    ends = np.array([key in NAMES for key in keys])

    def numbers(now: Float[np.ndarray, "H T S"], then: Float[np.ndarray, "H T S"]) -> dict[str, Any]:
        now, then = now.astype("float64"), then.astype("float64")
        return {"formed": (np.minimum(now, then).sum(2) / then.sum(2)).mean(1)} | summarise(now, ends, kind)

    return [[numbers(*pair) for pair in zip(one.weights[kind], last.weights[kind], strict=True)] for one in moments]
