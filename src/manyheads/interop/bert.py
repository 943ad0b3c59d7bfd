"""BERT from a folder of Hugging Face, as it is or as sentence-transformers has it: with a pooling, and vectors of length 1."""

from collections.abc import Iterator
from typing import Any

from manyheads.errors import InputError, brief
from manyheads.interop.huggingface import Source, take
from manyheads.interop.imported import ACTIVATIONS, Imported, beyond, cut_words, known, require
from manyheads.models.config import EncoderConfig
from manyheads.recipe import EmbedConfig, Recipe
from manyheads.storage import PLAIN_NAME
from manyheads.text.foreign import ForeignPieces
from manyheads.text.vocabulary import Vocabulary

__all__ = ["import_bert"]

NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")

POOLINGS = {"mean_tokens": "mean", "cls_token": "first", "max_tokens": "max"}
PREFIX = "bert."
"""Of models with a head."""


def import_bert(source: Source) -> Imported:
    config = source.json("config.json")
    model, pieces = model_of(config, source), ForeignPieces(source.json("tokenizer.json"))
    stored = {name.removeprefix(PREFIX): tensor for name, tensor in source.weights().items()}
    names = dict(names_of(model))
    weights = take(stored, names, source.folder)
    cut_words(weights, ["words.weight"], pieces, source)
    left_out = beyond(stored, names, ("embeddings.position_ids",))
    recipe = Recipe(f"{source.folder.name}, imported", "embed", "", model=model, embed=embed_of(source, model))
    return Imported(recipe, Vocabulary(pieces), weights, left_out)


def model_of(config: dict[str, Any], source: Source) -> EncoderConfig:
    require(config, NEEDED, source)
    if config.get("is_decoder") or config.get("position_embedding_type", "absolute") != "absolute":
        raise InputError(f"{source.folder}: a BERT reads in both directions, with absolute positions, got another kind")
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
    """As the modules of sentence-transformers say; without them, the mean."""
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
                    raise InputError(f"{source.folder}: a module lies in a folder beside modules.json, got {path!r}")
                pooling = pooling_of(source, f"{path}/config.json")
            case "Normalize":
                normalise = True
            case other:
                raise InputError(f"{source.folder}: modules are Transformer, Pooling and Normalize, got {other!r}")
    return EmbedConfig(pooling, normalise, min(longest_of(source, model), model.max_length))  # type: ignore[arg-type]


def longest_of(source: Source, model: EncoderConfig) -> int:
    """Tokens of a text. What else is said of texts there would change vectors, and is refused."""
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
    if isinstance(newer := said.get("pooling_mode"), str):  # by one name, as it is written lately
        wanted = [{"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}.get(newer, newer)]
    if len(wanted) != 1 or wanted[0] not in POOLINGS:
        raise InputError(
            f"{source.folder / name}: pooling is one of {', '.join(POOLINGS)}, got {', '.join(wanted) or 'none'}"
        )
    return POOLINGS[wanted[0]]


def names_of(config: EncoderConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and theirs: queries, keys and values are one matrix here."""
    yield "words.weight", ("embeddings.word_embeddings.weight",)
    yield "embed.positions.table.weight", ("embeddings.position_embeddings.weight",)
    if config.segments:
        yield "embed.segments.weight", ("embeddings.token_type_embeddings.weight",)
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
