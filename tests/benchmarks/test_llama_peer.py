"""The peer of the language model: same size, same tokens, and scores that are those of Hugging Face itself."""

import math
from dataclasses import replace

import pytest
import torch
from benchmarks.language_model import LLAMA, check_scores, judge, table, writer_of
from benchmarks.llama import SETTLED, Llama, Run, fit_llama, pad_for_llama, rows_of

from manyheads.interop.huggingface import give
from manyheads.interop.llama import names_of
from manyheads.machine import Machine
from manyheads.models.language_model import LanguageModel
from manyheads.recipe import TrainConfig, load_recipe
from manyheads.text.vocabulary import train_tokenizer

TEXTS = ["I see a dog.", "A dog sees me, and I see it.", "No.", "We saw two dogs, then three, then none at all."]
CONFIG = replace(
    load_recipe("lm/tiny").language_model, width=32, layers=2, heads=4, kv_heads=2, feedforward=48, dropout=0.0
)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer("bpe", TEXTS, 300)


@pytest.fixture
def llama(tokenizer):
    torch.manual_seed(0)
    return Llama(CONFIG, tokenizer)


def test_it_has_our_parameters_and_attention_by_sdpa(llama, tokenizer):
    ours = LanguageModel(CONFIG, tokenizer.size)
    assert sum(p.numel() for p in llama.parameters()) == sum(p.numel() for p in ours.parameters())
    assert llama.body.config._attn_implementation == "sdpa"


@torch.no_grad()
def test_with_our_weights_it_computes_what_ours_does(llama, tokenizer):
    """So that only how the weights begin, and what trains them, differs."""
    ours = LanguageModel(CONFIG, tokenizer.size).eval()
    llama.body.load_state_dict(give(ours.state_dict(), dict(names_of(CONFIG)), CONFIG), strict=False)
    ids = torch.randint(3, tokenizer.size, (3, 20))
    torch.testing.assert_close(llama.logits(llama.eval().states(ids)), ours(ids), atol=1e-5, rtol=1e-5)


def test_the_scores_are_those_of_hugging_face(llama, tokenizer):
    assert check_scores(llama.eval(), tokenizer, TEXTS) < 1e-5


def test_a_score_that_leaves_out_the_end_is_noticed(llama, tokenizer, monkeypatch):
    forced = type(writer_of(llama, tokenizer)).forced
    monkeypatch.setattr(
        "benchmarks.language_model.Writer.forced", lambda self, rows: forced(self, [r[:-1] for r in rows])
    )
    assert check_scores(llama.eval(), tokenizer, TEXTS) > 1e-3


def test_an_even_guess_has_the_perplexity_of_the_vocabulary(llama, tokenizer):
    torch.nn.init.zeros_(llama.words.weight)  # it is the head, too
    found = judge(writer_of(llama, tokenizer), TEXTS)
    tokens, size = sum(len(ids) + 1 for ids in tokenizer.encode(TEXTS)), sum(len(text.encode()) + 1 for text in TEXTS)
    assert found["perplexity"] == pytest.approx(tokenizer.size, rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(tokens * math.log2(tokenizer.size) / size, rel=1e-5)


def test_padding_is_neither_seen_nor_predicted(llama, tokenizer):
    """The loss of a padded batch is the mean over the tokens of its texts, each alone."""
    pieces = tokenizer.encode(TEXTS)
    counts = torch.tensor([len(ids) + 1 for ids in pieces])
    together = llama(*pad_for_llama(rows_of(pieces, 99)))
    alone = torch.stack([llama(*pad_for_llama(rows_of([ids], 99))) for ids in pieces])
    torch.testing.assert_close(together, (alone * counts).sum() / counts.sum())


def test_texts_that_are_too_long_are_left_out(tokenizer):
    pieces = tokenizer.encode(TEXTS)
    longest = len(pieces[1])
    assert rows_of(pieces, longest).lengths.tolist() == [len(ids) for ids in pieces if len(ids) <= longest]


def test_it_learns_and_every_token_is_counted(llama, tokenizer):
    texts = rows_of(tokenizer.encode(TEXTS), 99)
    config = TrainConfig(tokens=10_000, rate=1e-2, warmup=4, schedule="cosine", weight_decay=0.0)
    machine = Machine(torch.device("cpu"), "fp32")
    run = fit_llama(
        llama, texts, config, 2 * SETTLED, machine, lambda: judge(writer_of(llama, tokenizer), TEXTS), SETTLED
    )
    assert [step for step, _ in run.scores] == [SETTLED, 2 * SETTLED]
    assert run.scores[-1][1]["perplexity"] < 3  # it knows four texts by heart
    assert run.tokens == 2 * SETTLED * (int(texts.lengths.sum()) + len(TEXTS))
    assert run.settling[1] == run.tokens // 2


def test_speed_is_that_after_the_first_steps():
    run = Run(steps=100, seconds=30.0, tokens=10_000, settling=(14.0, 2_000))
    assert run.speed == 500  # 8,000 tokens in 16 seconds
    assert run.start_seconds == 10  # 14 seconds for what takes 4


def test_the_table_has_our_speed_over_theirs():
    row = {"parameters": 1, "steps": 1, "perplexity": 1.0, "bits_per_byte": 1.0, "seconds": 1.0, "compile_seconds": 0.0}
    rows = [
        {"system": "manyheads", "target_tokens_per_s": 3_000, **row},
        {"system": LLAMA, "target_tokens_per_s": 1_000, **row},
    ]
    assert [line[-5:] for line in table(rows)] == ["speed", "3.00×", "1.00×"]
