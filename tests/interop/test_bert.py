"""BERT from Hugging Face: the same hidden states, or a refusal in a sentence."""

import json
import shutil

import numpy as np
import pytest
import torch
from bert import make_bert, make_sentence_bert, tokenizer
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from cli.command import status
from manyheads.cli.importing import import_model
from manyheads.embedding.embedder import Embedder
from manyheads.errors import InputError, ManyheadsError
from manyheads.interop.api import import_model as make
from manyheads.interop.bert import names_of
from manyheads.modelfolder import load_encoder, load_masked_model, load_model
from manyheads.nn import Packed, Padded
from manyheads.text.foreign import ForeignPieces

TEXTS = ["a dog.", "dogs", "", "é dogs abba zzz ß", "abc " * 30]


def imported(folder, out):
    return make(folder, out)


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"hidden_act": "gelu_new"}, {"hidden_act": "relu", "layer_norm_eps": 1e-5}, {"type_vocab_size": 1}])  # fmt: skip
def test_hidden_states_are_the_same_padded_and_packed(tmp_path, changes):
    theirs = make_bert(tmp_path / "theirs", **changes)
    imported(tmp_path / "theirs", tmp_path / "ours")
    model, _, recipe = load_encoder(tmp_path / "ours")
    assert recipe.task == "embed"
    lengths = [7, 1, 20]
    ids = torch.randint(5, 40, (3, 20))
    segments = torch.randint(0, changes.get("type_vocab_size", 2), ids.shape)
    layout = Padded.from_lengths(lengths)
    expected = theirs(ids, attention_mask=layout.keep.long(), token_type_ids=segments).last_hidden_state[layout.keep]
    assert (model(ids, layout, segments)[layout.keep] - expected).abs().max() <= 1e-5
    packed = model(ids[layout.keep], Packed.from_lengths(lengths), segments[layout.keep])
    assert (packed - expected).abs().max() <= 1e-5
    plain = theirs(ids, attention_mask=layout.keep.long()).last_hidden_state[layout.keep]
    assert (model(ids, layout)[layout.keep] - plain).abs().max() <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"hidden_act": "gelu_new"}, {"hidden_act": "relu", "vocabulary": 64}])
def test_the_head_of_masked_words_gives_the_same_logits(tmp_path, changes):
    theirs = make_bert(tmp_path / "theirs", masked=True, whole=True, **changes)
    found = imported(tmp_path / "theirs", tmp_path / "ours")
    assert (found.recipe.task, found.left_out) == ("mask", [])
    model, vocabulary, _ = load_masked_model(tmp_path / "ours")
    size = vocabulary.source.size
    lengths = [7, 1, 20]
    ids = torch.randint(4, size, (3, 20))
    segments = torch.randint(0, 2, ids.shape)
    layout = Padded.from_lengths(lengths)
    expected = theirs(ids, attention_mask=layout.keep.long(), token_type_ids=segments).logits[layout.keep][:, :size]
    assert (model(ids, layout, None, segments)[layout.keep] - expected).abs().max() <= 1e-5
    packed = model(ids[layout.keep], Packed.from_lengths(lengths), torch.tensor([3, 9]), segments[layout.keep])
    assert (packed - expected[[3, 9]]).abs().max() <= 1e-5
    states = theirs.bert(torch.tensor([[2, *vocabulary.source.encode(["dogs"])[0], 3]])).last_hidden_state[0].mean(0)
    vector = Embedder.load(tmp_path / "ours", "cpu")("dogs")
    assert np.abs(vector - (states / states.norm()).numpy()).max() <= 1e-5


def more_weights(folder, **more):
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {name: change(weights) for name, change in more.items()}, folder / "model.safetensors")


def without_mask(folder):
    stored = json.loads((folder / "tokenizer.json").read_text())
    stored["added_tokens"].pop(4)
    (folder / "tokenizer.json").write_text(json.dumps(stored))


WORDS, OUTPUT = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"


def test_words_that_are_stored_twice_are_no_loss(tmp_path):
    make_bert(tmp_path / "theirs", masked=True)
    more_weights(tmp_path / "theirs", **{OUTPUT: lambda weights: weights[WORDS].clone()})
    found = imported(tmp_path / "theirs", tmp_path / "ours")
    assert (found.recipe.task, found.left_out) == ("mask", [])


@pytest.mark.parametrize(
    "spoil",
    [without_mask, lambda folder: more_weights(folder, **{OUTPUT: lambda weights: weights[WORDS] + 1})],
    ids=["no mask", "another table for the output"],
)
def test_a_head_that_cannot_be_used_is_left_out_and_named(tmp_path, spoil):
    make_bert(tmp_path / "theirs", masked=True)
    spoil(tmp_path / "theirs")
    found = imported(tmp_path / "theirs", tmp_path / "ours")
    assert found.recipe.task == "embed"
    assert "cls.predictions.bias" in found.left_out
    assert not any(name.startswith("encoder.layer") for name in found.left_out)
    assert Embedder.load(tmp_path / "ours", "cpu")("dogs").shape == (24,)


@torch.no_grad()
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("pooling", "ours"), [("mean_tokens", "mean"), ("cls_token", "first"), ("max_tokens", "max")])
def test_vectors_are_pooled_as_the_modules_say(tmp_path, pooling, ours, normalise):
    theirs = make_sentence_bert(tmp_path / "theirs", pooling=pooling, normalise=normalise)
    recipe = imported(tmp_path / "theirs", tmp_path / "ours").recipe
    assert (recipe.embed.pooling, recipe.embed.normalise, recipe.embed.max_length) == (ours, normalise, 12)
    found = Embedder.load(tmp_path / "ours", "cpu")(TEXTS)
    pieces = tokenizer()
    pieces.enable_truncation(12)
    for text, vector in zip(TEXTS, found, strict=True):
        states = theirs(torch.tensor([pieces.encode(text).ids])).last_hidden_state[0]
        expected = {"mean": states.mean(0), "first": states[0], "max": states.amax(0)}[ours]
        expected = expected / expected.norm() if normalise else expected
        assert np.abs(vector - expected.numpy()).max() <= 1e-5


def test_a_vector_does_not_depend_on_its_neighbours(tmp_path):
    make_sentence_bert(tmp_path / "theirs")
    imported(tmp_path / "theirs", tmp_path / "ours")
    embedder = Embedder.load(tmp_path / "ours", "cpu")
    texts = [*TEXTS, *("ab " * n for n in range(9))] * 3
    together = embedder(texts)
    assert np.abs(together - np.stack([embedder(text) for text in texts])).max() <= 1e-6
    truncated = [one.truncated for one in embedder.embed(texts)]
    assert truncated == [len(embedder.tokenizer.encode([text])[0]) > 10 for text in texts]
    assert embedder([]).shape == (0, 24)


def test_a_vocabulary_may_have_holes(tmp_path):
    theirs = make_sentence_bert(tmp_path / "theirs", vocabulary=80)
    path = tmp_path / "theirs" / "tokenizer.json"
    stored = json.loads(path.read_text())
    stored["model"]["vocab"]["dog"] = 70
    path.write_text(json.dumps(stored))
    assert len(imported(tmp_path / "theirs", tmp_path / "ours").weights["words.weight"]) == 71
    with torch.no_grad():
        states = theirs(torch.tensor([[2, 70, 3]])).last_hidden_state[0].mean(0)
    assert np.abs(Embedder.load(tmp_path / "ours", "cpu")("dog") - (states / states.norm()).numpy()).max() <= 1e-5


def test_newer_names_of_poolings_are_known(tmp_path):
    make_sentence_bert(tmp_path / "theirs")
    (tmp_path / "theirs" / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert imported(tmp_path / "theirs", tmp_path / "ours").recipe.embed.pooling == "first"


def test_a_text_of_no_tokens_is_a_vector_of_zeros_and_ends_nothing(tmp_path):
    make_sentence_bert(tmp_path / "theirs")
    path = tmp_path / "theirs" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
    imported(tmp_path / "theirs", tmp_path / "ours")
    found = Embedder.load(tmp_path / "ours", "cpu")(["dog", "", "dogs"])
    assert (np.linalg.norm(found, axis=1) > 0).tolist() == [True, False, True]


def test_an_array_is_as_wide_as_the_model_also_of_no_texts(tmp_path, capsys):
    make_sentence_bert(tmp_path / "theirs")
    imported(tmp_path / "theirs", tmp_path / "ours")
    for lines, shape in (("", (0, 24)), ("dog\n\ndogs\n", (3, 24))):
        (tmp_path / "texts.txt").write_text(lines)
        words = ["--input", str(tmp_path / "texts.txt"), "--output", str(tmp_path / "vectors.npy")]
        assert status("embed", str(tmp_path / "ours"), *words) == 0
        assert np.load(tmp_path / "vectors.npy").shape == shape
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "texts.txt", "theirs", "vectors.npy"]
    assert status("embed", str(tmp_path / "ours"), *words[:3], "/nowhere/vectors.npy") == 2
    assert "needs a folder that exists" in capsys.readouterr().err


def test_half_a_letter_is_refused(tmp_path):
    with pytest.raises(InputError, match="half of a surrogate pair"):
        ForeignPieces(json.loads(tokenizer().to_str())).encode(["a\ud800"])


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.text(st.sampled_from("abdgos é.ß🙂[]CLSEP"), max_size=12), max_size=4))
def test_pieces_are_those_of_the_library_and_no_text_types_a_special_one(texts):
    pieces = tokenizer()
    ours = ForeignPieces(json.loads(pieces.to_str()))
    pieces.encode_special_tokens = True
    found = ours.encode(texts)
    assert [[*ours.begin, *ids, *ours.end] for ids in found] == [pieces.encode(text).ids for text in texts]
    assert not {2, 3} & {i for ids in found for i in ids}
    for ids in found:
        units = ours.units(ids)
        words = sum(not piece.startswith("##") for piece, unit in zip(ours.pieces(ids), units, strict=True) if unit is not None)  # fmt: skip
        assert len(set(units) - {None}) == words


def test_a_tokenizer_that_is_stored_and_read_is_the_same():
    ours = ForeignPieces(json.loads(tokenizer().to_str()))
    again = ForeignPieces.from_json(json.loads(json.dumps(ours.as_json())))
    assert again.encode(TEXTS) == ours.encode(TEXTS)
    assert (again.begin, again.end, again.size) == ([2], [3], ours.size)
    assert again.decode(again.encode(["dogs a."])[0]) == "dogs a."


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def changed(name, **changes):
    def change(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def module_at(path):
    kinds = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind in ("Transformer", "Pooling")]
    return lambda folder: (folder / "modules.json").write_text(json.dumps(kinds))


def with_weights(change):
    def spoil(folder):
        weights = {name: change(name, tensor).contiguous() for name, tensor in load_file(folder / "model.safetensors").items()}  # fmt: skip
        save_file(weights, folder / "model.safetensors")

    return spoil


def without_unknown(folder):
    stored = json.loads((folder / "tokenizer.json").read_text())
    stored["model"]["unk_token"] = "[NONE]"
    (folder / "tokenizer.json").write_text(json.dumps(stored))


def without_a_layer(folder):
    weights = load_file(folder / "model.safetensors")
    save_file({k: v for k, v in weights.items() if "layer.1.output.dense" not in k}, folder / "model.safetensors")


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (changed("config.json", model_type="roberta"), "the model_type 'bert' or 'gpt2' or 'llama', got 'roberta'"),
        (changed("config.json", hidden_act="tanh"), "hidden_act must be one of"),
        (changed("config.json", position_embedding_type="relative_key"), "absolute positions"),
        (changed("config.json", is_decoder=True), "must read in both directions"),
        (changed("config.json", hidden_size=-3), "width must be between"),
        (changed("config.json", num_hidden_layers="many"), "layers must be"),
        (changed("tokenizer.json", model={"type": "BPE"}), "must be a WordPiece or a byte-level BPE, got 'BPE'"),
        (changed("tokenizer.json", normalizer={"type": "Odd"}), "that `tokenizers` can read"),
        (changed("1_Pooling/config.json", pooling_mode_cls_token=True), "pooling must be one of"),
        (changed("config.json", hidden_act=["gelu"]), "hidden_act must be one of"),
        (changed("config.json", hidden_size=None), "hidden_size must be a whole number, got None"),
        (changed("config.json", hidden_size=48), "embed.norm.bias must be (48,), as the recipe says, got (24,)"),
        (changed("config.json", max_position_embeddings=512), "positions.table.weight must be"),
        (changed("sentence_bert_config.json", max_seq_length="12"), "max_seq_length must be a whole number"),
        (changed("sentence_bert_config.json", do_lower_case=True), "do_lower_case cannot be imported"),
        (lambda folder: (folder / "modules.json").write_text('["a"]'), "modules must be Transformer, Pooling"),
        (module_at("../theirs"), "beside modules.json, got '../theirs'"),
        (module_at("/tmp"), "beside modules.json, got '/tmp'"),
        (with_weights(lambda name, tensor: tensor * float("nan")), "must be a finite number"),
        (with_weights(lambda name, tensor: tensor[:, :3] if "key.weight" in name else tensor), "must fit together"),
        (with_weights(lambda name, tensor: tensor.long()), "got one without it"),
        (without_unknown, "must have a piece for unknown text"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "must be JSON"),
        (lambda folder: (folder / "config.json").unlink(), "must have a config.json"),
        (lambda folder: (folder / "config.json").write_text("{}"), "'llama', got None"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "bert"}'), "have hidden_size, got none"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 99), "is damaged"),
        (without_a_layer, "must have encoder.layer.1.output.dense.bias, got one without it"),
        (pickled, "must have a model.safetensors, got"),
        (lambda folder: shutil.rmtree(folder), "no such folder"),
    ],
)
def test_what_is_no_bert_is_refused_in_a_sentence(tmp_path, spoil, complaint):
    make_sentence_bert(tmp_path / "theirs")
    spoil(tmp_path / "theirs")
    with pytest.raises(ManyheadsError) as error:
        import_model(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert complaint in error.value.message
    assert error.value.status == 2
    assert not (tmp_path / "ours").exists()


def test_nothing_is_written_over(tmp_path):
    make_bert(tmp_path / "theirs")
    with pytest.raises(ManyheadsError, match="it already exists"):
        import_model(str(tmp_path / "theirs"), str(tmp_path / "theirs"))


def test_models_are_asked_for_what_they_can_do(tmp_path):
    make_sentence_bert(tmp_path / "theirs")
    imported(tmp_path / "theirs", tmp_path / "ours")
    with pytest.raises(InputError, match=r"can translate is needed, got .*: its task is 'embed'"):
        load_model(tmp_path / "ours")
    with pytest.raises(InputError, match=r"can embed texts is needed, got .*: its task is 'translate'"):
        Embedder.load("de-en")


def test_every_name_is_taken_once():
    from manyheads.models.config import EncoderConfig

    names = [name for _, parts in names_of(EncoderConfig(layers=2)) for name in parts]
    assert len(names) == len(set(names)) == 5 + 2 * 16
