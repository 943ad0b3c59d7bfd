"""A model folder: what was saved is loaded, what was changed is refused by name, and nothing in it is ever run."""

import json
import os
import pickle
import random
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from manyheads import Transformer, load_recipe
from manyheads.errors import InputError, ManyheadsError, OptionError
from manyheads.modelfolder import (
    MODEL,
    RECIPE,
    TOKENIZER,
    dump_recipe,
    dump_weights,
    find_model,
    load_model,
    load_weights,
    save_model,
)
from manyheads.storage import MANIFEST, write_folder
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

FILES = (RECIPE, TOKENIZER, MODEL)
SMALL = {"model.width": 16, "model.feedforward": 32, "model.layers": 1, "model.heads": 2}
VOCABULARY = Vocabulary(train_tokenizer("characters", ["abc"], 300))


def build(**changes):
    recipe = load_recipe("tiny", SMALL | {f"model.{key}": value for key, value in changes.items()})
    return Transformer(recipe.model, VOCABULARY.sizes).eval(), recipe


MODEL_16, RECIPE_16 = build()


@pytest.fixture
def contents():
    weights = dump_weights(MODEL_16.state_dict())
    return {RECIPE: dump_recipe(RECIPE_16), TOKENIZER: VOCABULARY.dumps().encode(), MODEL: weights}


@pytest.fixture
def refusal(tmp_path):
    """The refusal of a folder of these files, whose manifest fits: someone meant it to be this way."""

    def refusal(contents):
        folder = tmp_path / f"model-{len(os.listdir(tmp_path))}"
        write_folder(folder, contents)
        with pytest.raises(ManyheadsError) as error:
            load_model(folder)
        assert str(folder) in error.value.message
        return error.value

    return refusal


# ── saved and loaded ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie": "none"}, {"tie": "target"}, {"positions": "rotary"}, {"positions": "learned"}, {"norm": "post"},
     {"normaliser": "rms", "activation": "swiglu"}],
    ids=str,
)  # fmt: skip
def test_a_saved_model_says_the_same(tmp_path, changes):
    model, recipe = build(**changes)
    save_model(tmp_path / "new", model, VOCABULARY, recipe)
    again, vocabulary, same_recipe = load_model(tmp_path / "new")
    assert same_recipe == recipe
    assert vocabulary.dumps() == VOCABULARY.dumps()
    assert not again.training
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7]])
    assert torch.equal(model(source, target), again(source, target))


def test_equal_weights_are_equal_bytes():
    weights = MODEL_16.state_dict()
    turned = dict(reversed(weights.items()))
    for store in ("fp32", "fp16", "int8"):
        assert dump_weights(weights, store) == dump_weights(turned, store)
    assert dump_weights(weights) == dump_weights({k: v.double() for k, v in weights.items()})


@pytest.mark.parametrize(("store", "smaller"), [("fp16", 1.8), ("int8", 2.5)])
def test_smaller_weights_are_almost_the_same(store, smaller):
    weights = {name: torch.randn_like(tensor) for name, tensor in MODEL_16.state_dict().items()}
    weights["words.weight"][0] = 0  # as the row of the padding is
    weights["words.weight"][1] = 1e-7
    content = dump_weights(weights, store)
    assert len(dump_weights(weights)) / len(content) > smaller
    model, _ = build()
    load_weights(model, content, "here")
    for name, tensor in model.state_dict().items():
        half = weights[name].abs() * 2**-11 + 2**-25
        step = weights[name].abs().amax(-1, keepdim=True) / 127
        bound = step * 0.501 if store == "int8" and tensor.ndim == 2 else half
        assert ((tensor - weights[name]).abs() <= bound).all(), name
    assert (model.words.weight[0] == 0).all()


def test_weights_that_16_bits_cannot_hold():
    weights = MODEL_16.state_dict() | {"words.weight": torch.full((4, 4), 1e6)}
    with pytest.raises(OptionError, match=r"words\.weight has weights that 16 bits cannot hold, up to 1e\+06"):
        dump_weights(weights, "fp16")
    assert load_tensors(dump_weights(weights, "int8"))["words.weight"].eq(127).all()
    with pytest.raises(OptionError, match="'fp32', 'fp16' or 'int8', got 'int4'"):
        dump_weights(weights, "int4")


def test_a_folder_that_is_there_is_not_written_over(tmp_path):
    with pytest.raises(OptionError, match=r"must be saved to a new folder, got .*: it already exists"):
        save_model(tmp_path, MODEL_16, VOCABULARY, RECIPE_16)


# ── changed ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_flipped_bit_anywhere_is_noticed_and_the_file_named(tmp_path, name):
    save_model(tmp_path / "model", MODEL_16, VOCABULARY, RECIPE_16)
    path = tmp_path / "model" / name
    whole, rng = path.read_bytes(), random.Random(0)
    for _ in range(20):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError) as error:
            load_model(tmp_path / "model")
        # A flipped bit of the manifest may speak of another file.
        assert name == MANIFEST or f"{path} is damaged" in error.value.message
        assert str(tmp_path / "model") in error.value.message


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_missing_file_is_named(tmp_path, name):
    save_model(tmp_path / "model", MODEL_16, VOCABULARY, RECIPE_16)
    (tmp_path / "model" / name).unlink()
    with pytest.raises(InputError, match=name):
        load_model(tmp_path / "model")


def test_folders_that_are_no_models(tmp_path):
    with pytest.raises(InputError, match=r"must have a model\.safetensors, got .*") as error:
        load_model(tmp_path)
    assert error.value.hint == "is it a run folder?"
    (tmp_path / RECIPE).write_bytes(b"")
    with pytest.raises(InputError) as error:
        load_model(tmp_path)
    assert error.value.hint == "a run writes it at its first validation"
    for name in ("nowhere", "a\0b", "../nowhere"):
        with pytest.raises(InputError, match="there is no such folder"):
            find_model(name)


def without(name):
    return lambda weights: {k: v for k, v in weights.items() if k != name}


def put(name, change):
    return lambda weights: weights | {name: change(weights.get(name))}


def spoilt(value):
    def change(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[7] = value
        return tensor

    return change


def packed(scale):
    return lambda weights: (
        weights | {"words.weight": torch.ones(weights["words.weight"].shape, dtype=torch.int8), **scale}
    )


WORDS = VOCABULARY.sizes[0]
CHANGES = {
    "every weight must be a finite number, got NaN or infinity in words.weight": put(
        "words.weight", spoilt(float("nan"))
    ),
    "every weight must be a finite number, got NaN or infinity in decoder": lambda weights: {
        k: spoilt(float("-inf"))(v) if k == "decoder.norm.weight" else v for k, v in weights.items()
    },
    "got weights without words.weight": without("words.weight"),
    "got weights with evil": put("evil", lambda _: torch.zeros(3)),
    "got weights with evil.scale": put("evil.scale", lambda _: torch.zeros(3)),
    "got weights without encoder.norm.weight and with encoder.norm.wait": lambda weights: without(
        "encoder.norm.weight"
    )(weights | {"encoder.norm.wait": torch.zeros(16)}),
    f"words.weight must be ({WORDS}, 16), as the recipe says, got ({WORDS}, 8)": put(
        "words.weight", lambda w: w[:, :8]
    ),
    f"words.weight must be ({WORDS}, 16), as the recipe says, got ({WORDS * 16},)": put("words.weight", torch.flatten),
    "words.weight must be in float32, float16 or int8 with a scale, got torch.int64": put(
        "words.weight", torch.Tensor.long
    ),
    "encoder.norm.weight must be in float32, float16 or int8 with a scale, got torch.int8": put(
        "encoder.norm.weight", lambda w: w.to(torch.int8)
    ),
    "got weights without words.weight.scale": packed({}),
    f"words.weight.scale must be ({WORDS}, 1), as the recipe says, got (2, {WORDS}, 1)": packed(
        {"words.weight.scale": torch.ones(2, WORDS, 1)}
    ),
    "finite number, got NaN or infinity in words.weight": packed(
        {"words.weight.scale": torch.full((WORDS, 1), float("inf"))}
    ),
    "words.weight.scale must be in float32": packed({"words.weight.scale": torch.ones(WORDS, 1, dtype=torch.int8)}),
    "got weights without decoder": lambda _: {},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_weights_that_are_not_those_of_the_recipe(contents, refusal, change, request):
    weights = change(load_tensors(contents[MODEL]))
    content = save_tensors({name: tensor.contiguous() for name, tensor in weights.items()})
    error = refusal(contents | {MODEL: content})
    assert isinstance(error, InputError)
    assert request.node.callspec.id in error.message
    assert f"/{MODEL}: " in error.message


def test_a_scribbled_weight_file_is_refused_or_has_finite_weights(contents):
    rng, header = random.Random(0), int.from_bytes(contents[MODEL][:8], "little")
    for _ in range(300):
        damaged = bytearray(contents[MODEL])
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(header + 8)] = rng.randrange(256)
        model, _ = build()
        with suppress(InputError):
            load_weights(model, bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])]), "here")
        assert all(weight.isfinite().all() for weight in model.parameters())


def test_a_recipe_and_a_tokenizer_that_do_not_belong_together(contents, refusal):
    two = Vocabulary(VOCABULARY.source, train_tokenizer("symbols", ["a b c d e"], 300))
    assert "do not belong together: tie = 'all' needs one joint vocabulary" in refusal(
        contents | {TOKENIZER: two.dumps().encode()}
    ).message  # fmt: skip
    larger = Vocabulary(train_tokenizer("characters", ["abcdef"], 300))
    assert f"words.weight must be ({WORDS + 3}, 16)" in refusal(contents | {TOKENIZER: larger.dumps().encode()}).message
    deeper = dump_recipe(build(layers=2)[1])
    assert "the weights must match the recipe's model, got weights without " in refusal(
        contents | {RECIPE: deeper}
    ).message  # fmt: skip


@pytest.mark.parametrize("name", [RECIPE, TOKENIZER])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[", b"[" * 100_000, b"\x00" * 100], ids=["latin", "cut", "deep", "NUL"]
)
def test_other_content_is_refused(contents, refusal, name, content):
    assert name in refusal(contents | {name: content}).message


def test_a_recipe_that_asks_for_the_moon_allocates_nothing(contents, refusal):
    wide = contents[RECIPE].decode().replace("width = 16\n", "width = 65536\n")
    assert wide.encode() != contents[RECIPE]
    message = refusal(contents | {RECIPE: wide.encode()}).message
    assert "65536" in message
    assert "as the recipe says, got (" in message


# ── a model as an attack ────────────────────────────────────────────────────────────────────────────────────────────


class Attack:
    """Unpickled, it makes a folder."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (self.canary,)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("dump", [pickle.dumps, None], ids=["pickle", "torch"])
def test_a_pickle_under_any_name_is_refused_and_not_run(tmp_path, contents, name, dump):
    canary, folder = str(tmp_path / "canary"), tmp_path / "model"
    if dump:
        content = dump(Attack(canary))
    else:
        torch.save({"weights": Attack(canary)}, tmp_path / "torch.pt")
        content = (tmp_path / "torch.pt").read_bytes()
    write_folder(folder, contents | ({} if name == MANIFEST else {name: content}))
    if name == MANIFEST:
        (folder / MANIFEST).write_bytes(content)
    with pytest.raises(ManyheadsError, match=name):
        load_model(folder)
    assert not os.path.exists(canary)
    pickle.loads(pickle.dumps(Attack(canary)))  # it would have worked
    assert os.path.exists(canary)


def test_files_are_not_looked_for_elsewhere(tmp_path, contents):
    write_folder(tmp_path / "model", contents)
    (tmp_path / "secret").write_bytes(contents[MODEL])
    (tmp_path / "model" / MODEL).unlink()
    (tmp_path / "model" / MODEL).symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"model\.safetensors is missing or unreadable: it is a link"):
        load_model(tmp_path / "model")
    stored = json.loads((tmp_path / "model" / MANIFEST).read_text())
    stored["files"]["../secret"] = stored["files"].pop(MODEL)
    (tmp_path / "model" / MANIFEST).write_text(json.dumps(stored))
    with pytest.raises(InputError, match="is not a file name"):
        load_model(tmp_path / "model")
