"""How long a translation is to be, as people say it: 12 is a number of pieces, 0.8 that many times the length that the model finds likeliest."""

from manyheads.errors import OptionError, brief

__all__ = ["MOST_PIECES", "SHARES", "length_options"]

MOST_PIECES = 4_096
SHARES = (0.01, 100)


def length_options(said: str | None) -> dict[str, float]:
    """A whole number is one of pieces, one with a point a share."""
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
            f"length must be a number of pieces, 1 to {MOST_PIECES:,}, or a share with a point, {SHARES[0]} to {SHARES[1]}, got {brief(said)}",
            hint="12 pieces, or 0.8 of the likeliest length",
        ) from None
