"""BERT from a folder of Hugging Face and back, plain or as sentence-transformers has it.

sentence-transformers adds a pooling, and scales vectors to length 1.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from manyheads.errors import InputError, brief
from manyheads.interop.bert_head import SAID_TWICE, knows_words, names_with_head
from manyheads.interop.exported import PLAIN, Exported, as_json, grouped, their_activation, unlike
from manyheads.interop.huggingface import Source, give, take
from manyheads.interop.imported import ACTIVATIONS, Imported, beyond, cut_words, known, require
from manyheads.interop.pieces import pieces_of
from manyheads.models.config import EncoderConfig
from manyheads.recipe import DataConfig, EmbedConfig, Recipe
from manyheads.storage import PLAIN_NAME
from manyheads.text.foreign import ForeignPieces
from manyheads.text.vocabulary import Vocabulary

__all__ = ["export_bert", "import_bert", "misfits"]

NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")

POOLINGS = {"mean_tokens": "mean", "cls_token": "first", "max_tokens": "max"}
PREFIX = "bert."
"""Of tensor names in models with a head."""
SEGMENTS = "embeddings.token_type_embeddings.weight"
INPUTS = ("input_ids", "token_type_ids", "attention_mask")
SHAPE = PLAIN | {
    "norm": "post", "normaliser": "layer", "positions": "learned", "bias": True, "feedforward_bias": True, "embed_norm": True,
}  # fmt: skip
"""What a model of ours must be to equal a BERT."""


# ── the way in ──────────────────────────────────────────────────────────────────────────────────────────────────────


def import_bert(source: Source) -> Imported:
    config = source.json("config.json")
    model, pieces = model_of(config, source), ForeignPieces(source.json("tokenizer.json"))
    stored = {name.removeprefix(PREFIX): tensor for name, tensor in source.weights().items()}
    names, no_loss = dict(names_of(model)), ["embeddings.position_ids"]
    task, tables, data = "embed", ["words.weight"], DataConfig(vocabulary=pieces.size)
    if knows_words(stored, pieces) and model.max_length > 2:  # begin and end are tokens, too
        names, no_loss = names_with_head(names), [*no_loss, *SAID_TWICE]
        task, tables = "mask", ["body.words.weight", "prediction.bias"]
        data = DataConfig(vocabulary=pieces.size, max_length=model.max_length - 2)
    weights = take(stored, names, source.folder)
    cut_words(weights, tables, pieces, source)
    sections: Any = {"model": model, "data": data, "embed": embed_of(source, model)}
    recipe = Recipe(f"{source.folder.name}, imported", task, "", **sections)
    return Imported(recipe, Vocabulary(pieces), weights, beyond(stored, names, no_loss))


def model_of(config: dict[str, Any], source: Source) -> EncoderConfig:
    require(config, NEEDED, source)
    if config.get("is_decoder") or config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(
            f"{source.folder}: a BERT must read in both directions, with absolute positions, got another kind"
        )
    return EncoderConfig(
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        feedforward=config["intermediate_size"],
        activation=known("hidden_act", config.get("hidden_act", "gelu"), ACTIVATIONS, source),  # type: ignore[arg-type]
        dropout=config.get("hidden_dropout_prob", 0.1),
        norm_eps=config.get("layer_norm_eps", 1e-12),
        max_length=config["max_position_embeddings"],
        segments=config.get("type_vocab_size", 2),
    )


def embed_of(source: Source, model: EncoderConfig) -> EmbedConfig:
    """The embedding settings that the modules of sentence-transformers define; without modules, the mean."""
    if not source.has("modules.json"):
        return EmbedConfig(max_length=model.max_length)
    pooling, normalise = "mean", False
    for module in source.json("modules.json", list):
        kind, path = (str(module.get(name, "")) if isinstance(module, dict) else "" for name in ("type", "path"))
        match kind.rpartition(".")[2]:
            case "Transformer":
                pass
            case "Pooling":
                if not PLAIN_NAME.fullmatch(path):
                    raise InputError(f"{source.folder}: a module must be in a folder beside modules.json, got {path!r}")
                pooling = pooling_of(source, f"{path}/config.json")
            case "Normalize":
                normalise = True
            case other:
                raise InputError(f"{source.folder}: modules must be Transformer, Pooling or Normalize, got {other!r}")
    return EmbedConfig(pooling, normalise, min(longest_of(source, model), model.max_length))  # type: ignore[arg-type]


def longest_of(source: Source, model: EncoderConfig) -> int:
    """Most tokens of a text. Other settings in these files that would change vectors are refused."""
    said = {
        name: value
        for file in ("sentence_bert_config.json", "config_sentence_transformers.json")
        for name, value in (source.json(file) if source.has(file) else {}).items()
    }
    for name in ("do_lower_case", "default_prompt_name"):
        if said.get(name):
            raise InputError(f"{source.folder}: {name} cannot be imported, got {brief(said[name])}")
    most = said.get("max_seq_length") or model.max_length
    if type(most) is not int:
        raise InputError(f"{source.folder}: max_seq_length must be a whole number, got {brief(most)}")
    return most


def pooling_of(source: Source, name: str) -> str:
    said = source.json(name)
    wanted = [
        mode.removeprefix("pooling_mode_")
        for mode, on in said.items()
        if mode.startswith("pooling_mode_") and on is True
    ]
    if isinstance(newer := said.get("pooling_mode"), str):  # newer versions write a single name
        wanted = [{"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}.get(newer, newer)]
    if len(wanted) != 1 or wanted[0] not in POOLINGS:
        raise InputError(
            f"{source.folder / name}: pooling must be one of {', '.join(POOLINGS)}, got {', '.join(wanted) or 'none'}"
        )
    return POOLINGS[wanted[0]]


# ── the way out ─────────────────────────────────────────────────────────────────────────────────────────────────────


def misfits(config: EncoderConfig) -> list[str]:
    """What keeps a model from being exported as a BERT."""
    odd = [] if their_activation(config) else [f"model.activation = 'gelu', got {config.activation!r}"]
    return [*unlike(config, SHAPE), *grouped(config), *odd]


def export_bert(model: nn.Module, vocabulary: Vocabulary, recipe: Recipe) -> Exported:
    """A BERT that sentence-transformers reads, too. It lacks a pooler, which our vectors do without."""
    config, embed = recipe.encoder, recipe.embed
    pieces = pieces_of(vocabulary.source, closed=True)
    weights = give(model.state_dict(), dict(names_of(config)), config)
    if not config.segments:  # a BERT always adds a segment vector: here the only one, which is 0
        weights[SEGMENTS] = torch.zeros(1, config.width)
    return Exported(
        config_of(config, vocabulary.source.size, pieces.id("pad_token") or 0),
        weights,
        {**pieces.files(embed.max_length, INPUTS), **modules_of(embed, config)},
    )


def config_of(config: EncoderConfig, words: int, padding: int) -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": words,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feedforward,
        "hidden_act": their_activation(config),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "layer_norm_eps": config.norm_eps,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": max(1, config.segments),
        "pad_token_id": padding,
    }


def modules_of(embed: EmbedConfig, config: EncoderConfig) -> dict[str, bytes]:
    """The files that define what sentence-transformers does with the states of tokens."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if embed.normalise else [])]
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    modes = {f"pooling_mode_{theirs}": ours == embed.pooling for theirs, ours in POOLINGS.items()}
    return {
        "modules.json": as_json(modules),
        "sentence_bert_config.json": as_json({"max_seq_length": embed.max_length, "do_lower_case": False}),
        "1_Pooling/config.json": as_json({"word_embedding_dimension": config.width, **modes}),
    }


# ── both ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def names_of(config: EncoderConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and theirs. Here, queries, keys and values are one matrix."""
    yield "words.weight", ("embeddings.word_embeddings.weight",)
    yield "embed.positions.table.weight", ("embeddings.position_embeddings.weight",)
    if config.segments:
        yield "embed.segments.weight", (SEGMENTS,)
    for part in ("weight", "bias"):
        yield f"embed.norm.{part}", (f"embeddings.LayerNorm.{part}",)
    for n in range(config.layers):
        ours, theirs = f"encoder.blocks.{n}", f"encoder.layer.{n}"
        for part in ("weight", "bias"):
            parts = tuple(f"{theirs}.attention.self.{name}.{part}" for name in ("query", "key", "value"))
            yield f"{ours}.attention.input.{part}", parts
            yield f"{ours}.attention.output.{part}", (f"{theirs}.attention.output.dense.{part}",)
            yield f"{ours}.around_attention.norm.{part}", (f"{theirs}.attention.output.LayerNorm.{part}",)
            yield f"{ours}.feedforward.up.{part}", (f"{theirs}.intermediate.dense.{part}",)
            yield f"{ours}.feedforward.down.{part}", (f"{theirs}.output.dense.{part}",)
            yield f"{ours}.around_feedforward.norm.{part}", (f"{theirs}.output.LayerNorm.{part}",)
