"""PyTorch's own modules and Hugging Face's Marian, arranged to do the same work as ours, each in its fastest way.

A peer is called with padded ids, (source, target), and returns logits.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Marian", "TorchTransformer", "without_hidden_dropout", "without_weight_dropout"]


class TorchTransformer(nn.Module):
    """nn.Transformer between tied embeddings and a head, with sinusoidal positions from a table."""

    def __init__(self, words: int, width: int, heads: int, layers: int, hidden: int, dropout: float, positions: Tensor):
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=width**-0.5)  # also the head: logits should start small
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
    """The module without dropout on attention weights, which PyTorch's layers have, and ours only if asked."""
    for part in module.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    return module


def without_hidden_dropout(module: nn.Module) -> nn.Module:
    """The module without dropout on hidden units, which PyTorch's layers have, and Marian and ours only if asked."""
    for part in module.modules():
        if isinstance(part, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
            part.dropout = nn.Identity()  # type: ignore[assignment]
    return module


class Marian(nn.Module):
    """Hugging Face's MarianMTModel with random weights: post-norm, attention by SDPA, one shared table of words."""

    def __init__(self, words: int, width: int, heads: int, layers: int, hidden: int, dropout: float, longest: int):
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        options: dict[str, Any] = {
            f"{side}_{name}": value
            for side in ("encoder", "decoder")
            for name, value in (("layers", layers), ("ffn_dim", hidden), ("attention_heads", heads))
        }
        options["attn_implementation"] = "sdpa"
        config = MarianConfig(
            vocab_size=words, d_model=width, dropout=dropout, max_position_embeddings=longest, use_cache=False,
            activation_function="relu", scale_embedding=True, pad_token_id=0, eos_token_id=2, forced_eos_token_id=2,
            decoder_start_token_id=1, **options,
        )  # fmt: skip
        self.body = MarianMTModel(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.body(
            input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target, use_cache=False
        ).logits

    def whole_graph(self) -> "Marian":
        """Make it possible to compile the model in one piece.

        In training mode its stacks draw for each layer whether to skip it (here never), which breaks the graph at every
        layer. So the stacks are put in evaluation mode, but not their layers. The stacks then lack the dropout of the
        embeddings, which is to their advantage.
        """
        self.body.model.encoder.training = self.body.model.decoder.training = False
        return self
