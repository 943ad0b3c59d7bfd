"""Run by torchrun in two processes: the gradient of a batch, computed alone and in shares. Prints what differs, as JSON."""

import json
import sys
from pathlib import Path

import torch

from manyheads.machine import choose_machine
from manyheads.recipe import load_recipe
from manyheads.tasks.translate import Task
from manyheads.team import ALONE, gathered, whole
from manyheads.training import steps
from manyheads.training.state import State
from training.corpus import TINY


def gradients(task, recipe, team, step):
    """As an update leaves them for the optimizer."""
    torch.manual_seed(1)
    state = State(task.build().double(), recipe.train, torch.device("cpu"), team)
    found = {}

    def keep(optimizer, parameters, rate, clip):
        found.update({name: whole(p.grad) for name, p in state.model.named_parameters()})
        return torch.zeros(()), torch.zeros(())

    steps.update = keep
    learn = steps.EagerSteps(state, recipe.train, choose_machine("cpu", "fp32"), task.loss, team)
    loss, _, _ = learn(task.batch(step, team), 1, 0.1)
    return found, sum(team.gather(loss.item())) / team.size


def main(folder, pairs):
    results = []
    with gathered() as team:
        taught = {"train.teachers": ["a model"], "train.accumulate": 2, "train.shard": True}
        for changes in ({}, {"train.accumulate": 3}, {"train.shard": True}, taught, {"train.tokens": 12}):
            recipe = load_recipe("tiny", {**TINY, "train.tokens": 800, "model.dropout": 0.0, **changes})
            place = Path(folder) / str(len(results))
            data = {"train": pairs, "dev": pairs}
            task = team.in_turn(lambda: Task.prepare(recipe, place, data, {}, lambda _: None))  # noqa: B023
            if recipe.train.teachers:
                torch.manual_seed(2)
                task.learn_from([task.build().double().eval().requires_grad_(False)], "")
            # A batch of fewer pairs than processes is one of those that must be right.
            sizes = [len(task.plan.rows(step)) for step in range(task.plan.batches)]
            step = sizes.index(min(sizes) if "train.tokens" in changes else max(sizes))
            alone, loss = gradients(task, recipe, ALONE, step)
            shared, shared_loss = gradients(task, recipe, team, step)
            difference = max((alone[name] - shared[name]).abs().max().item() for name in alone)
            largest = max(g.abs().max().item() for g in alone.values())
            results.append(
                {"changes": changes, "pairs": sizes[step], "difference": difference, "largest": largest,
                 "losses": [loss, shared_loss]}
            )  # fmt: skip
        if team.first:
            print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
