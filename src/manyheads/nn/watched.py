"""Whether somebody follows what is computed, operation by operation, and so expects PyTorch's own operations."""

import torch
from torch.autograd import forward_ad

__all__ = ["check_first_derivative", "is_watched"]


def is_watched() -> bool:
    """Whether operations are being compiled, traced, counted, transformed (torch.func) or derived forwards."""
    return bool(
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )


def check_first_derivative(what: str) -> None:
    """In a backward pass: refuse to be derived in turn, where the gradient would be taken for a constant.

    PyTorch's `once_differentiable` notices it only if somebody goes back through the gradient itself.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(f"{what} has no second derivative")
