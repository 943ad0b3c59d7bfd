"""Moments of a training: what every head did with one pair at a step, in one small file each.

    replay/step-500.safetensors        weights as 16-bit floats, by kind and layer; how likely each piece of the
                                       reference was, and which piece was likeliest in its place; and, as JSON, the
                                       pair, the step and the scores

The pair is always the same and the model is made to write its reference, so a row means the same at every step.

H heads · T target pieces · S source pieces
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from manyheads.errors import InputError
from manyheads.inspection.trace import KINDS, trace
from manyheads.models.transformer import Transformer
from manyheads.storage import plain_size

__all__ = [
    "Moment",
    "Pair",
    "dump_moment",
    "load_moment",
    "name_of_moment",
    "read_moments",
    "see",
    "steps_in",
    "thinned",
]

SCHEMA = "moment/1"
LARGEST = 64 << 20
"""Larger files, in bytes, are not read."""
NAME = re.compile(r"step-(\d{1,15})\.safetensors")
LAYER = re.compile(rf"({'|'.join(KINDS)})/(\d{{1,4}})")


class Pair(NamedTuple):
    """Ids: the source with its end, the target with its begin and its end."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Moment:
    """What the heads did with the pair at one step.

    weights           of each kind, layer by layer
    log_probability   of each piece of the reference, given those before it
    best              the likeliest piece in its place; best_log_probability: how likely that was
    metrics           scores on held-out data at that step, as far as they are known
    """

    step: int
    pair: Pair
    weights: Mapping[str, list[Float[np.ndarray, "H T S"]]]
    log_probability: Float[np.ndarray, " T"]
    best: Int[np.ndarray, " T"]
    best_log_probability: Float[np.ndarray, " T"]
    metrics: Mapping[str, float]

    @property
    def shape(self) -> dict[str, tuple[int, ...]]:
        """Layers, heads, queries and keys of each kind: the same for all moments of one training."""
        return {kind: (len(layers), *layers[0].shape) for kind, layers in self.weights.items()}


def see(model: Transformer, pair: Pair, step: int, metrics: Mapping[str, float]) -> Moment | None:
    """The moment of one pass over the pair. None if the model's numbers are not finite: there is nothing to look at."""
    found = trace(model, pair.source, pair.target[:-1])
    if not found.logits.isfinite().all():
        return None
    logs = found.logits.double().log_softmax(-1).cpu().numpy()
    rows, best = np.arange(len(logs)), logs.argmax(-1)
    layers = {
        kind: [one.float().cpu().numpy().astype("float16") for one in some] for kind, some in found.weights().items()
    }
    return Moment(step, pair, layers, logs[rows, pair.target[1:]], best, logs[rows, best], dict(metrics))


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def name_of_moment(step: int) -> str:
    return f"step-{step}.safetensors"


def steps_in(folder: Path) -> list[int]:
    """The steps of which a folder has a moment, in order."""
    if not folder.is_dir():
        return []
    return sorted(int(found[1]) for path in folder.iterdir() if (found := NAME.fullmatch(path.name)))


def dump_moment(moment: Moment) -> bytes:
    arrays = {f"{kind}/{n}": layer for kind, layers in moment.weights.items() for n, layer in enumerate(layers)}
    arrays |= {
        "log_probability": moment.log_probability.astype("float32"),
        "best": moment.best.astype("int32"),
        "best_log_probability": moment.best_log_probability.astype("float32"),
    }
    told = {"schema": SCHEMA, "step": moment.step, **moment.pair._asdict(), "metrics": dict(moment.metrics)}
    return save_arrays(arrays, {"moment": json.dumps(told)})


def load_moment(content: bytes, where: str) -> Moment:
    """Read a moment. It may come from anywhere: whatever does not fit together is refused."""
    try:
        told, arrays = told_in(content), load_arrays(content)
        moment = Moment(
            step=whole(told["step"]),
            pair=Pair(*(tuple(map(whole, told[side])) for side in Pair._fields)),
            weights={kind: layers_of(kind, arrays) for kind in KINDS},
            log_probability=finite(arrays["log_probability"]),
            best=arrays["best"],
            best_log_probability=finite(arrays["best_log_probability"]),
            metrics={str(name): float(value) for name, value in told["metrics"].items()},
        )
        check_shapes(moment)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(f"{where} is not a recorded moment of training: {error}") from None
    return moment


def told_in(content: bytes) -> dict[str, Any]:
    """The JSON in the file's header, which is itself a JSON object preceded by its length."""
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    told = json.loads(head["__metadata__"]["moment"])
    if told["schema"] != SCHEMA:
        raise ValueError(f"its schema is {told['schema']!r}, this version reads {SCHEMA}")
    return told


def layers_of(kind: str, arrays: Mapping[str, np.ndarray]) -> list[Float[np.ndarray, "H T S"]]:
    found = {int(at[2]): finite(arrays[name]) for name in arrays if (at := LAYER.fullmatch(name)) and at[1] == kind}
    return [found[n] for n in range(len(found))]


def check_shapes(moment: Moment) -> None:
    read, written = len(moment.pair.source), len(moment.pair.target) - 1
    sizes = {"encoder": (read, read), "decoder": (written, written), "cross": (written, read)}
    for kind, layers in moment.weights.items():
        if not layers or any(layer.shape != (len(layers[0]), *sizes[kind]) for layer in layers):
            raise ValueError(f"the weights of its {kind} attention do not fit its pair")
    if any(one.shape != (written,) for one in (moment.log_probability, moment.best, moment.best_log_probability)):
        raise ValueError("it must have one probability per piece")


def whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    return value


def finite(array: np.ndarray) -> np.ndarray:
    if not np.isfinite(array).all():
        raise ValueError("it has numbers that are not finite")
    return array


def read_moments(folder: Path, steps: Sequence[int]) -> tuple[list[Moment], int]:
    """The moments of these steps that belong together, and how many do not.

    Those left out are damaged or of another pair than the last, since a run may have resumed with other data.
    """
    found: list[Moment] = []
    for step in sorted(steps):
        path = folder / name_of_moment(step)
        try:
            if plain_size(path) > LARGEST:
                continue
            found.append(load_moment(path.read_bytes(), str(path)))
        except (OSError, InputError):
            continue
    alike = [one for one in found if (one.pair, one.shape) == (found[-1].pair, found[-1].shape)]
    return alike, len(steps) - len(alike)


def thinned(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, the first and the last among them.

    The step whose neighbours are nearest to each other, by their square roots, is removed until few enough are left.
    So the steps stay evenly spread, and denser at the start, where heads form.
    """
    kept = sorted(steps)
    while len(kept) > max(2, most):
        apart = [sqrt(kept[n + 1]) - sqrt(kept[n - 1]) for n in range(1, len(kept) - 1)]
        del kept[1 + apart.index(min(apart))]
    return kept
