"""The device and the precision of a computation: chosen automatically unless given, and always reported."""

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from manyheads.errors import OptionError, choose

DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

HELD = {**DTYPES, "int8": torch.int8}
"""The dtypes in which matrices of a model may be held that is not trained."""

WIDE = 256
"""The width from which a CPU gains more by multiplying in bf16 than it loses by rounding to it, whatever the batches.

With AVX512-BF16 a step of `small` is 1.5 times as fast. Narrow models gain in large batches and lose in small ones."""

__all__ = ["Machine", "choose_device", "choose_dtype", "choose_machine", "precision_of"]


@dataclass(frozen=True)
class Machine:
    device: torch.device
    precision: str

    def chosen(self) -> AbstractContextManager:
        """A context in which streams, graphs and kernels that name no GPU use this one."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def autocast(self) -> AbstractContextManager:
        """A context for matrix products in bfloat16, if that is the precision; weights, norms and sums stay float32."""
        if self.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of matrix products, in which weights that are not trained may be held, too."""
        return DTYPES[self.precision]

    def __str__(self) -> str:
        if self.device.type == "cuda":
            return f"{torch.cuda.get_device_name(self.device)}, {self.precision}"
        threads = torch.get_num_threads()
        return f"{self.device}, {threads} {'thread' if threads == 1 else 'threads'}, {self.precision}"


def choose_machine(device: str = "auto", precision: str = "auto", width: int = 0) -> Machine:
    """By default a GPU if there is one, else the CPU, and bf16 if it is good at it for a model of this width."""
    chosen = choose_device(device)
    return Machine(chosen, precision if precision != "auto" else best_precision(chosen, width))


def choose_device(device: str = "auto") -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return named(device)


def best_precision(device: torch.device, width: int) -> str:
    match device.type:
        case "cuda":
            good = torch.cuda.is_bf16_supported(including_emulation=False)
        case "cpu":
            good = width >= WIDE and cpu_multiplies_bf16()
        case _:
            good = False
    return "bf16" if good else "fp32"


def cpu_multiplies_bf16() -> bool:
    """Whether the CPU has bf16 instructions (AVX512-BF16, also on processors with AMX). PyTorch has no public test."""
    return getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)()


def choose_dtype(device: torch.device, precision: str = "auto") -> torch.dtype:
    """The dtype of weights for translation: by default fp16 on a GPU, fp32 elsewhere.

    bf16 would never overflow, but has 3 bits less, and would change the order of a beam's outputs more often.
    """
    best = torch.float16 if device.type == "cuda" else torch.float32
    dtype = choose("--precision", precision, {"auto": best, **HELD})
    if dtype == torch.int8 and device.type != "cpu":
        raise OptionError(f"--precision int8 is for CPUs, got {device}", hint="on a GPU, fp16 is faster")
    return dtype


def precision_of(dtype: torch.dtype) -> str:
    """The name of a dtype as `choose_dtype` takes it, or torch's name for any other dtype."""
    return {known: name for name, known in HELD.items()}.get(dtype, str(dtype).removeprefix("torch."))


def named(device: str) -> torch.device:
    hint = "'auto' uses a GPU if there is one"
    if not DEVICE.fullmatch(device):
        raise OptionError(f"--device must be 'auto', 'cpu', 'cuda' or 'cuda:1', got {device!r}", hint=hint)
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    # torch raises whatever the backend raises: no such GPU, a build without it
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
        raise OptionError(f"--device must be there and usable, got {device!r}: {reason}", hint=hint) from None
    return chosen
