"""What a training step costs as the model or its input grows: by length, width, layers and vocabulary, one at a time.

    python -m benchmarks.scaling --device cuda --out FOLDER        FOLDER/scaling.json and a plot of each sweep
    python -m benchmarks.scaling --device cpu --quick --out FOLDER

A step is forward and backward of the complete model. All other sizes stay the same. In the sweep by length, so does the
number of tokens of a batch (half as many sentences, twice as long): what is linear in the length is constant, and what
grows is attention, which is quadratic in a sentence and therefore linear in the length here.

The exponent is fitted by least squares in logarithms over the upper half of the points, where the largest term begins
to rule. Beside it are the exponent in the limit, which is far away for the sizes that people use, and that of the
multiply-adds over the same points, which is what can be expected of these sizes.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.plots import Line, draw, write_plot
from benchmarks.setting import setting, write_json
from benchmarks.timing import seconds
from manyheads import Transformer, TransformerConfig
from manyheads.machine import Machine
from manyheads.models.cost import transformer_cost
from manyheads.nn import Packed

PATHS = ("explicit", "fused", "packed")
Row = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """A model and a batch: `tokens` on either side, in sentences of `length`."""

    width: int = 512
    layers: int = 2
    words: int = 10_000
    length: int = 64
    tokens: int = 65_536

    @property
    def batch(self) -> int:
        return self.tokens // self.length

    @property
    def config(self) -> TransformerConfig:
        heads = max(1, self.width // 64)
        return TransformerConfig(
            width=self.width, heads=heads, layers=self.layers, feedforward=4 * self.width, norm="pre"
        )

    def multiply_adds(self) -> int:
        """Multiply-adds of a forward pass."""
        lengths = {"source_length": self.length, "target_length": self.length}
        return transformer_cost(self.config, self.words, batch=self.batch, **lengths).multiply_adds.total()


@dataclass(frozen=True)
class Sweep:
    """One size of `base`, `field`, takes several values. `limit` is the exponent of the largest term."""

    name: str
    field: str
    values: Sequence[int]
    limit: float
    base: Point
    paths: Sequence[str] = ("fused",)


def sweeps(quick: bool) -> list[Sweep]:
    """By length, the model is narrow and has few words: the less there is beside attention, the earlier it rules."""
    if quick:
        point = narrow = Point(width=32, layers=1, words=200, length=16, tokens=256)
        lengths, widths, layers, words = (16, 32, 64, 128), (16, 32, 64, 128), (1, 2, 4), (200, 400, 800)
    else:
        point, narrow = Point(), Point(width=256, words=1_000)
        lengths, words = [2**n for n in range(6, 14)], [1_000 * 2**n for n in range(8)]
        widths, layers = (128, 256, 512, 1024, 2048), (1, 2, 4, 8, 16)
    return [
        Sweep("length", "length", lengths, 1, narrow, PATHS),
        Sweep("width", "width", widths, 2, point),
        Sweep("layers", "layers", layers, 1, point),
        Sweep("vocabulary", "words", words, 1, replace(point, tokens=point.tokens // 4)),  # all logits take room
    ]


# ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_step(point: Point, path: str, device: torch.device) -> Callable[[], None]:
    """A function that does forward and backward of a new model, on random words without padding."""
    torch.manual_seed(0)
    model = Transformer(point.config, point.words).to(device).train()
    machine = Machine(device, "bf16" if device.type == "cuda" else "fp32")
    ids = torch.randint(1, point.words, (point.batch, point.length), device=device)
    forward = forwards(model, ids, path)

    def step() -> None:
        with machine.autocast():
            loss = F.cross_entropy(forward().flatten(0, -2), ids.flatten())
        loss.backward()
        model.zero_grad(set_to_none=True)

    return step


def forwards(model: Transformer, ids: Tensor, path: str) -> Callable[[], Tensor]:
    """A function that gives the model's logits by the named path of attention. (Weights need the explicit path.)"""
    if path == "fused":
        return lambda: model(ids, ids)
    if path == "packed":
        layout = Packed.from_lengths([ids.shape[1]] * ids.shape[0], ids.device)
        flat = ids.flatten()
        return lambda: model(flat, flat, layout, layout)
    return lambda: model.decode(ids, model.encode(ids, weights=[]), weights=[], cross_weights=[])


def measure(point: Point, path: str, device: torch.device, repeats: int) -> float:
    """Seconds per step: the median of three readings, each the mean over `repeats` steps."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    step = make_step(point, path, device)
    for _ in range(2):
        step()
    return float(np.median([seconds(step, device, repeats) for _ in range(3)]))


# ── sweeps ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """b of y = a · x^b, by least squares in logarithms over the upper half of the points, including the middle one."""
    start = (len(x) - 1) // 2
    return float(np.polyfit(np.log(x[start:]), np.log(y[start:]), 1)[0])


def run_sweep(sweep: Sweep, device: torch.device, repeats: int) -> Iterator[Row]:
    """A row for each path. Points that do not fit in memory are left out, and listed."""
    for path in sweep.paths:
        points, left_out = [], []
        for value in sweep.values:
            point = replace(sweep.base, **{sweep.field: value})
            try:
                taken = measure(point, path, device, repeats)
            except torch.OutOfMemoryError:
                left_out.append(value)
                continue
            points.append({"value": value, "ms": 1000 * taken, "multiply_adds": point.multiply_adds()})
            print(f"{sweep.name:11}{path:10}{value:8}{1000 * taken:12.2f} ms", flush=True)
        yield make_row(sweep, path, points, left_out)


def make_row(sweep: Sweep, path: str, points: Sequence[Row], left_out: Sequence[int]) -> Row:
    """A row of results. Exponents need three points at least: the upper half of fewer is no line."""
    known: Row = {
        "sweep": sweep.name,
        "path": path,
        "base": vars(sweep.base),
        "points": list(points),
        "out_of_memory": list(left_out),
    }
    if len(points) < 3:
        return known
    x = [point["value"] for point in points]
    return {
        **known, "exponent": round(fit_exponent(x, [point["ms"] for point in points]), 3),
        "exponent_of_multiply_adds": round(fit_exponent(x, [point["multiply_adds"] for point in points]), 3),
        "exponent_in_the_limit": sweep.limit, "fitted_from": x[(len(x) - 1) // 2],
    }  # fmt: skip


def plot(sweep: Sweep, rows: Sequence[Row]) -> str:
    lines = [
        Line(f"{row['path']}: exponent {row.get('exponent', float('nan')):.2f} from {row.get('fitted_from')} on, multiply-adds "
             f"{row.get('exponent_of_multiply_adds', float('nan')):.2f}, limit {sweep.limit:g}",
             [(point["value"], point["ms"]) for point in row["points"]])
        for row in rows if row["points"]
    ]  # fmt: skip
    return draw(f"A training step by {sweep.name}", sweep.name, "milliseconds", lines, log="xy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5, help="steps of a reading")
    parser.add_argument("--only", nargs="*", choices=["length", "width", "layers", "vocabulary"])
    parser.add_argument("--out", type=Path, default=Path("runs/scaling"))
    parser.add_argument("--quick", action="store_true", help="so small that it runs anywhere")
    options = parser.parse_args()
    device = torch.device(options.device)
    rows: list[Row] = []
    for sweep in sweeps(options.quick):
        if options.only and sweep.name not in options.only:
            continue
        found = list(run_sweep(sweep, device, options.repeats))
        write_plot(options.out / f"scaling_{sweep.name}.svg", plot(sweep, found))
        rows += found
    write_json(options.out / "scaling.json", {**setting(device), "rows": rows})
    print(f"{'by':12}{'path':10}{'exponent':>10}{'multiply-adds':>15}{'in the limit':>14}   out of memory")
    for row in rows:
        figures = [row.get(name, float("nan")) for name in ("exponent", "exponent_of_multiply_adds")]
        limit = row.get("exponent_in_the_limit", float("nan"))
        print(
            f"{row['sweep']:12}{row['path']:10}{figures[0]:10.2f}{figures[1]:15.2f}{limit:14.0f}   {row['out_of_memory'] or '–'}"
        )
    if not any("exponent" in row for row in rows):
        sys.exit("nothing could be fitted")


if __name__ == "__main__":
    main()
