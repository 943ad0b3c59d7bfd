"""Our model as a Hugging Face `MarianMTModel`: the same weights, and the same search."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from manyheads import Transformer, TransformerConfig
from manyheads.nn import MultiHeadAttention
from manyheads.text.tokenizer import BEGIN, END, PADDING

SHAPE = {
    "norm": "post", "normaliser": "layer", "norm_eps": 1e-5, "positions": "sinusoidal-split", "activation": "relu",
    "bias": True, "feedforward_bias": True, "tie": "all", "cross": "last", "score": "scaled-dot", "qk_norm": False,
}  # fmt: skip
"""The options with which our Transformer is a Marian. `manyheads train … --set model.norm=post …` builds one."""


def misfits(config: TransformerConfig) -> list[str]:
    """The settings of a model that Marian does not have."""
    wrong = [f"{name}={getattr(config, name)}" for name, value in SHAPE.items() if getattr(config, name) != value]
    odd = config.kv_heads not in (None, config.heads) or config.head_width * config.heads != config.width
    return [*wrong, *(["heads of another width"] if odd or config.value_width or config.window else [])]


def as_marian(model: Transformer, longest: int = 1_024) -> MarianMTModel:
    """A Marian with the same logits, and `longest` positions in its table."""
    config, words = model.config, model.words.num_embeddings
    if wrong := misfits(config):
        raise SystemExit(f"a Marian model is not {', '.join(wrong)}")
    marian: Any = MarianMTModel(
        MarianConfig(
            vocab_size=words, d_model=config.width, encoder_layers=config.layers, decoder_layers=config.depth,
            encoder_attention_heads=config.heads, decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.feedforward, decoder_ffn_dim=config.feedforward, activation_function="relu",
            max_position_embeddings=longest, scale_embedding=True, dropout=0.0, forced_eos_token_id=None,
            decoder_start_token_id=BEGIN, pad_token_id=PADDING, eos_token_id=END, bos_token_id=BEGIN,
        )
    )  # fmt: skip
    missing = marian.load_state_dict(dict(weights(model)), strict=False).missing_keys
    if odd := [name for name in missing if "embed_positions" not in name and name != "final_logits_bias"]:
        raise SystemExit(f"these weights of Marian's were not given: {odd}")
    weight = model.words.weight
    return marian.to(weight.device, weight.dtype).eval()


def weights(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    table = model.words.weight
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        yield f"{name}.weight", table
    for side, blocks in (("encoder", model.encoder.blocks), ("decoder", model.decoder.blocks)):
        for number, block in enumerate(blocks):
            for name, tensor in block_weights(block):
                yield f"model.{side}.layers.{number}.{name}", tensor


def block_weights(block: Any) -> Iterator[tuple[str, Tensor]]:
    yield from attention_weights("self_attn", block.attention)
    yield from linear("self_attn_layer_norm", block.around_attention.norm)
    if hasattr(block, "cross"):
        yield from attention_weights("encoder_attn", block.cross)
        yield from linear("encoder_attn_layer_norm", block.around_cross.norm)
    yield from linear("fc1", block.feedforward.up)
    yield from linear("fc2", block.feedforward.down)
    yield from linear("final_layer_norm", block.around_feedforward.norm)


def attention_weights(name: str, attention: MultiHeadAttention) -> Iterator[tuple[str, Tensor]]:
    parts = zip("qkv", attention.input.weight.chunk(3), attention.input.bias.chunk(3), strict=True)
    for letter, weight, bias in parts:
        yield f"{name}.{letter}_proj.weight", weight
        yield f"{name}.{letter}_proj.bias", bias
    yield from linear(f"{name}.out_proj", attention.output)


def linear(name: str, layer: Any) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", layer.weight
    yield f"{name}.bias", layer.bias


@torch.no_grad()
def generate(marian: Any, source: Tensor, limit: int, beam: int, *, static: bool = False) -> list[list[int]]:
    """The ids that `generate` writes, without begin and end. With no length penalty, its rule for stopping is ours.

    It runs eagerly with a cache that grows; with a static one, transformers compiles the model's steps on a GPU.
    """
    options: dict[str, Any] = (
        {"num_beams": beam, "length_penalty": 0.0, "early_stopping": False} if beam > 1 else {"num_beams": 1}
    )
    written: Any = marian.generate(
        input_ids=source, attention_mask=(source != PADDING).long(), max_new_tokens=limit, do_sample=False,
        suppress_tokens=[PADDING, BEGIN], cache_implementation="static" if static else None, **options,
    )  # fmt: skip
    return [until_end(ids[1:]) for ids in written.tolist()]


def until_end(ids: list[int]) -> list[int]:
    """The ids before the end, without the padding that fills up a row. An output that was cut off has no end."""
    return [word for word in ids[: ids.index(END) if END in ids else len(ids)] if word != PADDING]
