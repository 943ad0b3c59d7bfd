"""Models that have one text: a small BERT and a small GPT-2, imported, with weights drawn at random."""

from interop.bert import make_sentence_bert
from interop.gpt2 import make_gpt2
from manyheads import Embedder, Writer, import_model

READ = "Dogs, a BÄD café!"
"""Capitals and accents that are normalised away, pieces that go on a word, and what has no piece."""
PROMPT = "The dog 🙂 slept"


def make_embedder(place):
    """Also what it was imported from."""
    theirs = make_sentence_bert(place / "bert", most=20)
    import_model(place / "bert", place / "ours")
    return Embedder.load(place / "ours", "cpu", "fp32"), theirs


def make_writer(place):
    theirs = make_gpt2(place / "gpt2", n_positions=80)
    import_model(place / "gpt2", place / "ours")
    return Writer.load(place / "ours", "cpu", "fp32"), theirs
