"""Run by torchrun: a training in which something goes wrong in the second process, in its sixth step."""

import sys

import torch
from torch import distributed

from manyheads.cli.main import main
from manyheads.tasks.translate import Task
from training.corpus import TINY

whole, calls, bad = Task.loss, [], []


def short_of_memory(self, model, batch):
    if distributed.get_rank() == 1 and sixth_step(self):
        raise torch.OutOfMemoryError("CUDA out of memory")
    return whole(self, model, batch)


def not_finite(self, model, batch):
    """Of one share of one batch, whoever computes it."""
    if distributed.get_rank() == 1 and sixth_step(self):
        bad.append(batch.pairs.tolist())
    return whole(self, model, batch) * (float("nan") if batch.pairs.tolist() in bad else 1)


def sixth_step(task):
    calls.append(1)
    rehearsals = 0 if task.recipe.train.shard else 1
    return len(calls) == rehearsals + 6


what, train, dev, out, shard = sys.argv[1:]
Task.loss = {"short of memory": short_of_memory, "not finite": not_finite}[what]
changes = {**TINY, "train.steps": 20, "train.validate_every": 4, "train.shard": shard}
settings = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
main(["train", "tiny", "--train", train, "--dev", dev, "--out", out, "--device", "cpu", *settings])
