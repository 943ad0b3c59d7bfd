"""Models of ours for Hugging Face's libraries: the same numbers there, and the same again when they come back."""

import json
import subprocess
import sys

import pytest
import torch
from bert import make_bert, make_sentence_bert
from gpt2 import make_gpt2
from hypothesis import given
from hypothesis import strategies as st
from llama import make_llama
from tokenizers import Tokenizer
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from manyheads import InputError, OptionError, export_model, import_model, train
from manyheads.generation.writer import Writer
from manyheads.interop.pieces import pieces_of
from manyheads.modelfolder import load_by_task, load_encoder, save_model
from manyheads.models.config import EncoderConfig, LanguageModelConfig
from manyheads.models.encoder import TextEncoder
from manyheads.models.language_model import LanguageModel
from manyheads.recipe import DataConfig, EmbedConfig, Recipe
from manyheads.text.vocabulary import Vocabulary, train_tokenizer

TEXTS = ["A dog sees a dog.", "no, two dogs  see <bos> me", "é🙂"]
SIZES = {"width": 24, "layers": 2, "heads": 4, "feedforward": 40, "dropout": 0.0, "max_length": 64}
LLAMA = {
    **SIZES, "activation": "swiglu", "normaliser": "rms", "positions": "rotary", "bias": False, "feedforward_bias": False,
}  # fmt: skip
BYTE_PAIRS = train_tokenizer("bpe", TEXTS * 3, 290)
EMBED = EmbedConfig(max_length=64)
MAKERS = {
    "bert": make_bert,
    "sentence bert": make_sentence_bert,
    "sentence bert, first, bare": lambda folder: make_sentence_bert(folder, pooling="cls_token", normalise=False),
    "one segment, relu": lambda folder: make_bert(folder, type_vocab_size=1, hidden_act="relu", layer_norm_eps=1e-5),
    "gpt2": make_gpt2,
    "gpt2, untied": lambda folder: make_gpt2(folder, tie_word_embeddings=False, n_inner=50, activation_function="relu"),
    "llama": make_llama,
    "llama, tied, biased": lambda folder: make_llama(
        folder, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=8, num_key_value_heads=1
    ),
}


def drawn(model):
    """Every parameter away from its start, so that biases and norms count."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def save_ours(folder, config, tokenizer=BYTE_PAIRS, embed=EMBED):
    """A model of our own with random weights."""
    torch.manual_seed(0)
    kind, task = (TextEncoder, "embed") if isinstance(config, EncoderConfig) else (LanguageModel, "generate")
    model = drawn(kind(config, tokenizer.size))
    recipe = Recipe("mine", task, "", model=config, embed=embed, data=DataConfig(max_length=63))
    save_model(folder, model, Vocabulary(tokenizer), recipe)
    return model


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_was_imported_comes_back_bit_for_bit(tmp_path, make):
    make(tmp_path / "one" / "model")
    first = import_model(tmp_path / "one" / "model", tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "two" / "model")
    again = import_model(tmp_path / "two" / "model", tmp_path / "again")
    assert again.recipe == first.recipe
    assert again.vocabulary.dumps() == first.vocabulary.dumps()
    assert again.weights.keys() == first.weights.keys()
    assert all(torch.equal(again.weights[name], tensor) for name, tensor in first.weights.items())
    assert again.left_out == []


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, {"segments": 0}, {"activation": "gelu-tanh", "norm_eps": 1e-5}, {"kv_heads": 4, "key_width": 6}])  # fmt: skip
def test_an_encoder_has_the_same_states_there(tmp_path, changes):
    ours = save_ours(tmp_path / "ours", EncoderConfig(**SIZES, **changes))
    assert export_model(tmp_path / "ours", tmp_path / "theirs").name == "BertModel"
    theirs = AutoModel.from_pretrained(tmp_path / "theirs")
    ids = torch.randint(3, BYTE_PAIRS.size, (3, 20))
    assert (theirs(ids).last_hidden_state - ours(ids)).abs().max() <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "config"),
    {
        "GPT2LMHeadModel": LanguageModelConfig(**SIZES),
        "GPT2LMHeadModel, untied": LanguageModelConfig(**SIZES, tie=False, activation="gelu"),
        "LlamaForCausalLM": LanguageModelConfig(**LLAMA),
        "LlamaForCausalLM, grouped": LanguageModelConfig(**LLAMA, kv_heads=2, key_width=10, tie=False),
        "LlamaForCausalLM, biased": LanguageModelConfig(**{**LLAMA, "bias": True, "feedforward_bias": True}),
    }.items(),
)
def test_a_language_model_has_the_same_logits_there(tmp_path, name, config):
    ours = save_ours(tmp_path / "ours", config)
    assert export_model(tmp_path / "ours", tmp_path / "theirs").name == name.partition(",")[0]
    theirs, said = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs", output_loading_info=True)
    assert not said["missing_keys"]
    assert not said["unexpected_keys"]
    ids = torch.randint(3, BYTE_PAIRS.size, (3, 20))
    assert (theirs(ids).logits - ours(ids)).abs().max() <= 1e-5


@pytest.mark.parametrize("shape", [SIZES, LLAMA], ids=["gpt2", "llama"])
def test_it_writes_there_what_it_writes_here_and_after_coming_back(tmp_path, shape):
    save_ours(tmp_path / "ours", LanguageModelConfig(**shape))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "again")
    theirs, tokenizer = (kind.from_pretrained(tmp_path / "theirs") for kind in (AutoModelForCausalLM, AutoTokenizer))
    given = tokenizer("A dog", return_tensors="pt")
    written = theirs.generate(**given, max_new_tokens=12, do_sample=False)[0, given["input_ids"].shape[1] :].tolist()
    for folder in ("ours", "again"):
        said = Writer.load(tmp_path / folder, "cpu").write("A dog", tokens=12, temperature=0)
        assert [token.id for token in said] == written, folder


# ── pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=30) | st.text(
    st.sampled_from("dogse <bo>\t é🙂\r\xa0\u3000"), min_size=1, max_size=20
)


@given(LINES)
def test_byte_pairs_cut_every_line_alike_and_nobody_types_a_special_one(text):
    there = Tokenizer.from_str(pieces_of(BYTE_PAIRS, closed=True).tokenizer.to_str())
    (ids,) = BYTE_PAIRS.encode([text])
    assert there.encode(text).ids == [1, *ids, 2]
    assert there.decode(ids) == text


@given(st.lists(st.integers(0, BYTE_PAIRS.size - 1), max_size=12))
def test_whatever_ids_spell_they_spell_there(ids):
    there = pieces_of(BYTE_PAIRS, closed=False).tokenizer
    assert there.decode(ids) == BYTE_PAIRS.decode(ids)


@pytest.mark.parametrize(("make", "closed"), [(make_bert, True), (make_gpt2, False)], ids=["bert", "gpt2"])
def test_pieces_from_elsewhere_are_as_they_were(tmp_path, make, closed):
    make(tmp_path / "one")
    import_model(tmp_path / "one", tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "two")
    before, after = Tokenizer.from_file(str(tmp_path / "one" / "tokenizer.json")), AutoTokenizer.from_pretrained(tmp_path / "two")  # fmt: skip
    for text in ("a dog.", "dogs é", ""):
        assert after(text)["input_ids"] == before.encode(text).ids
    assert (after.pad_token, after.cls_token) == (("[PAD]", "[CLS]") if closed else (None, None))


def test_of_texts_that_are_padded_the_padding_is_known(tmp_path):
    save_ours(tmp_path / "ours", LanguageModelConfig(**LLAMA))
    export_model(tmp_path / "ours", tmp_path / "theirs")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    found = tokenizer(TEXTS, padding=True)
    expected = [[1, *ids] for ids in BYTE_PAIRS.encode(TEXTS)]
    longest = max(map(len, expected))
    assert found["input_ids"] in (
        [ids + [0] * (longest - len(ids)) for ids in expected],
        [[0] * (longest - len(ids)) + ids for ids in expected],
    )
    assert sorted(found) == ["attention_mask", "input_ids"]
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in found["input_ids"]] == TEXTS


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (EncoderConfig(**SIZES, norm="pre"), r"a BERT must have model.norm = 'post', got 'pre'"),
        (EncoderConfig(**SIZES, kv_heads=2), r"a BERT must have model.kv_heads = 4, got 2"),
        (EncoderConfig(**{**SIZES, "activation": "swiglu"}, qk_norm=True), r"model.qk_norm = False, got True; model.activation = 'gelu', got 'swiglu'"),
        (LanguageModelConfig(**SIZES, positions="sinusoidal"), r"a GPT-2 must have model.positions = 'learned', got 'sinusoidal'"),
        (LanguageModelConfig(**SIZES, key_width=8), r"a GPT-2 must have model.key_width = 6, got 8"),
        (LanguageModelConfig(**LLAMA, value_width=8), r"a Llama must have model.value_width = 6, got 8"),
        (LanguageModelConfig(**LLAMA, qk_norm=True), r"a Llama must have model.qk_norm = False, got True"),
    ],
)  # fmt: skip
def test_what_no_class_there_can_compute_is_refused(tmp_path, config, complaint):
    save_ours(tmp_path / "ours", config)
    with pytest.raises(InputError, match=complaint):
        export_model(tmp_path / "ours", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("kind", ["characters", "symbols"])
def test_pieces_that_are_no_byte_pairs_are_refused(tmp_path, kind):
    save_ours(tmp_path / "ours", LanguageModelConfig(**LLAMA), train_tokenizer(kind, TEXTS, 300))
    with pytest.raises(InputError, match=f"must be byte pairs to be exported, got one of the kind '{kind}'"):
        export_model(tmp_path / "ours", tmp_path / "theirs")


def test_a_translator_stays_here(tmp_path):
    with pytest.raises(InputError, match="encoders and language models can be exported, got a model for 'translate'"):
        export_model("de-en", tmp_path / "theirs")


def test_nothing_is_written_over_and_there_is_one_place_to_go(tmp_path):
    save_ours(tmp_path / "ours", LanguageModelConfig(**LLAMA))
    with pytest.raises(OptionError, match="a new folder"):
        export_model(tmp_path / "ours", tmp_path)
    with pytest.raises(OptionError, match="exported to 'huggingface', got 'onnx'"):
        export_model(tmp_path / "ours", tmp_path / "theirs", to="onnx")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}, "got 'default' and 500000.0"),
        ({"rope_parameters": None, "rope_theta": 5.0}, "got 'default' and 5.0"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "got 'linear' and 10000.0"),
        ({"hidden_act": "gelu"}, "the hidden_act of a Llama must be 'silu', got 'gelu'"),
        ({"num_key_value_heads": "2"}, "num_key_value_heads must be a whole number"),
        ({"num_key_value_heads": 4}, r"attention.input.weight must be \(72, 24\)"),
    ],
)
def test_a_llama_that_would_be_computed_otherwise_is_refused(tmp_path, changes, complaint):
    make_llama(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=complaint):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_says_what_it_made_and_what_it_wants(tmp_path):
    save_ours(tmp_path / "ours", EncoderConfig(**SIZES), embed=EmbedConfig("first", False, 32))
    command = [sys.executable, "-m", "manyheads", "export", str(tmp_path / "ours")]
    done = subprocess.run([*command, "--to", "huggingface", str(tmp_path / "theirs")], capture_output=True, text=True, timeout=100)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"{tmp_path / 'theirs'}\n",
        "BertModel of `transformers`\n",
    )
    assert sorted(str(path.relative_to(tmp_path / "theirs")) for path in (tmp_path / "theirs").rglob("*.*")) == [
        "1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    refused = subprocess.run([*command, "--to", "onnx", str(tmp_path / "more")], capture_output=True, text=True, timeout=100)  # fmt: skip
    assert refused.returncode == 2
    assert "huggingface" in refused.stderr


def test_equal_models_give_equal_folders(tmp_path):
    save_ours(tmp_path / "ours", LanguageModelConfig(**LLAMA))
    for name in ("one", "two"):
        export_model(tmp_path / "ours", tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_the_way_in_is_that_of_llama(tmp_path):
    """Logits of a Llama from there, imported."""
    theirs = make_llama(tmp_path / "theirs", head_dim=8)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    model, _, recipe = load_by_task(tmp_path / "ours")
    ids = torch.randint(0, 270, (3, 40))
    with torch.no_grad():
        assert (model(ids) - theirs(ids).logits).abs().max() <= 1e-5
    assert recipe.language_model.kv_heads == 2


@pytest.mark.parametrize("task", ["mask", "classify"])
def test_of_an_encoder_with_a_head_the_encoder_is_exported(tmp_path, task):
    make_bert(tmp_path / "theirs", masked=True)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "data.tsv").write_text("".join(f"{'ab'[n % 2]}\tdogs sleep {n}\n" for n in range(40)))
    (tmp_path / "data.txt").write_text("".join(f"dogs sleep {n}\n" for n in range(40)))
    file = tmp_path / ("data.tsv" if task == "classify" else "data.txt")
    trained = train(f"{task}/finetune", base=tmp_path / "ours", train=[file], out=tmp_path / "run", changes={"train.steps": 2}, device="cpu", quiet=True)  # fmt: skip
    assert export_model(trained.folder, tmp_path / "out").name == "BertModel"
    import_model(tmp_path / "out", tmp_path / "back")
    for ours, theirs in zip(
        load_encoder(trained.folder)[0].parameters(), load_encoder(tmp_path / "back")[0].parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)
