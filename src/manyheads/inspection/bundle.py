"""What the inspector page is given: a header that is JSON, and planes that are bytes.

    header["planes"]["cross/2"]           {"type": "f16", "shape": [heads, queries, keys]}: the weights of a layer
    header["planes"]["cross/2/q"]         what they were made of: q, k and v of each head, and the scores before softmax
    header["planes"]["search"]            where each continuation that a search has weighed looked, see hypotheses.py
    header["planes"]["replay/cross/2"]    what heads did while the model was trained, see replay.py
    header["planes"]["flow/source"]       how each vector goes through the model, by the parts that header["flow"] names (flow.py)

What a model has not got is left out of the header: an encoder alone has a "source" and no "target" (and neither steps nor a lens: it writes
nothing), a language model a "target" and no "source", of which the first header["given"] pieces were given to it; and of layers, heads, bounds and
planes each has those of its own kind of attention. The JSON of `as_json` follows the same rule:

    schema, source, target, translation, score, log_probability, forced, steps, attention{encoder, decoder, cross}      an encoder-decoder
    schema, source, attention{encoder}                                                                                  an encoder alone
    schema, target, continuation, given, score, log_probability, forced, steps, attention{decoder}                      a language model
    schema, source, target, translation, score, log_probability, forced, steps, writes, part, parts, read, iteration, tries or graph,
        attention{encoder, decoder, cross}                                                                              a model that writes all at once

Of a model that writes all at once, row t of the decoder reads place t of "read", where masked places are masks, and writes place t of "target": there is
no begin. "tries" has the lengths that were tried, each with all of its iterations; "iteration" says whose pass the attention is, counted from 1. A model that reads a
"graph" has that instead: its target's pieces are the vertices.

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

from manyheads.inspection.flow import flow
from manyheads.inspection.hypotheses import looks_of, search_of
from manyheads.inspection.inspected import SCHEMA, Inspected, Written
from manyheads.inspection.lens import read_layers
from manyheads.inspection.replay import replay_header, replay_planes
from manyheads.inspection.spelling import read_spelling
from manyheads.inspection.summaries import summaries
from manyheads.inspection.trace import Attended
from manyheads.inspection.translated import Inspection
from manyheads.modelfolder import MODEL, TOKENIZER
from manyheads.models.encoder import TextEncoder
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


def make_bundle(inspection: Inspected, most: int = LARGEST, *, inside: bool = True) -> Bundle:
    """Without what is `inside` the weights, if nobody will look at that."""
    planes, blocks, left_out = fit(inspection, most, inside)
    if isinstance(inspection, Inspection) and inspection.beam:
        planes["search"] = looks_of(inspection)
    walk, told = walked(inspection) if inside else ({}, None)
    if size(planes) + size(walk) <= most:
        planes |= walk
    else:
        told, left_out = None, [*left_out, "the walk through the model: the page would be too large"]
    more, replayed = of_translation(inspection, most, inside) if isinstance(inspection, Inspection) else ({}, {})
    planes |= replayed
    stored = {
        name: {"type": TYPES[plane.dtype.name], "shape": plane.shape, "block": blocks.get(name, 1)}
        for name, plane in planes.items()
    }
    header = {
        "schema": SCHEMA,
        "model": describe(inspection),
        **{name: asdict(side) for name, side in inspection.sides.items()},
        **inspection.told(),
        **more,
        "off": inspection.off,
        "means": inspection.off_means(),
        "spelling": read_spelling(inspection),
        **({"lens": read_layers(inspection)} if isinstance(inspection, Written) else {}),
        "heads": summaries(inspection),
        "flow": told,
        "planes": stored,
        "left_out": left_out,
    }
    return Bundle(header, planes)


def of_translation(inspection: Inspection, most: int, inside: bool) -> tuple[dict[str, Any], Planes]:
    """What only an encoder-decoder has: parts, a search, a report, and a training that was watched, with its planes."""
    reading, replay = inspection.reading, inspection.replay if inside else None
    told = {
        "part": inspection.part,
        "parts": inspection.parts,
        "reading": None if reading is None else asdict(reading),
        "search": search_of(inspection),
        "replay": replay and replay_header(replay, inspection.tokenizers["target"], most // 2),
        "report": inspection.report and inspection.report.as_json(),
    }
    return told, {} if replay is None else replay_planes(replay, most // 2)


def describe(inspection: Inspected) -> dict[str, Any]:
    """Which model it is, and what the numbers of a head mean."""
    folder, model, layers = inspection.folder, inspection.model, inspection.trace.layers
    config = model.config
    *_, last = layers.values()
    score = last[0].attention.score
    sums = read_manifest(folder) if folder else {}
    words = {"source": len(model.words.weight)}
    if not isinstance(model, TextEncoder):
        words["target"] = len(model.output_words)
    return {
        "name": folder.name if folder else "",
        "weights": sums[MODEL][0]["sha256"] if MODEL in sums else None,
        "vocabulary": sums[TOKENIZER][0]["sha256"] if TOKENIZER in sums else None,
        "width": config.width,
        "heads": config.heads,
        "kv_heads": config.kv_heads or config.heads,
        "layers": {kind: len(found) for kind, found in layers.items()},
        "options": {name: getattr(config, name) for name in OPTIONS if hasattr(config, name)}
        | {"head_width": config.head_width},
        "words": {side: words[side] for side in inspection.sides},
        "bounds": {kind: found[0].attention.bounds for kind, found in layers.items()},
        "scale": score.scale or config.head_width**-0.5 if isinstance(score, DotProduct) else None,
    }


def walked(inspection: Inspected) -> tuple[Planes, dict[str, Any]]:
    """The walk through the model as planes, (parts, tokens, 1 + CELLS), one for each side, and the names of their parts."""
    with inspection.without():
        found = flow(inspection.model, *inspection.read_ids())
    sides = {side: getattr(found, side) for side in inspection.sides}
    planes = {f"flow/{side}": np.stack(list(parts.values())) for side, parts in sides.items()}
    sums = found.log_sums
    if isinstance(inspection, Written):
        sums = inspection.allowed(inspection.trace.logits).double().logsumexp(-1).tolist()
    return planes, {side: list(parts) for side, parts in sides.items()} | {"log_sums": sums}


# ── planes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit(inspection: Inspected, most: int, with_inside: bool) -> tuple[Planes, dict[str, int], list[str]]:
    """(planes, the size of blocks where they are coarse, what was left out), as much as there is room for."""
    weights = dict(weight_planes(inspection))
    inside = dict(inside_planes(inspection)) if with_inside else {}
    if size(weights) + size(inside) <= most:
        return weights | inside, {}, []
    *_, (kind, found) = inspection.trace.layers.items()
    chosen = f"{kind}/{inspection.reading.layer if inspection.reading else len(found) - 1}"
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


def weight_planes(inspection: Inspected) -> Iterator[tuple[str, np.ndarray]]:
    for name, attended in layers(inspection):
        yield name, as_numpy(attended.weights, "float16")


def inside_planes(inspection: Inspected) -> Iterator[tuple[str, np.ndarray]]:
    for name, attended in layers(inspection):
        inside = attended.inside()
        for part in ("q", "k", "v", "scores"):
            yield f"{name}/{part}", as_numpy(getattr(inside, part), "float32")


def layers(inspection: Inspected) -> Iterator[tuple[str, Attended]]:
    for kind, found in inspection.trace.layers.items():
        for number, attended in enumerate(found):
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
