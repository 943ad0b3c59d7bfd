"""A small Llama of Hugging Face's own, with weights drawn at random and GPT-2's kind of pieces."""

import torch
from gpt2 import save_drawn, tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
    "max_position_embeddings": 64,
}  # fmt: skip


def make_llama(folder, *, seed=0, **changes):
    torch.manual_seed(seed)
    pieces = tokenizer()
    config = LlamaConfig(vocab_size=pieces.get_vocab_size(), bos_token_id=0, eos_token_id=0, **{**SIZES, **changes})
    model = LlamaForCausalLM(config).eval()
    return save_drawn(model, pieces, folder)
