"""The learning rate at each step, as a share of the highest rate: a warm-up, then one of three decays."""

from math import cos, pi

__all__ = ["DECAY", "rate_at"]

DECAY = 0.2
"""The share of the steps, at the end, in which "stable-decay" falls to 0."""


def rate_at(step: int, *, schedule: str, warmup: int, steps: int) -> float:
    """The rate at a step, counted from 1, as a share of the highest rate."""
    if step < warmup:
        return step / warmup
    match schedule:
        case "inverse-sqrt":
            return (max(1, warmup) / max(1, step)) ** 0.5
        case "cosine":
            return 0.5 * (1 + cos(pi * min(1, (step - warmup) / max(1, steps - warmup))))
        case "stable-decay":
            return min(1.0, max(0, steps - step) / max(1, DECAY * steps))
        case _:
            raise ValueError(schedule)
