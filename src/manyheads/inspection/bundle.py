"""What the inspector page gets: a header as JSON, and planes as bytes.

    header["planes"]["cross/2"]           {"type": "f16", "shape": [heads, queries, keys]}: the weights of a layer
    header["planes"]["cross/2/q"]         what they are computed from: q, k, v of each head, and scores before softmax
    header["planes"]["search"]            where the model looked for each continuation of a search, see hypotheses.py
    header["planes"]["replay/cross/2"]    what heads did during training, see replay.py
    header["planes"]["flow/source"]       how each vector passes through the model, in the parts that header["flow"]
                                          names, see flow.py

What a model lacks is left out of the header. An encoder-only model has a "source" but no "target", and neither steps
nor a lens, since it writes nothing. A language model has a "target" but no "source"; the first header["given"] pieces
of its target were given to it. Layers, heads, bounds and planes exist for the kinds of attention that the model has.
The JSON of `as_json` follows the same rule:

    encoder-decoder      schema, source, target, translation, score, log_probability, forced, steps,
                         attention{encoder, decoder, cross}
    encoder-only model   schema, source, attention{encoder}
    language model       schema, target, continuation, given, score, log_probability, forced, steps,
                         attention{decoder}
    writes all at once   schema, source, target, translation, score, log_probability, forced, steps, writes, part,
                         parts, read, iteration, tries or graph, attention{encoder, decoder, cross}

In a model that writes all at once, row t of the decoder reads place t of "read", which has masks in masked places, and
writes place t of "target"; there is no begin token. "tries" has the lengths that were tried, each with all of its
iterations; "iteration" is the pass that the attention is from, counted from 1. A model that reads a "graph" has that
instead of "tries": the pieces of its target are the vertices.

Weights are 16-bit floats: a row still adds up to 1 ± 0.001, where 8 bits could be off by 0.07. What they are computed
from has 32 bits, so that products of it match the model's own. Whatever would make the page larger than `most` bytes is
left out; making weights coarse is the last resort. The header says what is missing.
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
"""Most bytes of planes in a page."""
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
"""The options that the walk through the model depends on."""
TYPES = {"float16": "f16", "float32": "f32", "uint8": "u8"}

Planes = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Bundle:
    header: dict[str, Any]
    planes: Planes


def make_bundle(inspection: Inspected, most: int = LARGEST, *, inside: bool = True) -> Bundle:
    """The bundle of an inspection.

    Without `inside` it has no queries, keys, values and scores, no walk through the model and no replay.
    """
    planes, blocks, left_out = fit(inspection, most, inside)
    if isinstance(inspection, Inspection) and inspection.beam:
        planes["search"] = looks_of(inspection)
    walk, told = walked(inspection) if inside else ({}, None)
    if size(planes) + size(walk) <= most:
        planes |= walk
    else:
        told, left_out = None, [*left_out, "the numbers for the Flow view, to limit the size of the page"]
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
    """What only an encoder-decoder has: parts, a search, a report and a replay; and the planes of the replay."""
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
    """Which model it is, and what is needed to interpret the numbers of a head."""
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
    """The walk through the model: a plane per side, (parts, tokens, 1 + CELLS), and the names of the parts."""
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
    """As much as there is room for: (planes, block size of each coarse plane, what was left out)."""
    weights = dict(weight_planes(inspection))
    inside = dict(inside_planes(inspection)) if with_inside else {}
    if size(weights) + size(inside) <= most:
        return weights | inside, {}, []
    *_, (kind, found) = inspection.trace.layers.items()
    chosen = f"{kind}/{inspection.reading.layer if inspection.reading else len(found) - 1}"
    some = {name: plane for name, plane in inside.items() if name.startswith(f"{chosen}/")}
    left_out = [f"queries, keys and values of all layers but {chosen.replace('/', ' ')}, to limit the size of the page"]
    if size(weights) + size(some) <= most:
        return weights | some, {}, left_out
    if size(weights) <= most:
        return weights, {}, ["queries, keys and values, to limit the size of the page"]
    others = {name: plane for name, plane in weights.items() if name != chosen}
    room = max(most - weights[chosen].nbytes, most // 2)
    block = next(block for block in range(1, 1 << 20) if coarse_size(others, block) <= room)
    coarse = {name: blocked(plane, block) for name, plane in others.items()}
    left_out = [
        f"individual weights of all layers but {chosen.replace('/', ' ')}; each cell shows the mean of {block} × {block} weights"
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
    """The mean of each block of a plane, scaled to 0 to 255. Blocks at the edges are means of fewer weights."""
    rows, columns = (np.arange(0, length, block) for length in plane.shape[1:])
    sums = np.add.reduceat(np.add.reduceat(plane.astype("float32"), rows, 1), columns, 2)
    heights, widths = (np.minimum(block, n - at) for n, at in zip(plane.shape[1:], (rows, columns), strict=True))
    return np.round(sums / (heights[:, None] * widths) * 255).astype("uint8")
