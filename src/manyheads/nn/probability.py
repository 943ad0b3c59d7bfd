"""What may be a probability of dropping something."""

from manyheads.errors import OptionError

__all__ = ["check_probability"]


def check_probability(name: str, p: float) -> float:
    if not 0.0 <= p < 1.0:
        raise OptionError(f"{name} is a probability, at least 0 and below 1, got {p}")
    return p
