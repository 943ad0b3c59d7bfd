"""Access to our Triton kernels. Triton comes with PyTorch for CUDA, but not with PyTorch for the CPU."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["HAVE_TRITON", "kernels"]

HAVE_TRITON = find_spec("triton") is not None
"""Looked up once, on import: a compiler cannot trace the search for a module."""


@cache
def kernels(module: str) -> Any:
    """The kernels of `manyheads.nn.{module}_kernels`, imported when they are first needed."""
    return import_module(f"manyheads.nn.{module}_kernels")
