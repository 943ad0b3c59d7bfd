"""Options that several verbs share."""

from typing import Annotated

from cyclopts import Parameter

__all__ = ["Device", "Files", "Json", "Settings"]

Files = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative=(), consume_multiple=False, show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative=(), show_default=False)]
Device = Annotated[str, Parameter(name="--device")]
