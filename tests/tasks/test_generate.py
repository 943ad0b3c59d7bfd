"""Language models: what they learn from, held against explicit sums; and that they learn."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from cli.command import status
from interop.gpt2 import make_gpt2
from manyheads import LanguageModel, LanguageModelConfig, OptionError, Writer, import_model, load_recipe, train
from manyheads.generation.evaluate import evaluate_texts
from manyheads.nn import Packed
from manyheads.tasks.consistency import choose_loss
from manyheads.tasks.generate import Task
from manyheads.tasks.texts import pack_texts, pad_texts
from manyheads.text.packs import Room
from manyheads.text.shards import Rows
from manyheads.text.tokenizer import BEGIN, END, PADDING

OPTIONS = {"width": 32, "layers": 2, "heads": 4, "feedforward": 48, "dropout": 0.0, "max_length": 32}
MODERN = {"activation": "swiglu", "normaliser": "rms", "positions": "rotary", "kv_heads": 2, "bias": False, "feedforward_bias": False}  # fmt: skip
TEXTS = ["a b c d e f g h", "h g f e d c b a", "a c e g", "b d f h"]


def rows(texts):
    lengths = np.array([len(text) for text in texts], np.int64)
    ids = np.concatenate([np.array(text, np.int64) for text in texts]) if texts else np.empty(0, np.int64)
    return Rows(ids, np.cumsum(lengths) - lengths, lengths)


texts = st.lists(st.lists(st.integers(3, 19), min_size=1, max_size=9), min_size=1, max_size=5)


@given(texts)
def test_padded_and_packed_hold_every_text_between_its_begin_and_its_end(given_texts):
    padded, packed = pad_texts(rows(given_texts)), pack_texts(rows(given_texts), Room(64, 1, 6), 10)
    assert padded.count == sum(map(len, given_texts)) + len(given_texts)
    for n, text in enumerate(given_texts):
        size = len(text) + 1
        start = int(packed.offsets[n])
        for ids, labels in ((padded.ids[n], padded.labels[n]), (packed.ids[start:], packed.labels[start:])):
            assert ids[:size].tolist() == [BEGIN, *text]
            assert labels[:size].tolist() == [*text, END]
        assert (padded.labels[n, size:] == PADDING).all()
    assert (packed.labels[int(packed.offsets[len(given_texts)]) :] == PADDING).all()
    assert int(packed.offsets[-1]) == 64


@pytest.mark.parametrize("more", [{}, MODERN, {"tie": False}], ids=["GPT-2", "modern", "untied"])
def test_the_loss_is_the_sum_over_all_tokens_padded_packed_or_in_halves(more):
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**{**OPTIONS, **more}), 20).double()
    some = [[3, 4, 5], [6], [7, 8, 9, 10, 11]]
    expected = torch.zeros((), dtype=torch.float64)
    for text in some:
        logits = model(torch.tensor([[BEGIN, *text]]))[0]
        expected += F.cross_entropy(logits, torch.tensor([*text, END]), reduction="sum")
    loss = choose_loss(load_recipe("lm/tiny").train)
    padded, packed = pad_texts(rows(some)), pack_texts(rows(some), Room(24, 1, 4), 8)
    for batch in (padded, packed):
        assert float(loss(model, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-9)
        halves = sum(float(loss(model, half).detach()) for half in batch.halves())
        assert halves == pytest.approx(float(expected.detach()), rel=1e-9)
    gradients = [torch.autograd.grad(loss(model, batch), list(model.parameters())) for batch in (padded, packed)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("more", [{}, MODERN], ids=["GPT-2", "modern"])
def test_no_gradient_reaches_back_from_the_future(more):
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(**{**OPTIONS, **more}), 20).eval()
    ids, lengths = torch.randint(3, 20, (20,)), [12, 8]
    seen = {}
    model.words.register_forward_hook(lambda module, given, output: seen.update(words=output) or output.retain_grad())
    model(ids, Packed.from_lengths(lengths))[5].square().sum().backward()
    sizes = seen["words"].grad.abs().sum(-1)
    assert (sizes[:6] > 0).all()
    assert (sizes[6:] == 0).all()  # neither what comes after it nor another text


@torch.no_grad()
def test_scores_are_those_of_the_library(tmp_path, capsys):
    theirs = make_gpt2(tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    writer = Writer.load(tmp_path / "ours", "cpu")
    lines = ["Once upon a time", "café 🙂", "a dog"]
    (tmp_path / "texts.txt").write_text("\n".join([*lines, "", "x" * 200]) + "\n", encoding="utf-8")
    total = bits = 0.0
    for text, one in zip(lines, writer.score(lines), strict=True):
        ids = torch.tensor([0, *writer.tokenizer.encode([text])[0], 0])
        expected = -F.cross_entropy(theirs(ids[None, :-1]).logits[0], ids[1:], reduction="sum")
        assert one.log_probability == pytest.approx(float(expected), rel=1e-5)
        assert (one.tokens, one.bytes) == (len(ids) - 1, len(text.encode()) + 1)
        total, bits = total - float(expected), bits + one.bytes
    found = evaluate_texts(writer, tmp_path / "texts.txt")
    assert (found["lines"], found["left_out"], found["truncated"]) == (4, 1, 1)
    (tmp_path / "short.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = evaluate_texts(writer, tmp_path / "short.txt")
    assert found["bits_per_byte"] == pytest.approx(total / math.log(2) / bits, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(total / found["tokens"]), rel=1e-5)
    assert status("evaluate", str(tmp_path / "ours"), "--data", str(tmp_path / "short.txt"), "--beam", "7") == 2
    assert "a language model is scored on texts as they are, got beam 7" in capsys.readouterr().err
    with pytest.raises(
        OptionError, match=r"must be an encoder or a model trained by Manyheads, got .*, which was imported"
    ):
        train(train=str(tmp_path / "short.txt"), base=tmp_path / "ours", out=tmp_path / "more", quiet=True)


@pytest.mark.slow
def test_it_learns_texts_by_heart_and_stops_where_they_end(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 8) + "\n")
    (tmp_path / "dev.txt").write_text("\n".join(TEXTS) + "\n")
    changes = {"train.epochs": 1, "train.steps": 80, "train.tokens": 256, "data.vocabulary": 280, "model.dropout": 0.0, "train.patience": 0, "train.warmup": 5, "train.ema": 0.9, "train.save_every": 40}  # fmt: skip
    files = {"train": tmp_path / "texts.txt", "dev": tmp_path / "dev.txt", "quiet": True, "device": "cpu"}
    found = train("lm/tiny", **files, out=tmp_path / "run", changes=changes)
    assert found.metrics["perplexity"] < 1.5
    assert found.metrics["bits_per_byte"] < 0.5
    writer = Writer.load(tmp_path / "run", "cpu")
    assert writer("a b c", temperature=0) == " d e f g h"
    assert writer("h g", temperature=0) == " f e d c b a"
    assert writer("", temperature=0.5, seed=2) in TEXTS


@pytest.mark.slow
def test_validating_leaves_dropout_on_and_long_texts_do_not_end_a_run(tmp_path, monkeypatch):
    """Without a moving average it is the trained model itself that is validated."""
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS * 8) + "\n")
    (tmp_path / "dev.txt").write_text("\n".join(["a b " * 200, *TEXTS]) + "\n")
    seen, loss = [], Task.loss
    monkeypatch.setattr(
        Task, "loss", lambda self, model, batch: seen.append(model.training) or loss(self, model, batch)
    )
    monkeypatch.setattr(Task, "fused_loss", lambda self: self.loss)
    changes = {"train.steps": 8, "train.tokens": 256, "data.vocabulary": 280, "data.max_length": 31, "model.positions": "learned", "model.max_length": 32, "train.ema": 0.0, "train.validate_every": 2}  # fmt: skip
    train("lm/tiny", train=tmp_path / "texts.txt", dev=tmp_path / "dev.txt", out=tmp_path / "run", changes=changes, quiet=True, device="cpu")  # fmt: skip
    assert seen == [True] * 8
    assert "Attention" not in (tmp_path / "run" / "report.html").read_text()


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"data\.target_tokenizer does nothing"):
        load_recipe("lm/tiny", {"data.target_tokenizer": "bpe"})
    with pytest.raises(OptionError, match=r"train\.simcut does nothing"):
        load_recipe("lm/tiny", {"train.simcut": 3.0})
    with pytest.raises(OptionError, match=r"decoder_layers is not known"):
        load_recipe("lm/tiny", {"model.decoder_layers": 3})
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    with pytest.raises(
        OptionError, match=r"takes files with one text per line, got .*pairs.tsv, a file of pairs by its name"
    ):
        train("lm/tiny", train=tmp_path / "pairs.tsv", out=tmp_path / "run", quiet=True)
