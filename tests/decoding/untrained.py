"""A translator that was never trained: it writes nonsense, but not the same for every line."""

import torch

from manyheads import Transformer, TransformerConfig
from manyheads.decoding.searching import search_all
from manyheads.decoding.translator import Translator
from manyheads.recipe import DataConfig, DecodeConfig, Recipe
from manyheads.text.bytepairs import BytePairs
from manyheads.text.listed import Characters, Symbols
from manyheads.text.tokenizer import END
from manyheads.text.vocabulary import Vocabulary

MODEL = TransformerConfig(width=16, layers=1, heads=2, feedforward=32, dropout=0.0, tie="none", norm="pre")
TOKENIZERS = {
    "bpe": BytePairs([("Ġ", "a"), ("e", "d"), ("Ġa", "b"), ("c", "a"), ("Ġ", "ca"), ("Ã", "©")]),
    "characters": Characters("abcdefé ."),
    "symbols": Symbols(["a", "b", "ab", "cab", "é", "."]),
}


def build(kind="bpe", seed=3, pieces=64, shape=MODEL, **decode):
    torch.manual_seed(seed)
    vocabulary = Vocabulary(TOKENIZERS[kind])
    model = Transformer(shape, vocabulary.sizes).eval()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    decode = DecodeConfig(**({"beam": 2, "max_ratio": 1.0, "max_extra": 8} | decode))
    return Translator(model, vocabulary, Recipe(model=shape, data=DataConfig(max_length=pieces), decode=decode))


def favour(translator, text, by=60.0):
    """Make the pieces of a text, and the end, so likely that no others are worth a look."""
    tokenizer, model = translator.vocabulary.target, translator.model
    liked = torch.zeros(tokenizer.size)
    liked[[END, *tokenizer.encode([text])[0]]] = by
    for name in ("step", "forward"):
        plain = getattr(model, name)
        setattr(model, name, lambda *given, plain=plain: plain(*given) + liked)


def search_ids(translator, sources, search):
    """The hypotheses of ids that nobody wishes anything for."""
    return search_all(translator.model, sources, range(len(sources)), [None] * len(sources), search, translator.longest)


def elsewhere(translator: Translator) -> Translator:
    """The same translator on another device."""
    translator.model.to("meta")
    return translator
