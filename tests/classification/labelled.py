"""A small thing to tell apart: does a text begin with a vowel? And of two texts: do both begin with one letter?"""

import random

TINY = {
    "model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64, "model.dropout": 0.1,
    "data.tokenizer": "characters", "data.vocabulary": 300, "train.tokens": 256, "train.warmup": 5, "train.ema": 0.0,
}  # fmt: skip
ODD, EVEN = "vowel ≤ 1%", "“other”, <eos>"


def write_labelled(path, count, seed=0):
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 9))) for _ in range(count)]
    path.write_text("".join(f"{ODD if word[0] in 'ae' else EVEN}\t{word}\n" for word in words), encoding="utf-8")
    return str(path)


def write_labelled_twos(path, count, seed=0):
    draw = random.Random(seed)
    texts = [["".join(draw.choices("ab", k=draw.randint(1, 3))) for _ in range(2)] for _ in range(count)]
    lines = (f"{'same' if first[0] == second[0] else 'other'}\t{first}\t{second}\n" for first, second in texts)
    path.write_text("".join(lines))
    return str(path)
