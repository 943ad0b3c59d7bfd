"""What the inspector page is given: a header that is JSON, and planes that are bytes.

    header["planes"]["cross/2"]           {"type": "f16", "shape": [heads, queries, keys]}: the weights of a layer
    header["planes"]["cross/2/q"]         what they were made of: q, k and v of each head, and the scores before softmax
    header["planes"]["search"]            where each continuation that a search has weighed looked, see hypotheses.py
    header["planes"]["replay/cross/2"]    what heads did while the model was trained, see replay.py
    header["planes"]["flow/source"]       how each vector goes through the model, by the parts that header["flow"] names (flow.py)

Weights are 16-bit floats: those of a row still add up to 1 ± 0.001, where 8 bits could be off by 0.07. What they were made of
is 32 bits, so that products of it come out as the model's own. What would make the page larger than `most` bytes is left
out, coarse things last, and the header says what is missing.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from manyheads.inspection.api import SCHEMA, Inspection
from manyheads.inspection.flow import flow
from manyheads.inspection.hypotheses import looks_of, search_of
from manyheads.inspection.lens import read_layers
from manyheads.inspection.replay import replay_header, replay_planes
from manyheads.inspection.spelling import read_spelling
from manyheads.inspection.summaries import summaries
from manyheads.inspection.trace import KINDS, Attended
from manyheads.modelfolder import MODEL, TOKENIZER
from manyheads.nn.scores import DotProduct
from manyheads.storage import read_manifest

__all__ = ["LARGEST", "Bundle", "make_bundle"]

LARGEST = 8 << 20
"""Bytes of planes that a page may carry."""
OPTIONS = (
    "norm",
    "normaliser",
    "positions",
    "activation",
    "feedforward",
    "score",
    "qk_norm",
    "bias",
    "feedforward_bias",
    "cross",
    "tie",
)
"""What the walk through the model depends on."""
TYPES = {"float16": "f16", "float32": "f32", "uint8": "u8"}

Planes = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Bundle:
    header: dict[str, Any]
    planes: Planes


def make_bundle(inspection: Inspection, most: int = LARGEST, *, inside: bool = True) -> Bundle:
    """Without what is `inside` the weights, if nobody will look at that."""
    planes, blocks, left_out = fit(inspection, most, inside)
    searched = search_of(inspection)
    if searched is not None:
        planes["search"] = looks_of(inspection)
    walk, told = walked(inspection) if inside else ({}, None)
    if size(planes) + size(walk) <= most:
        planes |= walk
    else:
        told, left_out = None, [*left_out, "the walk through the model: the page would be too large"]
    replay, told_of_replay = inspection.replay, None
    if replay is not None and inside:
        planes |= replay_planes(replay, most // 2)
        told_of_replay = replay_header(replay, inspection.translator.vocabulary.target, most // 2)
    stored = {
        name: {"type": TYPES[plane.dtype.name], "shape": plane.shape, "block": blocks.get(name, 1)}
        for name, plane in planes.items()
    }
    reading = inspection.reading
    header = {
        "schema": SCHEMA,
        "model": describe(inspection),
        "source": asdict(inspection.source),
        "target": asdict(inspection.target),
        "translation": inspection.translation,
        "score": inspection.score,
        "log_probability": inspection.log_probability,
        "forced": inspection.forced,
        "part": inspection.part,
        "parts": inspection.parts,
        "off": inspection.off,
        "means": inspection.off_means(),
        "reading": None if reading is None else asdict(reading),
        "search": searched,
        "steps": [asdict(choice) for choice in inspection.choices],
        "spelling": read_spelling(inspection),
        "lens": read_layers(inspection),
        "heads": summaries(inspection),
        "flow": told,
        "replay": told_of_replay,
        "report": inspection.report and inspection.report.as_json(),
        "planes": stored,
        "left_out": left_out,
    }
    return Bundle(header, planes)


def describe(inspection: Inspection) -> dict[str, Any]:
    """Which model it is, and what the numbers of a head mean."""
    folder, model = inspection.translator.folder, inspection.translator.single
    config = model.config
    score = inspection.trace.cross[0].attention.score
    sums = read_manifest(folder) if folder else {}
    return {
        "name": folder.name if folder else "",
        "weights": sums[MODEL][0]["sha256"] if MODEL in sums else None,
        "vocabulary": sums[TOKENIZER][0]["sha256"] if TOKENIZER in sums else None,
        "width": config.width,
        "heads": config.heads,
        "kv_heads": config.kv_heads or config.heads,
        "layers": {"encoder": config.layers, "decoder": config.depth, "cross": config.depth},
        "options": {name: getattr(config, name) for name in OPTIONS} | {"head_width": config.head_width},
        "words": {"source": len(model.words.weight), "target": len(model.output_words)},
        "bounds": {kind: getattr(inspection.trace, kind)[0].attention.bounds for kind in KINDS},
        "scale": score.scale or config.head_width**-0.5 if isinstance(score, DotProduct) else None,
    }


def walked(inspection: Inspection) -> tuple[Planes, dict[str, Any]]:
    """The walk through the model as two planes, (parts, tokens, 1 + CELLS), and the names of their parts."""
    model = inspection.translator.single
    source, target = ([piece.id for piece in side.pieces] for side in (inspection.source, inspection.target))
    with inspection.without():
        found = flow(model, source, target[:-1])
    sides = {"source": found.source, "target": found.target}
    planes = {f"flow/{side}": np.stack(list(parts.values())) for side, parts in sides.items()}
    return planes, {side: list(parts) for side, parts in sides.items()} | {"log_sums": found.log_sums}


# ── planes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit(inspection: Inspection, most: int, with_inside: bool) -> tuple[Planes, dict[str, int], list[str]]:
    """(planes, the size of blocks where they are coarse, what was left out), as much as there is room for."""
    weights = dict(weight_planes(inspection))
    inside = dict(inside_planes(inspection)) if with_inside else {}
    if size(weights) + size(inside) <= most:
        return weights | inside, {}, []
    chosen = f"cross/{inspection.reading.layer if inspection.reading else len(inspection.trace.cross) - 1}"
    some = {name: plane for name, plane in inside.items() if name.startswith(f"{chosen}/")}
    left_out = [f"queries, keys and values of all layers but {chosen.replace('/', ' ')}: the page would be too large"]
    if size(weights) + size(some) <= most:
        return weights | some, {}, left_out
    if size(weights) <= most:
        return weights, {}, ["queries, keys and values: the page would be too large"]
    others = {name: plane for name, plane in weights.items() if name != chosen}
    room = max(most - weights[chosen].nbytes, most // 2)
    block = next(block for block in range(1, 1 << 20) if coarse_size(others, block) <= room)
    coarse = {name: blocked(plane, block) for name, plane in others.items()}
    left_out = [
        f"single weights of all layers but {chosen.replace('/', ' ')}: what is drawn is the mean of {block} × {block} of them"
    ]
    return {chosen: weights[chosen]} | coarse, dict.fromkeys(coarse, block), left_out


def size(planes: Planes) -> int:
    return sum(plane.nbytes for plane in planes.values())


def weight_planes(inspection: Inspection) -> Iterator[tuple[str, np.ndarray]]:
    for name, attended in layers(inspection):
        yield name, as_numpy(attended.weights, "float16")


def inside_planes(inspection: Inspection) -> Iterator[tuple[str, np.ndarray]]:
    for name, attended in layers(inspection):
        inside = attended.inside()
        for part in ("q", "k", "v", "scores"):
            yield f"{name}/{part}", as_numpy(getattr(inside, part), "float32")


def layers(inspection: Inspection) -> Iterator[tuple[str, Attended]]:
    for kind in KINDS:
        for number, attended in enumerate(getattr(inspection.trace, kind)):
            yield f"{kind}/{number}", attended


def as_numpy(plane: Tensor, kind: str) -> np.ndarray:
    return plane.float().cpu().numpy().astype(kind)


def coarse_size(planes: Planes, block: int) -> int:
    return sum(len(p) * ceil(p.shape[1] / block) * ceil(p.shape[2] / block) for p in planes.values())


def blocked(plane: Float[np.ndarray, "H T S"], block: int) -> np.ndarray:
    """The mean of each block of a plane, 0 to 255. Blocks at the rim have fewer weights, and are their mean."""
    rows, columns = (np.arange(0, length, block) for length in plane.shape[1:])
    sums = np.add.reduceat(np.add.reduceat(plane.astype("float32"), rows, 1), columns, 2)
    heights, widths = (np.minimum(block, n - at) for n, at in zip(plane.shape[1:], (rows, columns), strict=True))
    return np.round(sums / (heights[:, None] * widths) * 255).astype("uint8")
