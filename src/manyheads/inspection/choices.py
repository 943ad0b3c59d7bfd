"""What a model could have written at each step, and how sure it was.

T steps · W words of the target vocabulary
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from manyheads.inspection.sides import name_pieces
from manyheads.text.tokenizer import Tokenizer

__all__ = ["Candidate", "Choice", "read_choices"]

CANDIDATES = 10
BROKEN = "\ufffd"
"""Replaces bytes that form no character."""


@dataclass(frozen=True)
class Candidate:
    """`adds` is what it would add to the text before it, its blank included; None if that is not a whole character."""

    text: str
    id: int
    log_probability: float
    adds: str | None


@dataclass(frozen=True)
class Choice:
    """One step. `rank` is 0 for the likeliest piece; `entropy` is in nats."""

    log_probability: float
    rank: int
    entropy: float
    candidates: list[Candidate]


def read_choices(tokenizer: Tokenizer, logits: Float[Tensor, "T W"], written: Sequence[int]) -> list[Choice]:
    """For each step, the likeliest pieces, and the rank and probability of the one that was written."""
    log_p = logits.double().log_softmax(-1)
    entropies = (-(log_p.exp() * log_p).nan_to_num(0.0)).sum(-1).tolist()
    best, ids = log_p.topk(min(CANDIDATES, log_p.shape[-1]))
    found = []
    for row, chosen in enumerate(written):
        its_own = log_p[row, chosen]
        likeliest = ids[row].tolist()
        candidates = [
            Candidate(text, i, value, added(tokenizer, written[:row], i))
            for text, i, value in zip(name_pieces(tokenizer, likeliest), likeliest, best[row].tolist(), strict=True)
        ]
        rank = int((log_p[row] > its_own).sum())
        found.append(Choice(float(its_own), rank, entropies[row], candidates))
    return found


def added(tokenizer: Tokenizer, written: Sequence[int], piece: int) -> str | None:
    """What a piece adds to the text already written. None if its bytes, or those before it, break off mid-character."""
    before, after = tokenizer.decode(written), tokenizer.decode([*written, piece])
    return after.removeprefix(before) if after.startswith(before) and BROKEN not in after else None
