"""Tokenizers: text to ids and back, exactly, whatever the text; and nothing a tokenizer's file says is believed."""

import copy
import json
import os
import random
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from manyheads.errors import InputError, OptionError
from manyheads.text.bytepairs import stretches
from manyheads.text.tokenizer import FIRST, Tokenizer
from manyheads.text.vocabulary import Vocabulary, train_tokenizer, train_vocabulary

CORPUS = [
    "the cat sat on the mat ,  the dog did not .",
    "der Hund schläft , die Katze auch nicht .",
    "T R AE1 N IH0 NG  Größe größer grüßen",
    "<pad> ▁the </s> <bos>",
] * 3
KINDS = ("bpe", "characters", "symbols")
TRAINED: dict[str, Tokenizer] = {kind: train_tokenizer(kind, CORPUS, 320) for kind in KINDS}

LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))
"""Any line: all scripts, combining marks, NUL, private use, noncharacters."""


def joined(*pieces):
    return st.lists(st.sampled_from(pieces) | LINE.map(lambda text: text[:3])).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(
    text=LINE | joined("the", " ", "  ", "Größe", "▁", "</s>", "<pad>", "\u0301", "\x00", "🏴", "\r", "\u2028", "'s")
)
def test_text_comes_back_as_it_was(kind, text):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == text
    assert all(FIRST <= i < tokenizer.size for i in ids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    ["", " ", "   ", "a ", " a", "<pad>", "<bos>", "<eos>", "</s>", "▁", "<unk>", "e" + "\u0301" * 50, "\ufffe\uffff",
     "\ue000\U0010fffd", "\x00\x01\x1f\x7f\x85", "שלום مرحبا नमस्ते 你好 안녕 👩‍👩‍👧‍👦", "\u202eabc\u202c", "\ufeffx", "Ġ Ċ ġ"],
)  # fmt: skip
def test_text_that_is_odd_comes_back_too(kind, text):
    tokenizer = TRAINED[kind]
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode(ids) == text
    assert not {0, 1, 2} & set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_characters_of_every_plane_come_back(kind):
    tokenizer = TRAINED[kind]
    some = [c for c in range(0x110000) if c != 10 and not 0xD800 <= c < 0xE000 and (c < 0x3000 or c % 97 == 0)]
    lines = ["".join(map(chr, some[start : start + 64])) for start in range(0, len(some), 64)]
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(lines)] == lines


@given(st.text(st.sampled_from("aab  \t\u00a0\u3000'.,s1é"), max_size=20) | LINE)
def test_words_that_are_remembered_are_cut_as_in_their_text(text):
    """The whole text through the library, against ours, which cuts at spaces and remembers."""
    pairs = TRAINED["bpe"]
    [whole] = pairs.engine.encode_batch_fast([" " + text], add_special_tokens=False)
    assert pairs.encode([text]) == [[i + FIRST for i in whole.ids]] == pairs.encode([text])


def test_more_words_than_are_remembered(monkeypatch):
    monkeypatch.setattr("manyheads.text.bytepairs.MOST_KNOWN", 5)
    pairs = train_tokenizer("bpe", CORPUS, 400)
    texts = [f"{line} {n}" for n, line in enumerate(CORPUS)]
    assert [pairs.decode(ids) for ids in pairs.encode(texts) + pairs.encode(texts)] == texts * 2
    assert len(pairs.known) <= 5


def test_long_words_are_not_remembered():
    """A line of a script without spaces is one word, and is hardly met again."""
    pairs = train_tokenizer("bpe", CORPUS, 400)
    texts = ["x" * 100, "x" * 101, f"a {'東京' * 60} b"]
    assert [pairs.decode(ids) for ids in pairs.encode(texts) + pairs.encode(texts[1:])] == texts + texts[1:]
    assert set(pairs.known) == {"x" * 100, "a", "b"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_id_spells_a_newline(kind):
    tokenizer = TRAINED[kind]
    assert not any("\n" in tokenizer.decode([i]) for i in range(tokenizer.size))
    assert not any("\n" in piece for piece in tokenizer.pieces(range(tokenizer.size)))
    assert tokenizer.decode([0, 1, 2]) == ""


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_whatever_ids_a_model_writes_are_one_line(kind, data):
    tokenizer = TRAINED[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=30))
    text = tokenizer.decode(ids)
    assert "\n" not in text
    assert len(tokenizer.pieces(ids)) == len(ids)
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "complaint"),
    [("two\nlines", r"one line, got 'two\\nlines'"), ("half \ud83d", r"half of a surrogate pair, '\\ud83d', at 5")],
)
def test_what_is_no_line_is_refused(kind, text, complaint):
    with pytest.raises(InputError, match=complaint):
        TRAINED[kind].encode(["fine", text])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [270, 320, 5000])
def test_a_vocabulary_is_no_larger_than_asked_and_saves_pieces(kind, size):
    tokenizer = train_tokenizer(kind, CORPUS, size)
    assert 258 < tokenizer.size <= size
    if size > 270:
        (ids,) = tokenizer.encode(["the cat"])
        assert len(ids) <= {"bpe": 4, "characters": 7, "symbols": 2}[kind]


def test_symbols_and_characters_are_one_piece_each():
    assert TRAINED["symbols"].pieces(TRAINED["symbols"].encode(["AE1 N the"])[0]) == ["AE1", "N", "the"]
    assert TRAINED["characters"].pieces(TRAINED["characters"].encode(["größ"])[0]) == ["g", "r", "ö", "ß"]
    assert TRAINED["characters"].pieces(TRAINED["characters"].encode(["é"])[0]) == ["‹c3›", "‹a9›"]


@pytest.mark.parametrize(("kind", "smallest"), [("bpe", 258), ("characters", 259), ("symbols", 259)])
def test_a_vocabulary_that_is_too_small(kind, smallest):
    assert train_tokenizer(kind, CORPUS, smallest).size == smallest
    with pytest.raises(OptionError, match=rf"at least {smallest} pieces, got data\.vocabulary = {smallest - 1}"):
        train_tokenizer(kind, CORPUS, smallest - 1)


def test_an_unknown_kind():
    with pytest.raises(OptionError, match=r"data\.tokenizer must be one of 'bpe'"):
        train_tokenizer("sentencepiece", CORPUS, 300)


# ── stored and found again ──────────────────────────────────────────────────────────────────────────────────────────

TWO = Vocabulary(TRAINED["characters"], TRAINED["symbols"])
JOINT = Vocabulary(TRAINED["bpe"])
DIFFERENT = "the Größe unseen 你 é"


@pytest.mark.parametrize("vocabulary", [TWO, JOINT], ids=["two", "joint"])
def test_a_vocabulary_is_stored_as_json_and_found_again(vocabulary):
    text = vocabulary.dumps()
    again = Vocabulary.loads(text, "tokenizer.json")
    assert again.dumps() == text
    assert (again.sizes, again.joint) == (vocabulary.sizes, vocabulary.joint)
    for side in ("source", "target"):
        (ids,) = getattr(vocabulary, side).encode([DIFFERENT])
        assert getattr(again, side).encode([DIFFERENT]) == [ids]
        assert getattr(again, side).decode(ids) == DIFFERENT


TRAIN_ALL = f"""
from manyheads.text.vocabulary import train_vocabulary
for kind in {KINDS}:
    print(train_vocabulary((kind, kind), lambda: {CORPUS!r}, lambda: {CORPUS!r}, size=320, joint=True).dumps())
"""


def test_training_again_gives_the_same_also_in_another_process():
    def in_process(seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", TRAIN_ALL], env=environment, capture_output=True, check=True
        ).stdout

    lines = [
        train_vocabulary((kind, kind), lambda: CORPUS, lambda: CORPUS, size=320, joint=True).dumps() for kind in KINDS
    ]
    assert in_process("1").decode() == in_process("2").decode() == "".join(line + "\n" for line in lines)


# ── a tokenizer's file as an attack ─────────────────────────────────────────────────────────────────────────────────


def load(text):
    """(vocabulary, None), or (None, why it was refused)"""
    try:
        return Vocabulary.loads(text, "evil.json"), None
    except InputError as error:
        return None, error.message


def places(value, path=()):
    """The path to every value in nested lists and tables, the first few of a list."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, found in inside:
        yield from places(found, (*path, key))


def mutate(stored, rng):
    """One value replaced by one of another kind, or left out."""
    stored = copy.deepcopy(stored)
    *above, last = rng.choice([path for path in places(stored) if path])
    table = stored
    for key in above:
        table = table[key]
    others = [
        None,
        0,
        1.5,
        True,
        "",
        "x",
        "a b",
        " ",
        "\n",
        "\ud800",
        [],
        {},
        [[]],
        [0],
        ["a b c"],
        {"kind": "bpe"},
        10**30,
    ]
    if rng.random() < 0.2:
        del table[last]
    else:
        table[last] = rng.choice(others)
    return stored


@pytest.mark.parametrize("vocabulary", [TWO, JOINT], ids=["two", "joint"])
def test_a_mutated_file_is_refused_or_works(vocabulary):
    rng, stored, refused = random.Random(0), json.loads(vocabulary.dumps()), 0
    for _ in range(300):
        mutated = mutate(stored, rng)
        loaded, complaint = load(json.dumps(mutated))
        if loaded is None:
            assert "got evil.json: " in complaint
            assert len(complaint) < 250
            refused += 1
            continue
        assert json.loads(loaded.dumps()) == mutated
        for tokenizer in (loaded.source, loaded.target):
            assert tokenizer.decode(tokenizer.encode([DIFFERENT])[0]) == DIFFERENT
            assert not any("\n" in tokenizer.decode([i]) for i in range(tokenizer.size))
    assert refused > 150


@given(st.data())
def test_a_cut_or_scribbled_file_is_refused_or_works(data):
    text = TWO.dumps()
    start = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:start] + data.draw(
        st.sampled_from(["", "\0", '"', "]", "9" * 5000, "x"]) | st.just(text[start + 1 :])
    )
    assume(damaged != text)
    loaded, complaint = load(damaged)
    if loaded is None:
        assert "got evil.json: " in complaint
    else:
        assert loaded.target.decode(loaded.target.encode([DIFFERENT])[0]) == DIFFERENT


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"schema":' * 100_000, "", "null", "3", '"text"', "{}", '{"schema": 2}', '{"schema": ' + "9" * 5000,
     '{"schema": 1, "source": {"kind": "bpe", "merges": ["a b", "abc d"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "pickle"}, "target": null}',
     '{"schema": 1, "source": {"kind": "characters", "pieces": ["a", "a"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "characters", "pieces": ["ab"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "characters", "pieces": ["\\n"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "symbols", "pieces": ["a b"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "symbols", "pieces": "abc"}, "target": null}',
     '{"schema": 1, "source": {"kind": "bpe", "merges": ["Ċ Ċ"]}, "target": null}',
     '{"schema": 1, "source": {"kind": "bpe", "merges": []}, "target": {}}'],
    ids=range(18),
)  # fmt: skip
def test_a_hostile_file_is_refused(text):
    with pytest.raises(InputError, match=r"as Manyheads writes it, got evil\.json: "):
        Vocabulary.loads(text, "evil.json")


def test_a_word_without_end_is_learnt_from_in_stretches():
    """As one it takes the square of its length; nothing of it is left out, and what is no longer than that is as it is."""
    endless = "ab" * 5_000
    assert "".join(stretches(endless)) == endless
    assert max(map(len, stretches(endless))) <= 1_000
    sentence = " ".join(["word"] * 2_000)
    assert stretches(sentence) == [sentence]
    learnt = train_tokenizer("bpe", [endless, sentence], 400)
    assert learnt.decode(learnt.encode([endless])[0]) == endless
