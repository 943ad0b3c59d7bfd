"""`manyheads demo`: see it work, on this machine, in a few minutes."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from manyheads.cli.options import Out

__all__ = ["demo"]


def demo(
    *, out: str = "runs/demo", resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False
) -> None:
    """Train a pronouncer on the bundled dictionary on this machine, score it, use it; then translate with the bundled model.

    ```
    manyheads demo
    manyheads demo --out /tmp/demo
    ```

    Parameters
    ----------
    out
        Folder of the run.
    resume
        Go on with the demo in --out.
    """

    from manyheads.demo import run_demo

    run_demo(Path(out), Out(), resume=resume)
