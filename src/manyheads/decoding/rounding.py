"""Weights held in 16 bits to translate faster: check that they are finite, and find the unrounded ones again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import nn

from manyheads.errors import OptionError
from manyheads.machine import choose_device, choose_dtype, precision_of
from manyheads.modelfolder import load_by_task
from manyheads.models.transformer import Transformer

__all__ = ["check_finite", "load_rounded", "read_again"]

Loaded = TypeVar("Loaded", bound=tuple[Any, ...])


def check_finite(model: nn.Module) -> None:
    """Refuse weights that the precision cannot hold.

    What fits in 32 bits may be too large for fp16, and one such weight spoils every sentence it meets.
    """
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise OptionError(
                f"--precision must be able to hold every weight, got {precision_of(tensor.dtype)}, which is too narrow for {name}",
                hint="--precision bf16 has the range of fp32",
            )


def load_rounded(load: Callable[[str | Path], Loaded], folder: str | Path, device: str, precision: str) -> Loaded:
    """A model and what comes with it, on a device, in a precision that can hold its weights."""
    chosen = choose_device(device)
    dtype = choose_dtype(chosen, precision)
    loaded = load(folder)
    check_finite(loaded[0].to(chosen, dtype))
    return loaded


def read_again(model: Transformer, folder: Path | None) -> Transformer:
    """The weights of a model before they were rounded.

    They must be those that the model has: once rounded, they must equal its own.
    """
    dtype = model.words.weight.dtype
    if folder is None:
        raise OptionError(
            f"saving a model needs its weights in full precision, got {precision_of(dtype)} and no folder to read them from",
            hint='load it with Translator.load(folder, precision="fp32"); to save space: save(folder, store="fp16")',
        )
    full, now = load_by_task(folder)[0], model.state_dict()
    then = {name: tensor.to(dtype) for name, tensor in full.state_dict().items()}
    if now.keys() != then.keys() or not all(torch.equal(now[name].cpu(), then[name]) for name in now):
        raise OptionError(
            f"saving a model needs its weights in full precision, got {precision_of(dtype)}, and the weights in {folder} differ",
            hint='load them with Translator.load(folder, precision="fp32"), then change them',
        )
    return cast(Transformer, full)
