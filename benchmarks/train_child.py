"""One system of `benchmarks.train_gpu`: a process that makes its batches, warms up, and takes steps when it is told to.

All systems do the same work: base-like sizes, one table of words, ReLU, biases, dropout of 0.1 on the embeddings and on
the output of every sublayer, label smoothing of 0.1, bf16 autocast, gradients clipped to norm 1, fused AdamW.
"""

import fcntl
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import fast
from benchmarks.corpus import (
    Lengths,
    draw_lengths,
    draw_words,
    evenly,
    fixed_batches,
    multiply_adds,
    pad_batch,
    sorted_batches,
)  # fmt: skip
from benchmarks.peers import Marian, TorchTransformer, without_hidden_dropout, without_weight_dropout
from benchmarks.turns import serve
from manyheads import Transformer, TransformerConfig
from manyheads.machine import Machine
from manyheads.nn import sinusoids
from manyheads.recipe import TrainConfig
from manyheads.tasks.pairs import PairBatch
from manyheads.text.turns import Numbers

__all__ = ["MARIAN", "OURS", "SIZES", "TORCH", "Job", "Size", "build", "config_of"]

OURS, TORCH, MARIAN = "manyheads", "torch nn.Transformer", "Hugging Face Marian"
DROPOUT, SMOOTHING, RATE, CLIP = 0.1, 0.1, 1e-4, 1.0
TABLE = 256
"""Rows of the tables of positions: no sentence is longer."""

MORE = 32
"""Pairs that are drawn for each one that is used: from many pairs, batches of similar lengths can be made."""


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    hidden: int
    heads: int
    words: int = 10_000


SIZES = {
    "tiny": Size(2, 128, 512, 4),
    "base": Size(6, 512, 2048, 8),
    "big": Size(6, 1024, 4096, 16),
    "quick": Size(1, 32, 64, 2, words=200),
}


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    mode      "eager", "compiled" or "graphed"
    way       how to compile: "dynamic" (sorted batches of any shape) or "static" (few shapes, as CUDA graphs); else ""
    budgets   target tokens of a batch; the system is measured with each of these
    batches   the most batches of each budget
    shapes    the number of shapes of static batches
    lock      a file; processes that warm up without compiling lock it, to do so one at a time
    """

    system: str
    mode: str
    way: str
    size: str
    budgets: Sequence[int]
    device: str
    batches: int
    shapes: int
    lock: str

    @property
    def done_mode(self) -> str:
        """The mode that is measured: without a GPU there is no graph, and batches are only packed."""
        return "packed" if self.mode == "graphed" and self.device == "cpu" else self.mode

    @property
    def name(self) -> str:
        budgets = "-".join(map(str, self.budgets))
        return "_".join(filter(None, (self.system.replace(" ", "-"), self.mode, self.way, self.size, budgets)))


class Work:
    """Batches of one budget, on the device, with their real target tokens and the multiply-adds of a forward pass."""

    def __init__(
        self, batches: list[Any], rows: list[Numbers], pairs: Lengths, size: Size, device: torch.device
    ) -> None:
        self.example, self.batches = batches[0], [batch.to(device) for batch in batches]
        used = pairs.some(np.concatenate(rows))
        self.tokens = int(used.targets.sum())
        self.multiply_adds = multiply_adds(config_of(size), size.words, used)


def config_of(size: Size) -> TransformerConfig:
    return TransformerConfig(
        width=size.width, heads=size.heads, layers=size.layers, feedforward=size.hidden,
        norm="pre", bias=True, dropout=DROPOUT,
    )  # fmt: skip


def build(system: str, size: Size) -> nn.Module:
    """A model with random weights. Ours and PyTorch's have the same parameters; Marian lacks the two last norms."""
    torch.manual_seed(0)
    shape = (size.words, size.width, size.heads, size.layers, size.hidden, DROPOUT)
    if system == OURS:
        return Transformer(config_of(size), size.words)
    if system == MARIAN:
        return Marian(*shape, TABLE)
    return without_hidden_dropout(
        without_weight_dropout(TorchTransformer(*shape, sinusoids(torch.arange(TABLE), size.width)))
    )


def make_work(job: Job, budget: int, device: torch.device) -> Work:
    """All systems draw from the same pairs; each gets them in the batches that suit it best."""
    size = SIZES[job.size]
    pairs = draw_lengths(MORE * job.batches * budget, seed=1)
    sources, targets = draw_words(pairs.sources, size.words, 2), draw_words(pairs.targets, size.words, 3)
    if job.mode == "graphed":
        found = fast.packed_batches(sources, targets, budget, seed=1, most=job.batches)
        return Work([pack for _, pack in found], [rows for rows, _ in found], pairs, size, device)
    if job.way == "static":
        chosen: Any = fixed_batches(pairs, budget, job.shapes, job.batches)
    else:
        chosen = [(rows, None) for rows in evenly(sorted_batches(pairs, budget), job.batches)]
    made = [pad_batch(sources, targets, rows, to) for rows, to in chosen]
    return Work(made, [rows for rows, _ in chosen], pairs, size, device)


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def peer_steps(job: Job, device: torch.device) -> Callable[[Any], Tensor]:
    """A step, (batch) → loss, of a model that takes padded ids and returns logits."""
    model: Any = build(job.system, SIZES[job.size]).to(device).train()
    if isinstance(model, Marian) and job.mode == "compiled":
        model.whole_graph()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    machine = Machine(device, "bf16")

    def summed_loss(source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        logits = model(source, target)
        return F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=SMOOTHING, reduction="sum"
        )

    compiled = compile_as(job.way, summed_loss)

    def step(batch: Any) -> Tensor:
        if job.way == "static":
            torch.compiler.cudagraph_mark_step_begin()
        with machine.autocast():
            loss = compiled(batch.source, batch.target, batch.labels) / batch.count
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def compile_as(way: str, work: Callable[..., Tensor]) -> Callable[..., Tensor]:
    if way == "dynamic":
        return torch.compile(work, dynamic=True)
    if way == "static":
        return torch.compile(work, dynamic=False, mode="reduce-overhead")
    return work


def our_steps(job: Job, work: Work, device: torch.device) -> tuple[Callable[[Any], Tensor], float]:
    """(a step, (batch) → loss; the seconds that compiling took)"""
    config = TrainConfig(tokens=job.budgets[0], rate=RATE, clip=CLIP, smoothing=SMOOTHING, precision="bf16")
    model = build(OURS, SIZES[job.size])
    steps = (
        fast.graphed_steps(model, config, device, "bf16", work.example)
        if job.mode == "graphed"
        else fast.eager_steps(model, config, device, "bf16")
    )
    taken = 0

    def step(batch: Any) -> Tensor:
        nonlocal taken
        taken += 1
        return steps.run(batch, taken, RATE)[0]

    return step, steps.compile_seconds


# ── the process ─────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare(job: Job) -> tuple[dict[str, Any], Callable[[str], dict[str, Any]]]:
    device = torch.device(job.device)
    works = {budget: make_work(job, budget, device) for budget in job.budgets}
    began = time.perf_counter()
    with alone(job) if job.mode == "eager" else nullcontext():
        step, seconds = when_there_is_room(lambda: make_steps(job, works, device))
        times = 1 if job.mode == "eager" else 3  # to compile, to record a graph, to replay it
        when_there_is_room(lambda: [take(step, every_shape(work.batches, times)) for work in works.values()])
        free(device)
    warm = time.perf_counter() - began
    compile_seconds = seconds or (warm if job.mode == "compiled" else 0.0)
    ready = {"compile_seconds": round(compile_seconds, 1), "warm_up_seconds": round(warm, 1)}
    return ready, lambda words: measure(step, works[int(words.split()[1])], device)


def make_steps(job: Job, works: dict[int, Work], device: torch.device) -> tuple[Callable[[Any], Tensor], float]:
    if job.system == OURS:
        return our_steps(job, works[job.budgets[0]], device)
    return peer_steps(job, device), 0.0


def every_shape(batches: list[Any], times: int) -> list[Any]:
    """One batch of each shape, `times` times over. (Packed batches all have one shape.)

    Those with sides of different lengths come first: a compiler that first meets equal ones takes them to be always
    equal.
    """
    shapes = {(*b.source.shape, *b.target.shape): b for b in batches if isinstance(b, PairBatch)}
    by_shape = sorted(shapes.values(), key=lambda b: b.source.shape[1] == b.target.shape[1])
    return [batch for batch in by_shape or batches[:1] for _ in range(times)]


def take(step: Callable[[Any], Tensor], batches: list[Any]) -> Tensor:
    """Take a step on each batch, and return the mean loss.

    Losses are added up on the device at once: the output of a graph is overwritten by its next run.
    """
    total = step(batches[0]).clone()
    for batch in batches[1:]:
        total += step(batch)
    return total / len(batches)


def measure(step: Callable[[Any], Tensor], work: Work, device: torch.device) -> dict[str, Any]:
    """Make a pass over all batches that is not timed, in which the allocator grows again, and one that counts."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    take(step, work.batches)
    wait(device)
    began = time.perf_counter()
    loss = take(step, work.batches)
    wait(device)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_reserved(device) / 2**30 if device.type == "cuda" else 0.0
    free(device)
    return {
        "seconds": seconds, "steps": len(work.batches), "tokens": work.tokens, "multiply_adds": work.multiply_adds,
        "loss": loss.item(), "peak_memory_gib": round(peak, 2),
    }  # fmt: skip


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free(device: torch.device) -> None:
    """Give all memory that is not in use to the other processes."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()


def when_there_is_room(work: Callable[[], Any]) -> Any:
    """Do the work, again and again while others hold the memory; the parent knows when to give up."""
    while True:
        try:
            return work()
        except torch.OutOfMemoryError as error:
            sys.stderr.write(f"waiting for memory: {str(error).splitlines()[0]}\n")
        free(torch.device("cuda"))
        time.sleep(3)


@contextmanager
def alone(job: Job) -> Iterator[None]:
    with open(job.lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    job = Job(**given)
    serve(lambda: prepare(job))


if __name__ == "__main__":
    main()
