"""Llama from a folder of Hugging Face, and back.

It has rotary positions, SwiGLU, RMS norms, and heads that may share keys and values.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

from manyheads.errors import InputError, brief
from manyheads.interop.exported import PLAIN, Exported, unlike
from manyheads.interop.huggingface import Source, give
from manyheads.interop.imported import Imported, require
from manyheads.interop.language_models import (
    HEAD,
    exported_language_model,
    frame_said,
    imported_language_model,
    open_pieces,
)
from manyheads.models.config import LanguageModelConfig
from manyheads.recipe import Recipe
from manyheads.text.tokenizer import Tokenizer
from manyheads.text.vocabulary import Vocabulary

__all__ = ["config_of", "export_llama", "import_llama", "misfits"]

NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
BASE = 10_000.0
"""The base of rotary positions here."""
BUFFERS = ("rotary_emb.inv_freq",)
SHAPE = PLAIN | {"norm": "pre", "normaliser": "rms", "positions": "rotary", "activation": "swiglu"}
"""What a model of ours must be to equal a Llama."""


# ── the way in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def import_llama(source: Source) -> Imported:
    config = source.json("config.json")
    model, pieces, stored = model_of(config, source), open_pieces(config, source), source.weights()
    return imported_language_model(source, model, pieces, stored, dict(names_of(model)), BUFFERS)


def model_of(config: dict[str, Any], source: Source) -> LanguageModelConfig:
    require(config, NEEDED, source, optional=("num_key_value_heads", "head_dim"))
    check_rotary(config, source)
    if config.get("hidden_act", "silu") != "silu":
        raise InputError(
            f"{source.folder}: the hidden_act of a Llama must be 'silu', got {brief(config['hidden_act'])}"
        )
    return LanguageModelConfig(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        kv_heads=config.get("num_key_value_heads"),
        key_width=config.get("head_dim"),
        feedforward=config["intermediate_size"],
        activation="swiglu",
        dropout=0.0,
        attention_dropout=config.get("attention_dropout", 0.0),
        normaliser="rms",
        norm_eps=config.get("rms_norm_eps", 1e-6),
        positions="rotary",
        max_length=config["max_position_embeddings"],
        bias=config.get("attention_bias", False),
        feedforward_bias=config.get("mlp_bias", False),
        tie=config.get("tie_word_embeddings", False),
    )


def check_rotary(config: dict[str, Any], source: Source) -> None:
    """Refuse positions that do not turn as ours do: stretched ones, and any with another base.

    Newer versions store this in one table, older ones under two keys.
    """
    said = config.get("rope_parameters") or config.get("rope_scaling") or {}
    table = said if isinstance(said, dict) else {"rope_type": said}
    kind, base = (
        table.get("rope_type", table.get("type", "default")),
        table.get("rope_theta", config.get("rope_theta", BASE)),
    )
    if kind != "default" or base != BASE:
        raise InputError(
            f"{source.folder}: rotary positions to import must have the rope_type 'default' and the rope_theta {BASE:g}, "
            f"got {brief(kind)} and {brief(base)}"
        )


# ── the way out ─────────────────────────────────────────────────────────────────────────────────────────────────────


def misfits(config: LanguageModelConfig) -> list[str]:
    """What keeps a model from being exported as a Llama."""
    wide = config.value_width not in (None, config.head_width)
    return [
        *unlike(config, SHAPE),
        *([f"model.value_width = {config.head_width}, got {config.value_width}"] if wide else []),
    ]


def export_llama(model: nn.Module, vocabulary: Vocabulary, recipe: Recipe) -> Exported:
    config, tokenizer = recipe.language_model, vocabulary.source
    weights = give(model.state_dict(), dict(names_of(config)), config)
    return exported_language_model(config_of(config, tokenizer), weights, tokenizer, config.max_length)


def config_of(config: LanguageModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """The contents of config.json. The only dropout that a Llama knows is that of the attention weights."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": tokenizer.size,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.head_width,
        "intermediate_size": config.feedforward,
        "hidden_act": "silu",
        "attention_dropout": config.attention_dropout,
        "rms_norm_eps": config.norm_eps,
        "max_position_embeddings": config.max_length,
        "rope_theta": BASE,
        "attention_bias": config.bias,
        "mlp_bias": config.feedforward_bias,
        "tie_word_embeddings": config.tie,
        **frame_said(tokenizer),
    }


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def names_of(config: LanguageModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and theirs. Here, queries, keys and values are one matrix, and so are the halves of a gate."""
    yield "words.weight", ("model.embed_tokens.weight",)
    yield "decoder.norm.weight", ("model.norm.weight",)
    if not config.tie:
        yield "head.weight", (HEAD,)
    for n in range(config.layers):
        ours, theirs = f"decoder.blocks.{n}", f"model.layers.{n}"
        yield f"{ours}.around_attention.norm.weight", (f"{theirs}.input_layernorm.weight",)
        yield f"{ours}.around_feedforward.norm.weight", (f"{theirs}.post_attention_layernorm.weight",)
        for part in ("weight", *(["bias"] if config.bias else [])):
            parts = tuple(f"{theirs}.self_attn.{name}_proj.{part}" for name in "qkv")
            yield f"{ours}.attention.input.{part}", parts
            yield f"{ours}.attention.output.{part}", (f"{theirs}.self_attn.o_proj.{part}",)
        for part in ("weight", *(["bias"] if config.feedforward_bias else [])):
            yield f"{ours}.feedforward.up.{part}", (f"{theirs}.mlp.gate_proj.{part}", f"{theirs}.mlp.up_proj.{part}")
            yield f"{ours}.feedforward.down.{part}", (f"{theirs}.mlp.down_proj.{part}",)
