"""A small BERT of Hugging Face's own, with weights drawn at random and a tokenizer of a few pieces."""

import json

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefgh"), "dog", "##s", ".", "é"]  # fmt: skip
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 20}  # fmt: skip


def tokenizer():
    pieces = Tokenizer(models.WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    pieces.add_special_tokens(WORDS[:5])
    pieces.normalizer = normalizers.BertNormalizer()
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.decoder = decoders.WordPiece()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return pieces


def make_bert(folder, *, masked=False, whole=False, seed=0, vocabulary=None, **changes):
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=vocabulary or len(WORDS), **{**SIZES, **changes})
    config._attn_implementation = "eager"
    model = (BertForMaskedLM if masked else BertModel)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases, too: they are 1 and 0 at first
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    return model.bert if masked and not whole else model


def make_sentence_bert(folder, *, pooling="mean_tokens", normalise=True, most=12, **how):
    model = make_bert(folder, **how)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    modules = [{"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"} for n, kind in enumerate(kinds)]  # fmt: skip
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}  # fmt: skip
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 24, **modes}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": most}))
    return model
