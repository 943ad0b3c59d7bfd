"""A small GPT-2 of Hugging Face's own, with weights drawn at random and pieces of bytes."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel

TEXT = ["Once upon a time there was a dog.", "The dog slept upon a sofa, and the café was shut. 🙂"] * 3
SIZES = {"n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 40}


def tokenizer():
    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    pieces.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pieces.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False))  # fmt: skip
    return pieces


def make_gpt2(folder, *, seed=0, **changes):
    torch.manual_seed(seed)
    pieces = tokenizer()
    config = GPT2Config(vocab_size=pieces.get_vocab_size(), bos_token_id=0, eos_token_id=0, **{**SIZES, **changes})
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config).eval()
    return save_drawn(model, pieces, folder)


def save_drawn(model, pieces, folder):
    """Every parameter away from its start, so that biases and norms count."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(pieces.to_str(), encoding="utf-8")
    return model
