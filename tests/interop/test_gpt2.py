"""GPT-2 from Hugging Face: the same logits, read at once, packed, or step by step."""

import json

import pytest
import torch
from gpt2 import TEXT, make_gpt2, tokenizer
from hypothesis import given
from hypothesis import strategies as st

from manyheads import InputError, import_model
from manyheads.modelfolder import load_language_model
from manyheads.nn import Packed
from manyheads.text.foreign import ForeignPieces

UNTIED = {"tie_word_embeddings": False}


@torch.no_grad()
@pytest.mark.parametrize("changes", [{}, UNTIED, {"activation_function": "relu", "n_inner": 50, "layer_norm_epsilon": 1e-3}])  # fmt: skip
def test_logits_are_the_same_padded_packed_and_step_by_step(tmp_path, changes):
    theirs = make_gpt2(tmp_path / "theirs", **changes)
    assert import_model(tmp_path / "theirs", tmp_path / "ours").left_out == []
    model, _, recipe = load_language_model(tmp_path / "ours")
    assert recipe.task == "generate"
    ids = torch.randint(0, 270, (3, 40))
    expected = theirs(ids).logits
    assert (model(ids) - expected).abs().max() <= 1e-5
    packed = model(ids.flatten(), Packed.from_lengths([40, 40, 40]))
    assert (packed - expected.flatten(0, 1)).abs().max() <= 1e-5
    past = model.start()
    steps = [model.step(ids[:, :7], past), *(model.step(ids[:, n : n + 1], past) for n in range(7, 40))]
    assert (torch.cat(steps, 1) - expected).abs().max() <= 1e-5
    weights = []
    model(ids, weights=weights)
    assert [tuple(one.shape) for one in weights] == [(3, 4, 40, 40)] * 3
    assert all(torch.equal(one, one.tril()) for one in weights)


def test_no_token_sees_what_comes_after_it(tmp_path):
    """The gradient of what is said at a place is 0 in all words behind it, and in none before it."""
    make_gpt2(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    model, _, _ = load_language_model(tmp_path / "ours")
    seen = {}
    model.words.register_forward_hook(lambda module, given, output: seen.update(words=output) or output.retain_grad())
    model(torch.randint(0, 270, (1, 12)))[0, 5].square().sum().backward()
    sizes = seen["words"].grad[0].abs().sum(-1)
    assert (sizes[6:] == 0).all()
    assert (sizes[:6] > 0).all()


def test_several_tokens_may_end_a_text(tmp_path):
    make_gpt2(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [0, 7]}))
    import_model(tmp_path / "theirs", tmp_path / "ours")
    _, vocabulary, _ = load_language_model(tmp_path / "ours")
    assert (vocabulary.source.begin, vocabulary.source.end) == ([0], [0, 7])


@given(st.lists(st.text(st.sampled_from("aOncedog é\n🙂<|endoftext|>"), max_size=20), max_size=4))
def test_pieces_spell_every_text_and_no_text_types_the_end(texts):
    pieces = ForeignPieces(json.loads(tokenizer().to_str()), [0], [0])
    found = pieces.encode(texts)
    assert [pieces.decode(ids) for ids in found] == texts
    assert not any(0 in ids for ids in found)


def test_words_begin_where_a_blank_is():
    pieces = ForeignPieces(json.loads(tokenizer().to_str()), [0], [0])
    (ids,) = pieces.encode([TEXT[0]])
    units = pieces.units([0, *ids])
    assert units[0] is None
    assert units[-1] == TEXT[0].count(" ")
    assert units[1:] == sorted(units[1:])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx must be False"),
        ({"activation_function": "tanh"}, "activation_function must be one of"),
        ({"model_type": "mamba"}, "model_type 'bert' or 'gpt2' or 'llama', got 'mamba'"),
        ({"eos_token_id": 99_999}, "must be pieces"),
        ({"eos_token_id": True}, "eos_token_id must be a number"),
        ({"n_embd": None}, "n_embd must be a whole number"),
        ({"activation_function": {}}, "activation_function must be one of"),
    ],
)
def test_what_would_be_computed_otherwise_is_refused(tmp_path, changes, complaint):
    make_gpt2(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError, match=complaint):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
