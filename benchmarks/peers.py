"""PyTorch's own modules, arranged to do the same work as ours, each in the way that is fastest for it."""

import math

import torch
from torch import Tensor, nn


class TorchTransformer(nn.Module):
    """nn.Transformer between tied embeddings and a head, with sinusoidal positions from a table."""

    def __init__(self, words: int, width: int, heads: int, layers: int, hidden: int, dropout: float, positions: Tensor):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.register_buffer("positions", positions, persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.body = nn.Transformer(
            width, heads, layers, layers, hidden, dropout, batch_first=True, norm_first=True, bias=True
        )
        self.scale = math.sqrt(width)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.words(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == 0
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], target.device, dtype=torch.bool)
        x = self.body(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return x @ self.words.weight.T


def without_weight_dropout(module: nn.Module) -> nn.Module:
    """PyTorch's layers drop attention weights too; ours do not unless asked. Same work for both."""
    for part in module.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    return module
