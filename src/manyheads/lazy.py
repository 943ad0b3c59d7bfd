"""Import names when they are first used, so that `manyheads --help` need not wait for torch."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that finds each name in the module that `where` gives for it."""

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(where[name]), name)

    return __getattr__
