"""A small language that is quickly learnt: every line is to be written backwards."""

import random

LETTERS = "abcdefgh"
TINY = {
    "model.width": 32, "model.layers": 1, "model.heads": 2, "model.feedforward": 64,
    "data.tokenizer": "characters", "data.vocabulary": 300,
    "train.tokens": 128, "train.warmup": 10, "train.validate_lines": 8, "decode.beam": 2,
}  # fmt: skip


def write_pairs(path, count, seed=0):
    """`count` pairs as TSV."""
    draw = random.Random(seed)
    lines = ["".join(draw.choices(LETTERS, k=draw.randint(1, 9))) for _ in range(count)]
    path.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines))
    return str(path)
