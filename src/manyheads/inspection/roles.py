"""What a head is for, in a word, by a rule that can be checked.

A head's role is the place where it puts at least 0.4 of its weight, on average over the pairs of a test set:

    previous, same, next   the token before the query itself, that token, the one after it
    begin and end          where heads look that have nothing to say
    aligns                 the source piece that a target piece is aligned with, as it is written or as it is read

If there are several such places, the one with the most weight counts. A head without such a place is

    spread                 if its entropy is at least 0.75 of that of uniform attention to all it may see
    no single role         otherwise

0.4 is four times what uniform attention to ten tokens would put there. Both numbers are choices: the report has the
numbers that they are compared with.
"""

from manyheads.inspection.looking import Looks

__all__ = ["ROLES", "SHARE", "SPREAD", "role_of"]

SHARE = 0.4
SPREAD = 0.75
PLACES = {
    "previous": "previous",
    "same": "same",
    "next": "next",
    "ends": "begin and end",
    "aligned": "aligns",
    "aligned_read": "aligns",
}
"""The numbers that are weight on one place, and the role of a head that puts it there."""
ROLES = (*dict.fromkeys(PLACES.values()), "spread", "no single role")


def role_of(looks: Looks) -> str:
    most = max((name for name in PLACES if name in looks), key=lambda name: looks[name], default=None)
    if most is not None and looks[most] >= SHARE:
        return PLACES[most]
    return "spread" if looks.get("evenness", 0) >= SPREAD else "no single role"
