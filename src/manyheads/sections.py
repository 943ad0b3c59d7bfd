"""Sections: frozen dataclasses whose values are checked, all at once, wherever they come from.

The tables of a recipe become sections, and so do keyword arguments in Python. Checking is strict: 3.7 is no integer,
"false" is no boolean, −1 is no width.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from manyheads.errors import OptionError, brief, did_you_mean, nearest

__all__ = ["Section", "between", "refuse"]


def between(low: float, high: float, default: Any) -> Any:
    """A field whose numbers, if it has any, lie in [low, high]."""
    return field(default=default, metadata={"bounds": (low, high)})


class Section:
    """Base of every checked dataclass. `rules` yields what is wrong between fields, as sentences."""

    def __post_init__(self) -> None:
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        refuse(list(self.faults(values)) or list(self.rules()))
        for name, value in values.items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    def rules(self) -> Iterator[str]:
        yield from ()

    @classmethod
    def faults(cls, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        """One sentence for every value that is unknown, of the wrong type or out of bounds."""
        hints = get_type_hints(cls)
        known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
        for name, value in values.items():
            if name not in known:
                yield f"{prefix}{name} is not known: {did_you_mean(name, known)}"
            elif not fits(value, hints[name]):
                meant = nearest(value, choices(hints[name])) if isinstance(value, str) else None
                yield f"{prefix}{name} must be {describe(hints[name])}, got {brief(value)}" + (
                    f": {meant}" if meant else ""
                )
            elif not inside(value, known[name].metadata.get("bounds")):
                low, high = known[name].metadata["bounds"]
                yield f"{prefix}{name} must be between {low} and {high}, got {brief(value)}"


def refuse(faults: list[str], where: str = "") -> None:
    """Raise one error for all faults; do nothing if there are none."""
    if not faults:
        return
    place = f"{where}: " if where else ""
    if len(faults) == 1:
        raise OptionError(place + faults[0])
    raise OptionError(f"{place}{len(faults)} faults\n" + "\n".join(f"  - {fault}" for fault in faults))


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` has the type that `hint` names. Nothing is converted, except that a whole number fits a float."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    if origin is tuple and args[-1] is ...:
        return isinstance(value, (tuple, list)) and all(fits(one, args[0]) for one in value)
    if origin is tuple:
        return isinstance(value, (tuple, list)) and len(value) == len(args) and all(map(fits, value, args))
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint


def inside(value: Any, bounds: tuple[float, float] | None) -> bool:
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    return bounds is None or all(number is None or bounds[0] <= number <= bounds[1] for number in numbers)


def choices(hint: Any) -> tuple[str, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def describe(hint: Any) -> str:
    """A type, in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(arg) for arg in args if arg is not types.NoneType)
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin is tuple and args[-1] is ...:
        return f"a list, each {describe(args[0])}"
    if origin is tuple:
        return f"[{', '.join(describe(arg) for arg in args)}]"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, str(hint))
