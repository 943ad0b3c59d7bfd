"""x · Wᵀ + b. On processors from AMD by oneDNN, which multiplies float32 matrices there up to twice as fast as MKL.

W may also be in 8 bits (eightbits.py).

PyTorch contains both libraries and uses MKL for float32, whatever the processor. It calls oneDNN for plain float32
tensors only in code that it has compiled, so the operator that compiled code calls is called here. docs/decisions.md
has figures; `torch.backends.mkldnn.enabled = False` turns it off.

N rows · D input width · F output width
"""

import os
import platform
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.nn.eightbits import EightBits
from manyheads.nn.watched import is_watched

__all__ = ["Linear", "linear", "weight_gradient"]

PLAIN = (Tensor, nn.Parameter)
FEWEST = 2**22
"""Multiply-adds: oneDNN generates code for each new shape, in 0.35 ms, which small products do not make up for."""

FEW_ROWS, FEWEST_OF_FEW = 16, 2**20
"""So few rows are those of a search, which multiplies the same shapes again at every step."""

UNABLE = ("primitive", "memory descriptor")
"""What oneDNN says if there is no memory for its code, or if it has none for memory that lies as it does."""

CODE_KEPT, KEPT_BY_THREAD = 64, 16
"""Shapes whose code is kept: it takes about a megabyte each. A training step has some 40; oneDNN would keep 1,024. What
PyTorch keeps of it besides, it keeps once more for each thread."""

OLDER_NAME = "DNNL_PRIMITIVE_CACHE_CAPACITY"


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


def keep_less_code(environment: MutableMapping[str, str] = os.environ) -> None:
    """Bound oneDNN's cache, and PyTorch's of the same: both are read when oneDNN is first used, not before."""
    if OLDER_NAME not in environment:
        environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(CODE_KEPT))
    environment.setdefault("LRU_CACHE_CAPACITY", str(KEPT_BY_THREAD))


ONEDNN = is_faster()
if ONEDNN:
    keep_less_code()


class Linear(nn.Linear):
    """nn.Linear, computed by `linear`."""

    def forward(self, input: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch F"]:  # noqa: A002 (its name in nn.Linear)
        return linear(input, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "F D"] | EightBits, bias: Float[Tensor, " F"] | None = None
) -> Float[Tensor, "*batch F"]:
    """F.linear, with gradients of gradients as well; a weight in 8 bits has none."""
    if isinstance(weight, EightBits):
        return weight.product(x, bias)
    if not (ONEDNN and suits(x, weight, bias)):
        return F.linear(x, weight, bias)
    rows = x.flatten(0, -2)
    learns = torch.is_grad_enabled()
    y = Product.apply(rows, weight, bias) if learns else product(rows, weight, bias)
    return y.unflatten(0, x.shape[:-1])  # type: ignore[no-any-return]


def suits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether all are ordinary float32 matrices on the CPU, large enough, and nothing follows or transforms them."""
    return (
        type(x) in PLAIN  # asked first: what stands for a tensor while it is traced has no answer to the rest
        and not is_watched()  # a counter of operations knows F.linear only
        and is_plain(x)
        and is_plain(weight)
        and x.ndim >= weight.ndim == 2
        and is_large(x.numel(), *weight.shape)
        and x.shape[-1] == weight.shape[-1]  # if not, F.linear says so
        and (bias is None or (is_plain(bias) and bias.shape == weight.shape[:1] and bias.is_contiguous()))
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_mkldnn_enabled()
    )


def is_large(numbers: int, outputs: int, inputs: int) -> bool:
    """Whether a product of x, which has so many numbers, is large enough."""
    return numbers * outputs >= (FEWEST_OF_FEW if numbers <= FEW_ROWS * inputs else FEWEST)


def is_plain(x: Tensor) -> bool:
    return (
        type(x) in PLAIN
        and x.is_cpu
        and x.dtype == torch.float32
        and x.layout == torch.strided
        and not x.is_nested
        and not torch._C._functorch.is_legacy_batchedtensor(x)  # of `is_grads_batched`
    )


def product(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "F D"], bias: Float[Tensor, " F"] | None
) -> Float[Tensor, "N F"]:
    try:
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]
    except RuntimeError as error:
        if not any(words in str(error) for words in UNABLE):
            raise
        return F.linear(x, weight, bias)


class Product(torch.autograd.Function):
    """`product` and its gradients, which are products themselves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        for_x, for_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if for_weight else None, weight if for_x else None)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        return (
            None if weight is None else linear(gradient, weight.T),
            None if x is None else weight_gradient(gradient, x),
            gradient.sum(0) if ctx.needs_input_grad[2] else None,
        )


def weight_gradient(gradient: Float[Tensor, "N F"], x: Float[Tensor, "N D"]) -> Float[Tensor, "F D"]:
    """gradientᵀ · x. The left factor of a product is copied if it is transposed: that should be the narrower one."""
    if gradient.shape[1] > x.shape[1]:
        return linear(x.T, gradient.T).T
    return linear(gradient.T, x.T)
