"""Finds where numbers first stop being finite: a batch is computed again, and every module's output is checked.

This costs training nothing, but it comes late: a few steps on, the weights may have changed, and if the batch is finite
with the new ones, no module is named.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from manyheads.machine import Machine
from manyheads.tasks.task import Part
from manyheads.team import whole

__all__ = ["find_not_finite", "weights_not_finite"]

Loss = Callable[[nn.Module, Any], Tensor]


def find_not_finite(
    model: nn.Module, loss: Loss, parts: Sequence[Part], machine: Machine, *, backward: bool = True
) -> str | None:
    """The first module in the forward pass whose output is not finite.

    If there is none, "loss", or the first weight in the backward pass whose gradient is not finite, or the norm of all
    gradients, which are squared for it; None if everything is finite.
    """
    with torch.no_grad(), machine.autocast(), looked_at(model) as found:
        losses = [loss(model, part) for part in parts]
    if found:
        return found[0]
    if not all_finite(losses):
        return "loss"
    return first_bad_gradient(model, loss, parts, machine) if backward else None


@contextmanager
def looked_at(model: nn.Module) -> Iterator[list[str]]:
    """While this lasts, list modules whose output is not finite, in the order they finish: inner ones come first."""
    found: list[str] = []

    def look(name: str, module: nn.Module, given: Any, output: Any) -> None:
        if not all_finite(output):
            found.append(name or type(module).__name__)

    hooks = [module.register_forward_hook(partial(look, name)) for name, module in model.named_modules()]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def first_bad_gradient(model: nn.Module, loss: Loss, parts: Sequence[Part], machine: Machine) -> str | None:
    """The first weight in the order of the backward pass, which starts at the end of a model, with a bad gradient.

    The gradients that the weights already have stay as they are.
    """
    names, weights = zip(*((name, p) for name, p in model.named_parameters() if p.requires_grad), strict=True)
    for part in parts:
        with machine.autocast():
            value = loss(model, part)
        gradients = torch.autograd.grad(value, weights, allow_unused=True)
        bad = [name for name, gradient in zip(names, gradients, strict=True) if not all_finite(gradient)]
        if bad:
            return f"gradient of {bad[-1]}"
        if not all_finite(get_total_norm([gradient for gradient in gradients if gradient is not None])):
            return "norm of the gradient"
    return None


def weights_not_finite(model: nn.Module) -> list[str]:
    """Names of the weights that are not finite. If there are any, no batch is to blame.

    Sharded weights are gathered here, so all processes must call this.
    """
    return [name for name, p in model.named_parameters() if not all_finite(whole(p.detach()))]


def all_finite(value: Any) -> bool:
    """True if a tensor, or each of several, is finite. Anything else that a module may return is not a number."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    return not isinstance(value, (tuple, list)) or all(map(all_finite, value))
