"""GPT-2 from a folder of Hugging Face."""

from collections.abc import Iterator
from typing import Any

from manyheads.errors import InputError, brief
from manyheads.interop.huggingface import Source, take
from manyheads.interop.imported import ACTIVATIONS, Imported, beyond, cut_words, known, require
from manyheads.models.config import LanguageModelConfig
from manyheads.recipe import DataConfig, Recipe
from manyheads.text.foreign import ForeignPieces
from manyheads.text.vocabulary import Vocabulary

__all__ = ["import_gpt2"]

NEEDED = ("n_embd", "n_layer", "n_head", "n_positions")
UNLIKE = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
"""What a model must say, or leave unsaid, to be computed as ours are."""
PREFIX = "transformer."
TURNED = (".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")
"""They are stored with their inputs down the side."""
BUFFERS = (".attn.bias", ".attn.masked_bias")


def import_gpt2(source: Source) -> Imported:
    config = source.json("config.json")
    model, ends = model_of(config, source), ends_of(config, source)
    pieces = ForeignPieces(source.json("tokenizer.json"), begin=ends[:1], end=ends)
    stored = {name.removeprefix(PREFIX): tensor for name, tensor in source.weights().items()}
    stored = {name: tensor.T if name.endswith(TURNED) else tensor for name, tensor in stored.items()}
    names = dict(names_of(model))
    weights = take(stored, names, source.folder)
    cut_words(weights, ["words.weight"] if model.tie else ["words.weight", "head.weight"], pieces, source)
    left_out = [name for name in beyond(stored, names, ("lm_head.weight",)) if not name.endswith(BUFFERS)]
    data = DataConfig(vocabulary=pieces.size, max_length=min(255, model.max_length - 1))
    recipe = Recipe(f"{source.folder.name}, imported", "generate", "", model=model, data=data)
    return Imported(recipe, Vocabulary(pieces), weights, left_out)


def ends_of(config: dict[str, Any], source: Source) -> list[int]:
    """Tokens that end a text: one, several, or none."""
    said = config.get("eos_token_id")
    ends = [] if said is None else said if isinstance(said, list) else [said]
    if not all(type(end) is int for end in ends):
        raise InputError(f"{source.folder}: eos_token_id is a number, or a list of them, got {brief(said)}")
    return ends


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


def names_of(config: LanguageModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and theirs."""
    yield "words.weight", ("wte.weight",)
    yield "positions.table.weight", ("wpe.weight",)
    if not config.tie:
        yield "head.weight", ("lm_head.weight",)
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
