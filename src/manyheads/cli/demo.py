"""`manyheads demo`: training and translation on this machine, in a few minutes."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from manyheads.cli.options import Out
from manyheads.freed import keep_freed_memory

__all__ = ["demo"]


def demo(
    *, out: str = "runs/demo", resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False
) -> None:
    """Train a small model in a few minutes, then translate.

    ```
    manyheads demo
    manyheads demo --out /tmp/demo
    ```

    The small model learns to pronounce English words from the bundled dictionary, and is scored and used. The bundled
    model de-en translates.

    Parameters
    ----------
    out
        Run folder.
    resume
        Continue the demo in --out.
    """

    from manyheads.demo import run_demo

    keep_freed_memory()
    run_demo(Path(out), Out(), resume=resume)
