"""GPT-2 from a folder of Hugging Face, and back."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from manyheads.errors import InputError
from manyheads.interop.exported import PLAIN, Exported, grouped, their_activation, unlike
from manyheads.interop.huggingface import Source, give
from manyheads.interop.imported import ACTIVATIONS, Imported, known, require
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

__all__ = ["export_gpt2", "import_gpt2", "misfits"]

NEEDED = ("n_embd", "n_layer", "n_head", "n_positions")
UNLIKE = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
"""Settings that a model must have, or leave out, to compute what ours compute."""
PREFIX = "transformer."
TURNED = (".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")
"""These matrices are stored transposed, with one row per input."""
BUFFERS = (".attn.bias", ".attn.masked_bias")
SHAPE = PLAIN | {"norm": "pre", "normaliser": "layer", "positions": "learned", "bias": True, "feedforward_bias": True}
"""What a model of ours must be to equal a GPT-2."""


# ── the way in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def import_gpt2(source: Source) -> Imported:
    config = source.json("config.json")
    model, pieces = model_of(config, source), open_pieces(config, source)
    stored = {name.removeprefix(PREFIX): tensor for name, tensor in source.weights().items()}
    stored = {name: tensor.T if name.endswith(TURNED) else tensor for name, tensor in stored.items()}
    return imported_language_model(source, model, pieces, stored, dict(names_of(model)), BUFFERS)


def model_of(config: dict[str, Any], source: Source) -> LanguageModelConfig:
    require(config, NEEDED, source, optional=("n_inner",))
    for name, wanted in UNLIKE.items():
        if config.get(name, wanted) != wanted:
            raise InputError(
                f"{source.folder}: {name} must be {wanted} for a model to be imported, got {config[name]!r}"
            )
    activation = known("activation_function", config.get("activation_function", "gelu_new"), ACTIVATIONS, source)
    return LanguageModelConfig(
        width=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        feedforward=config.get("n_inner") or 4 * config["n_embd"],
        activation=activation,  # type: ignore[arg-type]
        dropout=config.get("resid_pdrop", 0.1),
        norm_eps=config.get("layer_norm_epsilon", 1e-5),
        max_length=config["n_positions"],
        tie=config.get("tie_word_embeddings", True),
    )


# ── the way out ─────────────────────────────────────────────────────────────────────────────────────────────────────


def misfits(config: LanguageModelConfig) -> list[str]:
    """What keeps a model from being exported as a GPT-2."""
    odd = [] if their_activation(config) else [f"model.activation = 'gelu-tanh', got {config.activation!r}"]
    return [*unlike(config, SHAPE), *grouped(config), *odd]


def export_gpt2(model: nn.Module, vocabulary: Vocabulary, recipe: Recipe) -> Exported:
    config, tokenizer = recipe.language_model, vocabulary.source
    weights = {
        name if name == HEAD else PREFIX + name: tensor.T if name.endswith(TURNED) else tensor
        for name, tensor in give(model.state_dict(), dict(names_of(config)), config).items()
    }
    return exported_language_model(config_of(config, tokenizer), weights, tokenizer, config.max_length)


def config_of(config: LanguageModelConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": tokenizer.size,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.feedforward,
        "n_positions": config.max_length,
        "activation_function": their_activation(config),
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tie,
        **frame_said(tokenizer),
    }


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def names_of(config: LanguageModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and theirs."""
    yield "words.weight", ("wte.weight",)
    yield "positions.table.weight", ("wpe.weight",)
    if not config.tie:
        yield "head.weight", (HEAD,)
    pairs = {
        "attention.input": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "feedforward.up": "mlp.c_fc",
        "feedforward.down": "mlp.c_proj",
        "around_attention.norm": "ln_1",
        "around_feedforward.norm": "ln_2",
    }
    for part in ("weight", "bias"):
        yield f"decoder.norm.{part}", (f"ln_f.{part}",)
        for n in range(config.layers):
            for ours, theirs in pairs.items():
                yield f"decoder.blocks.{n}.{ours}.{part}", (f"h.{n}.{theirs}.{part}",)
