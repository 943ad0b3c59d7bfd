"""Weights held in 16 or 8 bits to translate faster: round them, and find the unrounded ones again."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import nn

from manyheads.errors import OptionError
from manyheads.machine import choose_device, choose_dtype, precision_of
from manyheads.modelfolder import load_by_task
from manyheads.models.eightbit import hold_in_eight_bits
from manyheads.models.transformer import Transformer
from manyheads.nn.eightbits import is_exact

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
    round_weights(loaded[0].to(chosen), dtype)
    return loaded


def round_weights(model: nn.Module, dtype: torch.dtype) -> None:
    if dtype == torch.int8:
        check_exact()
        hold_in_eight_bits(model)
    else:
        check_finite(model.to(dtype))


def check_exact() -> None:
    if not is_exact():
        raise OptionError(
            "--precision int8 needs a processor that adds up products of 8-bit numbers exactly (with VNNI, say), "
            "and this one does not",
            hint="--precision fp32 or bf16 work on any",
        )


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
    full = load_by_task(folder)[0]
    rounded = deepcopy(full)
    round_weights(rounded, dtype)
    now, then = model.state_dict(), rounded.state_dict()
    if now.keys() != then.keys() or not all(torch.equal(now[name].cpu(), then[name]) for name in now):
        raise OptionError(
            f"saving a model needs its weights in full precision, got {precision_of(dtype)}, and the weights in {folder} differ",
            hint='load them with Translator.load(folder, precision="fp32"), then change them',
        )
    return cast(Transformer, full)
