"""A model on disk: weights, recipe, tokenizers, manifest. Reading one runs no code from it and checks everything.

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
from typing import Any

import tomli_w
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from manyheads.errors import InputError, OptionError, nearest
from manyheads.models.classifier import TextClassifier
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.models.masked_model import MaskedModel
from manyheads.models.parallel import ParallelTransformer
from manyheads.models.transformer import Transformer
from manyheads.nn.eightbits import round_rows
from manyheads.recipe import Recipe, recipe_from_text
from manyheads.storage import read_file, write_folder
from manyheads.text.masking import table_size
from manyheads.text.vocabulary import Vocabulary

__all__ = [
    "CAN",
    "MODEL",
    "RECIPE",
    "TOKENIZER",
    "build_by_task",
    "bundled",
    "bundled_models",
    "check_new",
    "dump_recipe",
    "dump_weights",
    "encoder_in",
    "find_model",
    "is_folder",
    "load_by_task",
    "load_classifier",
    "load_description",
    "load_encoder",
    "load_language_model",
    "load_masked_model",
    "load_model",
    "load_parallel_model",
    "load_weights",
    "recipe_in",
    "save_model",
    "save_weights",
    "task_of_folder",
]

RECIPE, TOKENIZER, MODEL = "recipe.toml", "tokenizer.json", "model.safetensors"
SCALE = ".scale"
CAN = {
    "translate": "translate",
    "parallel": "translate all at once",
    "embed": "embed texts",
    "classify": "classify texts",
    "generate": "generate text",
    "mask": "predict masked words",
}
"""What a model of each task does."""

USES = {
    "translate": "use it with `manyheads translate`, in Python with Translator",
    "parallel": "use it with `manyheads translate`, `evaluate` or `score`, in Python with ParallelTranslator",
    "embed": "use it with `manyheads embed` or `evaluate`",
    "classify": "use it with `manyheads classify` or `evaluate`",
    "generate": "use it with `manyheads generate` or `evaluate`",
    "mask": "use it with `manyheads embed`, `evaluate` or `train --from`",
}
"""Hints, by task: the commands for such a model."""


def bundled(name: str = "") -> Path:
    """The path of something that comes with the package."""
    return Path(str(files("manyheads"))) / "bundled" / name


def bundled_models() -> list[str]:
    return sorted(path.parent.name for path in bundled().glob(f"*/{MODEL}"))


def find_model(folder: str | Path) -> Path:
    """The folder of a model: a run folder, or a bundled model by its name."""
    if is_folder(folder):
        return Path(folder)
    if str(folder) in bundled_models():
        return bundled(str(folder))
    known, beside = ", ".join(bundled_models()), neighbours(folder)
    what = "it is a file" if Path(folder).is_file() else "there is no such folder"
    raise InputError(
        f"a model must be a run folder or one of the bundled models ({known}), got {str(folder)!r}: {what}",
        hint=nearest(str(folder), [*bundled_models(), *beside]),
    )


def neighbours(folder: str | Path) -> list[str]:
    """Models beside a missing folder, with paths written like the given one."""
    place = Path(folder).parent
    try:
        return [str(place / one.parent.name) for one in place.glob(f"*/{MODEL}")]
    except (OSError, ValueError):
        return []


def is_folder(path: str | Path) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # a name that no folder can have
        return False


def load_model(folder: str | Path) -> tuple[Transformer, Vocabulary, Recipe]:
    """Everything a Translator is made of."""
    return load_folder(folder, "translate")


def load_parallel_model(folder: str | Path) -> tuple[ParallelTransformer, Vocabulary, Recipe]:
    """Everything a ParallelTranslator is made of."""
    return load_folder(folder, "parallel")


def load_encoder(folder: str | Path) -> tuple[TextEncoder, Vocabulary, Recipe]:
    """Everything an Embedder is made of.

    A classifier contains an encoder; the head of a model that was pre-trained on masked words is left out.
    """
    model, vocabulary, recipe = load_folder(folder, "embed", "mask", "classify")
    return encoder_in(model, vocabulary), vocabulary, recipe


def encoder_in(model: nn.Module, vocabulary: Vocabulary) -> TextEncoder:
    """The encoder that a model is or contains.

    A MaskedModel loses its head and the row of its table for the mask, and cannot be used afterwards.
    """
    match model:
        case MaskedModel():
            return model.without_head(vocabulary.source.size)
        case TextClassifier():
            return model.body
        case TextEncoder():
            return model
    raise OptionError(f"an encoder-only model is needed, got {type(model).__name__}")


def load_classifier(folder: str | Path) -> tuple[TextClassifier, Vocabulary, Recipe]:
    """Everything a Classifier is made of."""
    return load_folder(folder, "classify")


def load_language_model(folder: str | Path) -> tuple[LanguageModel, Vocabulary, Recipe]:
    """Everything a Writer is made of."""
    return load_folder(folder, "generate")


def load_masked_model(folder: str | Path) -> tuple[MaskedModel, Vocabulary, Recipe]:
    """A pre-trained encoder with the head it was trained with."""
    return load_folder(folder, "mask")


def load_by_task(folder: str | Path) -> tuple[nn.Module, Vocabulary, Recipe]:
    """A model of any task, as its recipe says."""
    return load_folder(folder, task_of_folder(folder) or "translate")


def task_of_folder(folder: str | Path) -> str:
    """The task of a model; empty if the folder has no recipe."""
    place = find_model(folder)
    return recipe_in(place).task if (place / RECIPE).exists() else ""


def recipe_in(place: Path) -> Recipe:
    return recipe_from_text(text(place, RECIPE, 1 << 20), str(place / RECIPE))


def load_description(folder: str | Path) -> tuple[Vocabulary, Recipe]:
    """Everything about a model except its weights."""
    place = find_model(folder)
    recipe = recipe_in(place)
    return Vocabulary.loads(text(place, TOKENIZER), str(place / TOKENIZER)), recipe


def build_by_task(recipe: Recipe, vocabulary: Vocabulary) -> nn.Module:
    """A model without weights. It is built on the meta device, so even a recipe for a huge model allocates nothing."""
    with torch.device("meta"):
        match recipe.task:
            case "parallel":
                return ParallelTransformer(recipe.parallel, vocabulary.sizes)
            case "embed":
                return TextEncoder(recipe.encoder, vocabulary.source.size)
            case "classify":
                classes = len(vocabulary.labels.names)
                return TextClassifier(recipe.encoder, vocabulary.source.size, classes, recipe.embed.pooling)
            case "generate":
                return LanguageModel(recipe.language_model, vocabulary.source.size)
            case "mask":
                return MaskedModel(recipe.encoder, table_size(vocabulary.source))
            case _:
                return Transformer(recipe.transformer, vocabulary.sizes)


def load_folder(folder: str | Path, *tasks: str) -> tuple[Any, Vocabulary, Recipe]:
    place = find_model(folder)
    if not (place / MODEL).exists():
        raise InputError(
            f"a model folder must have a {MODEL}, got {place}",
            hint="a run writes it at its first validation" if (place / RECIPE).exists() else "is it a run folder?",
        )
    recipe = recipe_in(place)
    if recipe.task not in tasks:
        near = (tasks[0], recipe.task) == ("translate", "parallel")
        needed = "translate token by token" if near else CAN[tasks[0]]
        raise InputError(
            f"a model that can {needed} is needed, got {folder}: its task is {recipe.task!r}",
            hint=USES[recipe.task],
        )
    vocabulary = Vocabulary.loads(text(place, TOKENIZER), str(place / TOKENIZER))
    try:
        model = build_by_task(recipe, vocabulary)
    except OptionError as error:
        raise InputError(f"{place / RECIPE} and {place / TOKENIZER} do not belong together: {error.message}") from None
    load_weights(model, read_file(place, MODEL, largest(model)), str(place / MODEL))
    return model.eval(), vocabulary, recipe


def save_model(
    folder: str | Path, model: nn.Module, vocabulary: Vocabulary, recipe: Recipe, store: str = "fp32"
) -> None:
    """Write a model folder to share: weights as "fp32", "fp16" or "int8", without checkpoints or log."""
    save_weights(folder, model.state_dict(), vocabulary, recipe, store)


def save_weights(
    folder: str | Path, weights: Mapping[str, Tensor], vocabulary: Vocabulary, recipe: Recipe, store: str = "fp32"
) -> None:
    """Like `save_model`, for weights that are not in a model."""
    check_new(folder)
    files = {
        RECIPE: dump_recipe(recipe),
        TOKENIZER: vocabulary.dumps().encode(),
        MODEL: dump_weights(weights, store),
    }
    write_folder(Path(folder), files)


def check_new(folder: str | Path) -> None:
    """Refuse to overwrite anything."""
    if Path(folder).exists():
        raise OptionError(f"a model must be saved to a new folder, got {folder}: it already exists")


def largest(model: nn.Module) -> int:
    """The most bytes that a file of weights may have: all of them in float32, and room for names."""
    return 4 * sum(p.numel() for p in model.parameters()) + (4 << 20)


def text(place: Path, name: str, most: int = 64 << 20) -> str:
    try:
        return read_file(place, name, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{place / name} is damaged: {error}") from None


def dump_recipe(recipe: Recipe) -> bytes:
    try:
        return tomli_w.dumps(recipe.as_tables()).encode()
    except UnicodeEncodeError:
        names = [recipe.base, *recipe.train.teachers]
        raise OptionError(
            f"model names in a recipe must be UTF-8, got {', '.join(map(repr, filter(None, names)))}"
        ) from None


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def dump_weights(weights: Mapping[str, Tensor], store: str = "fp32") -> bytes:
    """The bytes of model.safetensors; equal weights give equal bytes.

    "int8" stores the rows of matrices as 8-bit numbers, each row with a scale of its own, and other weights in float16.
    """
    plain = {name: tensor.detach().to("cpu", torch.float32).contiguous() for name, tensor in weights.items()}
    match store:
        case "fp32":
            return save_tensors(plain)
        case "fp16":
            return save_tensors({name: halved(name, tensor) for name, tensor in plain.items()})
        case "int8":
            stored = {}
            for name, tensor in plain.items():
                stored |= quantised(name, tensor) if tensor.ndim == 2 else {name: halved(name, tensor)}
            return save_tensors(stored)
        case _:
            raise OptionError(f"weights must be stored as 'fp32', 'fp16' or 'int8', got {store!r}")


def quantised(name: str, matrix: Tensor) -> dict[str, Tensor]:
    numbers, scales = round_rows(matrix)
    return {name: numbers, name + SCALE: scales}


def halved(name: str, tensor: Tensor) -> Tensor:
    half = tensor.half()
    if not half.isfinite().all():
        raise OptionError(
            f"{name} has weights that 16 bits cannot hold, up to {tensor.abs().max():g}; store it as 'fp32'"
        )
    return half


def load_weights(model: nn.Module, content: bytes, where: str) -> None:
    """Put stored weights into a model, in place of those it has, if any. Names, shapes and values are checked."""
    expected, stored = model.state_dict(), parse(content, where)
    packed = {name for name in expected.keys() & stored.keys() if is_packed(stored[name])}
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    shapes |= {name + SCALE: (len(stored[name]), 1) for name in packed}
    check_names(shapes, stored, where)
    for name, tensor in sorted(stored.items()):
        if tensor.shape != shapes[name]:
            raise InputError(f"{where}: {name} must be {shapes[name]}, as the recipe says, got {tuple(tensor.shape)}")
        if name not in packed and tensor.dtype not in (torch.float32, torch.float16):
            raise InputError(f"{where}: {name} must be in float32, float16 or int8 with a scale, got {tensor.dtype}")
    weights = {name: stored[name].float() for name in expected}
    for name in packed:
        weights[name] *= stored[name + SCALE]
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise InputError(f"{where}: every weight must be a finite number, got NaN or infinity in {name}")
    model.load_state_dict(weights, assign=True)


def is_packed(tensor: Tensor) -> bool:
    return tensor.dtype == torch.int8 and tensor.ndim == 2


def check_names(expected: Mapping[str, Any], stored: Mapping[str, Tensor], where: str) -> None:
    missing, extra = sorted(expected.keys() - stored.keys()), sorted(stored.keys() - expected.keys())
    if missing or extra:
        said = " and ".join([f"without {name}" for name in missing[:1]] + [f"with {name}" for name in extra[:1]])
        raise InputError(f"{where}: the weights must match the recipe's model, got weights {said}")


def parse(content: bytes, where: str) -> dict[str, Tensor]:
    try:
        return load_tensors(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError, struct.error, json.JSONDecodeError) as error:
        raise InputError(f"{where} is damaged: {error}") from None
