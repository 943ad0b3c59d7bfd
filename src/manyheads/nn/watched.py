"""Whether somebody follows what is computed, operation by operation, and so expects PyTorch's own operations."""

import torch

__all__ = ["is_watched"]


def is_watched() -> bool:
    """Whether operations are being compiled, traced, counted or transformed (torch.func)."""
    return bool(
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
    )
