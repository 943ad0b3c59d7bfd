"""How every parameter is initialised, in one place.

words                       normal, 1/√D    multiplied by √D when read, a word has unit variance
learned positions           normal, 1/√2    as large as the sinusoids they replace
query, key, value, up       Xavier uniform  each matrix by its own fan-in and fan-out, even where several share a tensor
output, down                Xavier uniform  pre-norm: times 1/√(sublayers of the stack), so that the residual
                                            stream does not grow with depth; post-norm renormalises it anyway
untied head                 normal, 1/√D    like a tied head, which is the table of words
biases                      0
norms                       1, 0
additive score              normal, 1/√K
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from manyheads.models.matrices import matrices_of
from manyheads.nn import Additive, Decoder, Encoder, FeedForward, LearnedPositions, MultiHeadAttention, PreNorm

__all__ = ["initialise"]


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Set every parameter of a model built from `manyheads.nn`. (On the meta device there is nothing to set.)"""
    if any(parameter.is_meta for parameter in model.parameters()):
        return
    for module in model.modules():
        match module:
            case MultiHeadAttention() | FeedForward():
                for matrix, rows in matrices_of(module):
                    xavier(matrix.split(rows))
            case nn.Embedding():
                nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
            case nn.LayerNorm() | nn.RMSNorm() | Additive():
                module.reset_parameters()
        if isinstance(bias := getattr(module, "bias", None), Tensor):
            nn.init.zeros_(bias)
    if isinstance(head := getattr(model, "head", None), nn.Linear):
        nn.init.normal_(head.weight, std=head.in_features**-0.5)
    for module in model.modules():
        if isinstance(module, LearnedPositions):
            nn.init.normal_(module.table.weight, std=0.5**0.5)
        elif isinstance(module, (Encoder, Decoder)):
            shrink_residuals(module)


def xavier(matrices: Iterable[Tensor]) -> None:
    for matrix in matrices:
        nn.init.xavier_uniform_(matrix)


def shrink_residuals(stack: Encoder | Decoder) -> None:
    """In a pre-norm stack, n sublayers add up on one stream: scale the last matrix of each by 1/√n."""
    sublayers = [m for m in stack.modules() if isinstance(m, (MultiHeadAttention, FeedForward))]
    if not any(isinstance(m, PreNorm) for m in stack.modules()):
        return
    for sublayer in sublayers:
        last = sublayer.output if isinstance(sublayer, MultiHeadAttention) else sublayer.down
        last.weight.mul_(len(sublayers) ** -0.5)
