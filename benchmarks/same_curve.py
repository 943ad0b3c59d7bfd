"""Fast must not mean different: padded and eager, or packed and as one graph, training has the same loss curve.

    python -m benchmarks.same_curve --out FOLDER            FOLDER/same_curve.json and plots; exit 1 if curves differ
    python -m benchmarks.same_curve --device cpu --quick

All runs are on Tatoeba, with the same pairs in the same order and the same initial weights:

    fp32      padded, eager, float32
    bf16      padded, eager, bfloat16
    graphed   packed, one graph, bfloat16
    masks     as bf16, with other dropout masks (if there is dropout)
    rounded   as bf16, with initial weights rounded to bfloat16, up or down at random (if there is no dropout)
    seed      as bf16, with another seed: other initial weights, other masks

Losses are means over ten steps. Without dropout, the graphed curve may differ from bf16 by the effect of rounding. That
effect is measured by rounding the initial weights once, as every step rounds them: where the loss falls fast, even such
a small difference grows before it goes away. With dropout, the graphed run has other masks, so its curve may differ by
the effect of other masks. Each effect is drawn DRAWS times and the largest counts; TOLERANCE is for what a few draws do
not show.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import fast
from benchmarks.corpus import pad_batch
from benchmarks.plots import Line, draw, write_plot
from benchmarks.setting import setting, write_json
from manyheads import Transformer, TransformerConfig
from manyheads.modelfolder import bundled
from manyheads.recipe import Recipe, TrainConfig, load_recipe
from manyheads.tasks.pairs import PairBatch, Parts
from manyheads.tasks.translate import Task
from manyheads.text.shards import Rows
from manyheads.training.schedule import rate_at

SMOOTHED = READ_EVERY = 10
DRAWS = 3
TOLERANCE = {"mean": 2.0, "largest": 2.0}
"""How many times the largest effect of rounding, or of other masks, is allowed …"""

FLOOR = {"mean": 0.005, "largest": 0.02}
"""… and the least, in nats a token, that is allowed in any case: two eager paths may happen to round alike."""

SEED, OTHER = 1, 2
Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How to train.

    graphed    packed and as one graph, or padded and eager
    weights    seed of the initial weights
    rounding   seed of their rounding; None = they are not rounded
    masks      seed of the dropout masks
    """

    precision: Literal["bf16", "fp32"] = "bf16"
    graphed: bool = False
    weights: int = SEED
    rounding: int | None = None
    masks: int = SEED


def ways(dropout: float) -> dict[str, Way]:
    """All ways to train, by name. Yardsticks have names of two words: what is drawn, and which draw it is."""
    draws = range(OTHER, OTHER + DRAWS)
    yardsticks = (
        {f"masks {n}": Way(masks=n) for n in draws} if dropout else {f"rounded {n}": Way(rounding=n) for n in draws}
    )
    return {
        "fp32": Way("fp32"),
        "bf16": Way(),
        "graphed": Way(graphed=True),
        **yardsticks,
        "seed": Way(weights=OTHER, masks=OTHER),
    }


@torch.no_grad()
def round_weights(model: nn.Module, seed: int) -> None:
    """Round each weight to one of its two neighbours in bfloat16, to the nearer one more often: its mean stays."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        bits = parameter.view(torch.int32)
        bits += torch.randint(2**16, bits.shape, generator=generator, dtype=torch.int32)
        bits &= ~0xFFFF


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pairs(NamedTuple):
    """The pairs of one step in both forms, in the same order."""

    padded: PairBatch
    packed: Parts


def make_pairs(recipe: Recipe, part: str, steps: int) -> tuple[list[Pairs], int]:
    """(the pairs of all steps, the size of the vocabulary), from the bundled corpus as training prepares it."""
    with tempfile.TemporaryDirectory() as folder:
        data = {"train": [str(bundled(f"tatoeba/{part}.tsv.gz"))], "dev": [str(bundled("tatoeba/dev.tsv.gz"))]}
        task = Task.prepare(recipe, Path(folder), data, {}, lambda _: None)
        stored = task.data.sources, task.data.targets
        sources, targets = (Rows(side.ids, side.offsets[:-1], side.lengths) for side in stored)
        found = fast.packed_batches(sources, targets, recipe.train.tokens, SEED, steps)
        return [Pairs(pad_batch(sources, targets, rows), packs) for rows, packs in found], max(task.vocabulary.sizes)


def train(
    way: Way, model: TransformerConfig, config: TrainConfig, words: int, pairs: Sequence[Pairs], device: torch.device
) -> tuple[list[float], float, float]:
    """(the loss at each step, seconds of training, seconds of compiling)"""
    torch.manual_seed(way.weights)
    network, config = Transformer(model, words), replace(config, seed=way.masks, precision=way.precision)
    if way.rounding is not None:
        round_weights(network, way.rounding)
    batches = [(one.packed if way.graphed else one.padded).to(device) for one in pairs]
    steps = (
        fast.graphed_steps(network, config, device, way.precision, pairs[0].packed)
        if way.graphed
        else fast.eager_steps(network, config, device, way.precision)
    )
    began = time.perf_counter()
    curve: list[float] = []
    unread: list[Tensor] = []
    for number, batch in enumerate(batches, 1):
        share = rate_at(number, schedule="inverse-sqrt", warmup=max(1, len(batches) // 6), steps=len(batches))
        unread.append(steps.run(batch, number, config.rate * share)[0])
        if number % READ_EVERY == 0 or number == len(batches):
            curve += torch.stack(unread).tolist()
            unread.clear()
    return curve, time.perf_counter() - began, steps.compile_seconds


# ── comparing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def smooth(curve: Sequence[float], over: int = SMOOTHED) -> np.ndarray:
    """Running means over `over` steps, from the step on at which that many are known."""
    over = min(over, len(curve))
    return np.convolve(curve, np.ones(over) / over, mode="valid")


def difference(one: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    apart = np.abs(smooth(one) - smooth(other))
    return {"mean": round(float(apart.mean()), 5), "largest": round(float(apart.max()), 5)}


def judge(curves: Mapping[str, Sequence[float]]) -> Row:
    """How far apart the curves are, what is allowed, and whether the graphed one is the same. NaN never is."""
    apart = {name: difference(curve, curves["bf16"]) for name, curve in curves.items() if name != "bf16"}
    measured_by = [name for name in apart if " " in name]
    most = {key: max(apart[name][key] for name in measured_by) for key in TOLERANCE}
    allowed = {key: round(max(FLOOR[key], TOLERANCE[key] * most[key]), 5) for key in TOLERANCE}
    same = all(apart["graphed"][key] <= allowed[key] for key in allowed)
    return {"difference_from_bf16": apart, "measured_by": measured_by, "allowed": allowed, "same": same}


def compare(dropout: float, recipe: Recipe, words: int, pairs: Sequence[Pairs], options: argparse.Namespace) -> Row:
    device, model = torch.device(options.device), replace(recipe.transformer, dropout=dropout)
    runs = {}
    for name, way in ways(dropout).items():
        runs[name] = train(way, model, recipe.train, words, pairs, device)
        curve, seconds, compiling = runs[name]
        print(
            f"dropout {dropout}: {name:9} {curve[0]:.3f} → {smooth(curve)[-1]:.3f}  {seconds:.1f} s + {compiling:.1f} s",
            flush=True,
        )
    curves = {name: run[0] for name, run in runs.items()}
    lines = [
        Line(name, list(enumerate(smooth(curve).tolist(), min(SMOOTHED, len(curve)))), dots=False)
        for name, curve in curves.items()
    ]
    write_plot(
        options.out / f"same_curve_dropout{dropout}.svg",
        draw(f"Loss, dropout {dropout}", "steps", "nats a token, over 10 steps", lines, log=""),
    )
    return {
        "dropout": dropout, **judge(curves), "seconds": {name: round(run[1], 2) for name, run in runs.items()},
        "compile_seconds": runs["graphed"][2], "curves": curves,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dropout", nargs="+", type=float, default=[0.0, 0.1])
    parser.add_argument("--out", type=Path, default=Path("runs/same_curve"))
    parser.add_argument("--quick", action="store_true", help="so small that it runs anywhere")
    options = parser.parse_args()
    changes = {"data.vocabulary": 8000, "train.tokens": 8192, "train.rate": 1e-3, "train.ema": 0.0, "train.rdrop": 0.0}
    if options.quick:
        small = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64}
        changes |= {**small, "data.vocabulary": 500, "train.tokens": 500}
        options.steps = min(options.steps, 20)
    recipe = load_recipe("small", changes)
    pairs, words = make_pairs(recipe, "dev" if options.quick else "train", options.steps)
    rows = [compare(dropout, recipe, words, pairs, options) for dropout in options.dropout]
    head = {**setting(torch.device(options.device)), "steps": options.steps, "tokens": recipe.train.tokens}
    rule = {"tolerance": TOLERANCE, "floor": FLOOR, "smoothed_over": SMOOTHED}
    write_json(options.out / "same_curve.json", {**head, **rule, "rows": rows})
    for row in rows:
        for name, apart in row["difference_from_bf16"].items():
            print(
                f"dropout {row['dropout']}: {name:9} from bf16: mean {apart['mean']:.4f}, largest {apart['largest']:.4f}"
            )
        verdict = "the same" if row["same"] else "NOT THE SAME"
        print(
            f"dropout {row['dropout']}: allowed mean {row['allowed']['mean']:.4f}, largest {row['allowed']['largest']:.4f}: {verdict}"
        )
    if not all(row["same"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
