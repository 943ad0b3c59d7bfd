"""Layer norm and RMS norm, as PyTorch has them, with a backward pass of our own on a GPU.

A norm's gradient needs sums along each row, and the gradients of its weight and bias need sums over all rows. Compilers
make two passes of it, or one that is slower than two; our kernel reads everything once (norm_kernels.py). The forward
pass stays visible to the compiler. A norm inside a pre-norm stack, and the one at its end, can also be given a stream
(stream.py): it then adds the pending output first.

D width
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from manyheads.errors import choose
from manyheads.nn.add_norm import half_of, norm_backward, suits
from manyheads.nn.kernels import HAVE_TRITON
from manyheads.nn.stream import Stream, flow

__all__ = ["INNER", "InnerLayerNorm", "InnerRMSNorm", "make_norm"]


def make_norm(kind: str, width: int, eps: float, *, inner: bool = False) -> nn.Module:
    """A norm of kind "layer" or "rms".

    The output of an inner norm is only ever multiplied by matrices, so under autocast it may be in half precision.
    """
    if inner:
        return choose("normaliser", kind, {"layer": InnerLayerNorm, "rms": InnerRMSNorm})(width, eps=eps)
    return choose("normaliser", kind, {"layer": nn.LayerNorm, "rms": nn.RMSNorm})(width, eps=eps)


class InnerLayerNorm(nn.LayerNorm):
    def forward(self, input: Float[Tensor, "*batch D"] | Stream) -> Float[Tensor, "*batch D"]:  # noqa: A002
        if isinstance(input, Stream):
            return flow(input, self)[1]
        return Normalise.apply(input, self.weight, self.bias, self.eps) if fast(input) else super().forward(input)


class InnerRMSNorm(nn.RMSNorm):
    def forward(self, x: Float[Tensor, "*batch D"] | Stream) -> Float[Tensor, "*batch D"]:
        if isinstance(x, Stream):
            return flow(x, self)[1]
        return Normalise.apply(x, self.weight, None, self.eps) if fast(x) else super().forward(x)


INNER = (InnerLayerNorm, InnerRMSNorm)


def fast(x: Tensor) -> bool:
    """True where training is compiled for a GPU in half precision.

    Without training there is no backward pass, and without a compiler PyTorch's own kernel is best. If the output is
    not cast at the end, PyTorch 2.11 loses the gradient of what `Normalise` returns.
    """
    return (
        x.is_cuda
        and HAVE_TRITON
        and torch.compiler.is_compiling()
        and torch.is_grad_enabled()
        and x.requires_grad
        and suits(x)
        and half_of(x) != x.dtype
    )


class Normalise(torch.autograd.Function):
    """Layer norm, or without a bias RMS norm, which does not subtract the mean."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        wide = x.float()
        mean = wide.mean(-1, keepdim=True) if bias is not None else wide.new_zeros(())
        centred = wide - mean
        scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.centred = bias is not None
        y = centred * scale * weight
        return (y if bias is None else y + bias).to(half_of(x))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight, mean, scale = ctx.saved_tensors
        dx, _, sums = norm_backward(gradient, None, x, mean, scale, weight, ctx.centred)
        return dx, sums[0], sums[1] if ctx.centred else None, None
