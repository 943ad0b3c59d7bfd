"""A model on disk: weights, recipe, tokenizers, manifest. Reading one runs nothing from it and believes nothing in it.

recipe.toml         how it was built, trained and should be decoded
tokenizer.json      its vocabulary
model.safetensors   its weights, in float32, float16 or int8
manifest.json       sizes and SHA-256 sums of these
"""

import json
import struct
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import tomli_w
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from manyheads.errors import InputError, OptionError, nearest
from manyheads.models.transformer import Transformer
from manyheads.recipe import Recipe, recipe_from_text
from manyheads.storage import read_file
from manyheads.text.vocabulary import Vocabulary

__all__ = ["MODEL", "RECIPE", "TOKENIZER", "bundled_models", "dump_recipe", "dump_weights", "find_model", "load_model"]

RECIPE, TOKENIZER, MODEL = "recipe.toml", "tokenizer.json", "model.safetensors"
SCALE = ".scale"


def bundled_models() -> list[str]:
    root = Path(str(files("manyheads"))) / "bundled"
    return sorted(path.parent.name for path in root.glob(f"*/{MODEL}"))


def find_model(folder: str | Path) -> Path:
    """A run folder, or a bundled model by its name."""
    if Path(folder).is_dir():
        return Path(folder)
    if str(folder) in bundled_models():
        return Path(str(files("manyheads"))) / "bundled" / str(folder)
    known = ", ".join(bundled_models())
    raise InputError(
        f"a model must be a run folder or one of the bundled models ({known}), got {str(folder)!r}: there is no such folder",
        hint=nearest(str(folder), bundled_models()),
    )


def load_model(folder: str | Path) -> tuple[Transformer, Vocabulary, Recipe]:
    """Everything a Translator is made of."""
    place = find_model(folder)
    if not (place / MODEL).exists():
        raise InputError(
            f"a model folder must have a {MODEL}, got {place}",
            hint="a run has one from its first validation on" if (place / RECIPE).exists() else "is it a run folder?",
        )
    recipe = recipe_from_text(text(place, RECIPE), str(place / RECIPE))
    vocabulary = Vocabulary.loads(text(place, TOKENIZER), str(place / TOKENIZER))
    # On the meta device nothing is allocated: a recipe that asks for a billion layers' worth of memory gets none.
    try:
        with torch.device("meta"):
            model = Transformer(recipe.model, vocabulary.sizes)
    except OptionError as error:
        raise InputError(f"{place / RECIPE} and {place / TOKENIZER} do not belong together: {error.message}") from None
    load_weights(model, read_file(place, MODEL), str(place / MODEL))
    return model.eval(), vocabulary, recipe


def text(place: Path, name: str) -> str:
    try:
        return read_file(place, name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{place / name} is damaged: {error}") from None


def dump_recipe(recipe: Recipe) -> bytes:
    return tomli_w.dumps(recipe.as_tables()).encode()


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dump_weights(weights: Mapping[str, Tensor], store: str = "fp32") -> bytes:
    """Equal weights give equal bytes. As "int8", each row of a matrix is 8-bit numbers times a scale of its own."""
    plain = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights.items()}
    match store:
        case "fp32":
            return save_tensors(plain)
        case "fp16":
            return save_tensors({name: tensor.half() for name, tensor in plain.items()})
        case "int8":
            stored = {}
            for name, tensor in plain.items():
                stored |= quantised(name, tensor) if tensor.ndim == 2 else {name: tensor.half()}
            return save_tensors(stored)
        case _:
            raise OptionError(f"weights are stored as 'fp32', 'fp16' or 'int8', got {store!r}")


def quantised(name: str, matrix: Tensor) -> dict[str, Tensor]:
    scale = (matrix.abs().amax(1, keepdim=True) / 127).clamp(min=1e-8).half()
    return {name: (matrix / scale.float()).round().clamp(-127, 127).to(torch.int8), name + SCALE: scale}


def load_weights(model: Transformer, content: bytes, where: str) -> None:
    """Put stored weights into a model that has none yet (or others): names, shapes and values are checked."""
    expected = model.state_dict()
    stored = parse(content, where)
    scales = {name: stored.pop(name) for name in list(stored) if name.endswith(SCALE) and name not in expected}
    check_names(expected, stored, where)
    weights = {}
    for name, tensor in stored.items():
        if tensor.shape != expected[name].shape:
            raise InputError(
                f"{where}: {name} must be {tuple(expected[name].shape)}, as the recipe says, got {tuple(tensor.shape)}"
            )
        scale = scales.get(name + SCALE)
        weights[name] = tensor.float() if scale is None else tensor.float() * scale.float()
        if not weights[name].isfinite().all():
            raise InputError(f"{where}: every weight must be a finite number, got others in {name}")
    model.load_state_dict(weights, assign=True)


def check_names(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], where: str) -> None:
    missing, extra = sorted(expected.keys() - stored.keys()), sorted(stored.keys() - expected.keys())
    if missing or extra:
        said = [f"without {missing[0]}"] * bool(missing) + [f"with {extra[0]}"] * bool(extra)
        raise InputError(f"{where}: the weights must be those of the recipe's model, got them {' and '.join(said)}")


def parse(content: bytes, where: str) -> dict[str, Tensor]:
    try:
        return load_tensors(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError, struct.error, json.JSONDecodeError) as error:
        raise InputError(f"{where} is damaged: {error}") from None
