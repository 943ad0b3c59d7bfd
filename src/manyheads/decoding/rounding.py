"""Weights that are held in 16 bits to translate faster: are they still numbers, and where are those that were not rounded?"""

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
    """What 32 bits hold may be too large for fp16, and one such weight spoils every sentence it meets."""
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise OptionError(
                f"--precision must be one that can hold every weight, got {precision_of(tensor.dtype)}, too narrow for {name}",
                hint="--precision bf16 has the range of fp32",
            )


def load_rounded(load: Callable[[str | Path], Loaded], folder: str | Path, device: str, precision: str) -> Loaded:
    """A model and what goes with it, on a device, in a precision that can hold its weights."""
    chosen = choose_device(device)
    dtype = choose_dtype(chosen, precision)
    loaded = load(folder)
    check_finite(loaded[0].to(chosen, dtype))
    return loaded


def read_again(model: Transformer, folder: Path | None) -> Transformer:
    """The weights of a model as they were before they were rounded. They must be those that it has: none is made up."""
    dtype = model.words.weight.dtype
    if folder is None:
        raise OptionError(
            f"a model is saved from its weights in full precision, got {precision_of(dtype)} and no folder to read them from",
            hint='Translator.load(folder, precision="fp32"); to take less room: save(folder, store="fp16")',
        )
    full, now = load_by_task(folder)[0], model.state_dict()
    then = {name: tensor.to(dtype) for name, tensor in full.state_dict().items()}
    if now.keys() != then.keys() or not all(torch.equal(now[name].cpu(), then[name]) for name in now):
        raise OptionError(
            f"a model is saved from its weights in full precision, got {precision_of(dtype)}, and those in {folder} are others",
            hint='Translator.load(folder, precision="fp32"), then change them',
        )
    return cast(Transformer, full)
