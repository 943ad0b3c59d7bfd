"""x · Wᵀ + b. On processors from AMD by oneDNN, which multiplies float32 matrices there twice as fast as MKL does.

PyTorch contains both libraries and uses MKL for float32, whatever the processor. On two cores of an EPYC with AVX-512,
4,096 × 512 times 512 × 2,048 takes MKL 39 ms and oneDNN 18; docs/decisions.md has more figures. PyTorch calls oneDNN for
plain float32 tensors only in code that it has compiled, so the operator that compiled code calls is called here.
`torch.backends.mkldnn.enabled = False` turns it off.

N rows · D input width · F output width
"""

import platform
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.watched import is_watched

__all__ = ["Linear", "linear", "weight_gradient"]

PLAIN = (Tensor, nn.Parameter)
FEWEST = 2**20  # multiply-adds: below, calling oneDNN takes longer than it saves


def is_faster() -> bool:
    """Whether this processor is one that MKL is slow on, and PyTorch was built with both libraries."""
    built = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return built and hasattr(torch.ops.mkldnn, "_linear_pointwise") and "AuthenticAMD" in processor()


def processor() -> str:
    """What the system says about its first processor."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.processor()


ONEDNN = is_faster()


class Linear(nn.Linear):
    """nn.Linear, computed by `linear`."""

    def forward(self, input: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch F"]:  # noqa: A002 (its name in nn.Linear)
        return linear(input, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "F D"], bias: Float[Tensor, " F"] | None = None
) -> Float[Tensor, "*batch F"]:
    """F.linear, with gradients of every order."""
    if not (ONEDNN and suits(x, weight)):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return Product.apply(x, weight, bias)  # type: ignore[no-any-return]
    return product(x, weight, bias)


def suits(x: Tensor, weight: Tensor) -> bool:
    """Whether x and W are ordinary float32 tensors on the CPU, large enough, and nothing watches or transforms them."""
    return (
        x.is_cpu
        and x.numel() * weight.shape[0] >= FEWEST
        and x.dtype == weight.dtype == torch.float32
        and type(x) in PLAIN
        and type(weight) in PLAIN
        and x.shape[-1:] == weight.shape[1:]  # if not, F.linear says so
        and not torch.is_autocast_enabled("cpu")
        and not is_watched()  # a counter of operations knows F.linear only
        and torch._C._get_mkldnn_enabled()
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


class Product(torch.autograd.Function):
    """`product` and its derivatives, which are products themselves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2) if gradient.ndim > 1 else gradient[None]
        return (
            linear(gradient, weight.T) if of_x else None,
            weight_gradient(rows, x.reshape(len(rows), -1)) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )

    @staticmethod
    def jvp(ctx: Any, x: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> Tensor:  # type: ignore[override]
        at_x, at_weight = ctx.saved_tensors
        parts = (
            None if x is None else linear(x, at_weight),
            None if weight is None else linear(at_x, weight),
            bias,
        )
        return sum(part for part in parts if part is not None)  # type: ignore[return-value]


def weight_gradient(gradient: Float[Tensor, "N F"], x: Float[Tensor, "N D"]) -> Float[Tensor, "F D"]:
    """gradientᵀ · x. The left factor of a product is copied if it is transposed: that should be the narrower one."""
    if gradient.shape[1] > x.shape[1]:
        return linear(x.T, gradient.T).T
    return linear(gradient.T, x.T)
