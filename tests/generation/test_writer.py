"""What a writer writes: held against the library that made the model, and against itself."""

import json
import subprocess
import sys

import pytest
import torch

from interop.gpt2 import make_gpt2
from manyheads import InputError, OptionError, Writer, import_model

PROMPT = "Once upon a dog"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("gpt2")
    make_gpt2(place / "theirs")
    import_model(place / "theirs", place / "ours")
    return place


@pytest.fixture(scope="module")
def writer(folder):
    return Writer.load(folder / "ours", "cpu")


@torch.no_grad()
def test_the_likeliest_is_what_the_library_takes(folder, writer):
    from transformers import GPT2LMHeadModel

    theirs = GPT2LMHeadModel.from_pretrained(folder / "theirs").eval()
    ids = torch.tensor([writer.read(PROMPT)])
    expected = theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, pad_token_id=0)[0, ids.shape[1] :]  # fmt: skip
    found = list(writer.write(PROMPT, temperature=0, tokens=20))
    assert [token.id for token in found] == expected.tolist()
    log_p = theirs(torch.cat([ids[0], expected])[None]).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)
    for n, token in enumerate(found):
        assert token.log_probability == pytest.approx(float(log_p[n, token.id]), abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_streamed_is_what_the_tokens_spell(writer, seed):
    """Also where a letter is several tokens, or bytes are none."""
    found = list(writer.write(PROMPT, temperature=3.0, tokens=30, top_p=1.0, seed=seed))
    ids = [token.id for token in found if token.id not in writer.end]
    assert "".join(token.text for token in found) == writer.tokenizer.decode(ids)
    assert writer(PROMPT, temperature=3.0, tokens=30, top_p=1.0, seed=seed) == writer.tokenizer.decode(ids)
    assert [token.reason for token in found[:-1]] == [None] * (len(found) - 1)


def test_another_seed_is_another_text_and_the_same_is_the_same(writer):
    texts = [writer(PROMPT, seed=seed) for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert len({writer(PROMPT, seed=seed, top_k=1) for seed in range(5)}) == 1


@torch.no_grad()
def test_draws_are_from_the_distribution(writer):
    """The first token, over many seeds, as often as the model says, within four standard deviations."""
    log_p = writer.log_probabilities(writer.model(torch.tensor([writer.read(PROMPT)]))[:, -1])[0].double()
    p = (log_p / 0.5).softmax(-1)
    word, times = int(p.argmax()), 1_000
    hits = sum(next(iter(writer.write(PROMPT, temperature=0.5, top_p=1.0, tokens=1, seed=n))).id == word for n in range(times))  # fmt: skip
    share = float(p[word])
    assert abs(hits - times * share) <= 4 * (times * share * (1 - share)) ** 0.5


def test_why_it_stops(writer):
    assert list(writer.write(PROMPT, tokens=3, temperature=0))[-1].reason == "tokens"
    *_, last = writer.write("dog " * 9, tokens=1_000, temperature=0)
    assert last.reason in ("room", "end")
    with pytest.raises(InputError, match=r"leave room for new tokens, got \d+ tokens for a model that reads 40"):
        writer("xyz" * 20)
    ends = [list(writer.write("", temperature=2.0, tokens=30, seed=seed))[-1] for seed in range(40)]
    assert {one.reason for one in ends} == {"end", "tokens"}
    assert all((one.id in writer.end) == (one.reason == "end") for one in ends)


def test_what_is_no_option_is_refused(writer):
    with pytest.raises(OptionError, match="'heat' is not an option of a writer"):
        writer(PROMPT, heat=3)
    with pytest.raises(OptionError, match="temperature must be between"):
        writer(PROMPT, temperature=-1)
    with pytest.raises(OptionError, match="a prompt must be text"):
        writer(3)
    for seed in (-1, 2**32, 1.5, "x", True):
        with pytest.raises(OptionError, match="seed must be a whole number"):
            writer(PROMPT, seed=seed)
    with pytest.raises(InputError, match="half of a surrogate pair"):
        writer("a\ud800")


def manyheads(*words, **how):
    command = [sys.executable, "-m", "manyheads", *map(str, words)]
    return subprocess.run(command, capture_output=True, timeout=120, **how)


def test_the_command_reads_a_prompt_and_writes_what_follows(folder, writer):
    expected = writer(PROMPT, tokens=12, seed=4)
    given = manyheads("generate", folder / "ours", "--tokens", 12, "--seed", 4, input=PROMPT.encode() + b"\n")
    assert given.stdout.decode() == expected + "\n"
    named = manyheads("generate", folder / "ours", "--prompt", PROMPT, "--tokens", 12, "--seed", 4, "--json")
    rows = [json.loads(line) for line in named.stdout.splitlines()]
    assert "".join(row["text"] for row in rows) == expected
    assert rows[-1]["reason"] in ("tokens", "end")
    refused = manyheads("generate", "de-en", "--prompt", PROMPT)
    assert refused.returncode == 2
    assert b"a model that can generate text is needed" in refused.stderr


def test_of_a_text_that_is_cut_the_bytes_that_were_scored_count(writer):
    """Bits per byte can be compared: what was not read is not counted as if it had been."""
    text = "Once upon a dog there was " * 60
    cut, longer = writer.score([text, text + "and more " * 500])
    assert cut.truncated
    assert (longer.bytes, longer.log_probability) == (cut.bytes, pytest.approx(cut.log_probability, rel=1e-5))
    (ids,) = writer.tokenizer.encode([text])
    assert cut.bytes == len(writer.tokenizer.decode(ids[: cut.tokens]).encode()) < len(text)
