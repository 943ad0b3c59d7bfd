"""The length of a translation as users give it: 12 is a number of pieces, 0.8 a share of the likeliest length."""

from manyheads.errors import OptionError, brief

__all__ = ["MOST_PIECES", "SHARES", "length_options"]

MOST_PIECES = 4_096
SHARES = (0.01, 100)


def length_options(said: str | None) -> dict[str, float]:
    """The option that the text stands for: a whole number is in pieces, one with a point is a share."""
    if said is None:
        return {}
    name, number, (low, high) = ("stretch", float, SHARES) if "." in said else ("length", int, (1, MOST_PIECES))
    try:
        value = number(said)
        if not low <= value <= high:
            raise ValueError
        return {name: value}
    except ValueError:
        raise OptionError(
            f"length must be a number of pieces from 1 to {MOST_PIECES:,}, or a share from {SHARES[0]} to {SHARES[1]} with a decimal point, got {brief(said)}",
            hint="12 means 12 pieces, 0.8 means 0.8 times the likeliest length",
        ) from None
