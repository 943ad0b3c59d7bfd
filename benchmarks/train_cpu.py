"""A training step on a CPU, against PyTorch's nn.Transformer of the same size, in one run, turn by turn.

    python -m benchmarks.train_cpu --json benchmarks/results/train_cpu.json
    python -m benchmarks.train_cpu --quick                                        runs all code; figures mean nothing

A step is forward, loss, backward and AdamW, on sentences of one length, so that nobody pads. The peer's losses are
written as their papers write them, on all logits at once: cross-entropy with smoothed labels, and R-Drop by two
divergences. The ratio is the peer's time over ours in the same precision. Memory is the most that a process holds; each
figure is measured in a process of its own.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import TorchTransformer, without_hidden_dropout, without_weight_dropout
from benchmarks.setting import setting, write_json
from benchmarks.timing import side_by_side
from manyheads import Transformer
from manyheads.machine import Machine
from manyheads.nn import sinusoids
from manyheads.recipe import Recipe, load_recipe
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.pairs import PairBatch

WORDS, LENGTH = 8_000, 24
CASES = [(recipe, alpha, precision) for recipe in ("tiny", "small") for alpha in (0.0, 5.0) for precision in ("fp32", "bf16")]  # fmt: skip

Step = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few tokens, once")
    parser.add_argument("--memory-of", nargs=4, metavar=("WHO", "RECIPE", "ALPHA", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.tokens, options.rounds = 2 * LENGTH, 1
    if options.memory_of:
        who, recipe, alpha, precision = options.memory_of
        memory_of(who, recipe, float(alpha), precision, options.tokens)
        return
    rows = [measure(*case, options) for case in CASES]
    show(rows)
    if options.json:
        write_json(options.json, {**setting(torch.device("cpu")), "tokens": options.tokens, "rows": rows})


def measure(recipe: str, alpha: float, precision: str, options: argparse.Namespace) -> dict[str, Any]:
    ours, theirs = (
        make(load_recipe(recipe, {"train.rdrop": alpha}), precision, options.tokens) for make in WHO.values()
    )
    at_least = 0.0 if options.quick else 5.0
    times = side_by_side(ours, theirs, torch.device("cpu"), options.rounds, at_least)
    held = {f"{who}_mb": held_by(who, recipe, alpha, precision, options.tokens) for who in WHO}
    row = {"recipe": recipe, "loss": "R-Drop" if alpha else "plain", "precision": precision, **times, **held}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


# ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def our_step(recipe: Recipe, precision: str, tokens: int) -> Step:
    torch.manual_seed(0)
    model, loss = Transformer(recipe.transformer, WORDS).train(), choose_loss(recipe.train).fused()
    batch = PairBatch(*draw(tokens), count=tokens)
    return partial(step, lambda: loss(model, batch), optimizer_of(model), precision, tokens)


def their_step(recipe: Recipe, precision: str, tokens: int) -> Step:
    torch.manual_seed(0)
    shape = recipe.transformer
    sizes = WORDS, shape.width, shape.heads, shape.layers, shape.feedforward, shape.dropout
    positions = sinusoids(torch.arange(LENGTH), shape.width)
    model = without_hidden_dropout(without_weight_dropout(TorchTransformer(*sizes, positions).train()))
    source, target, labels = draw(tokens)
    smoothing, alpha = recipe.train.smoothing, recipe.train.rdrop
    if alpha:
        twice = source.repeat(2, 1), target.repeat(2, 1)
        work = lambda: rdrop(model(*twice), labels, smoothing, alpha)  # noqa: E731
    else:
        work = lambda: cross_entropy(model(source, target), labels, smoothing)  # noqa: E731
    return partial(step, work, optimizer_of(model), precision, tokens)


WHO = {"ours": our_step, "theirs": their_step}


def draw(tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    source, target, labels = torch.randint(3, WORDS, (3, tokens // LENGTH, LENGTH))
    return source, target, labels


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-4, fused=True)


def step(work: Callable[[], Tensor], optimizer: torch.optim.Optimizer, precision: str, tokens: int) -> None:
    with Machine(torch.device("cpu"), precision).autocast():
        loss = work() / tokens
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    rows = logits.float().flatten(0, 1)
    return F.cross_entropy(rows, labels.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum")


def rdrop(logits: Tensor, labels: Tensor, smoothing: float, alpha: float) -> Tensor:
    p, q = (one.float().log_softmax(-1) for one in logits.chunk(2))
    apart = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    both = sum(cross_entropy(one, labels, smoothing) for one in logits.chunk(2))
    return (both + alpha * apart / 2) / 2


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def held_by(who: str, recipe: str, alpha: float, precision: str, tokens: int) -> float:
    words = ["--memory-of", who, recipe, str(alpha), precision, "--tokens", str(tokens)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.train_cpu", *words], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def memory_of(who: str, recipe: str, alpha: float, precision: str, tokens: int) -> None:
    """Print the peak memory of two steps, beyond what was held before the first, in MB."""
    run = WHO[who](load_recipe(recipe, {"train.rdrop": alpha}), precision, tokens)
    before = peak()
    run()
    run()
    print(peak() - before)


def peak() -> float:
    """Peak memory of this program in MB. (What `getrusage` reports may be that of the process that started it.)"""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':22}{'ours':>10}{'PyTorch':>10}{'':>8}{'ours':>12}{'PyTorch':>10}")
    for row in rows:
        name = f"{row['recipe']}, {row['loss']}, {row['precision']}"
        times = f"{row['ours_ms']:7.0f} ms{row['theirs_ms']:7.0f} ms{row['ratio']:7.2f}×"
        print(f"{name:22}{times}{row['ours_mb']:9.0f} MB{row['theirs_mb']:7.0f} MB")


if __name__ == "__main__":
    main()
