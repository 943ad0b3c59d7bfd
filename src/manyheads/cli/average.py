"""`manyheads average`: several models, or checkpoints of one, become one."""

from typing import Annotated

from cyclopts import Parameter

from manyheads.cli.options import Files, Whole

__all__ = ["average"]


def average(
    out: str,
    /,
    *models: str,
    checkpoints: Whole | None = None,
    weights: Annotated[tuple[float, ...], Parameter(consume_multiple=1, negative=(), show_default=False)] = (),
    greedy: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    data: Files = (),
    device: str = "auto",
) -> None:
    """Write the mean of several models, or of the last checkpoints of a run, as a model.

    ```
    manyheads average runs/mean runs/mine --checkpoints 5
    manyheads average runs/soup runs/a runs/b runs/c --greedy --data dev.tsv
    ```

    Parameters
    ----------
    out
        A new folder for the model.
    models
        Folders of models with one vocabulary that are built alike; best if they began as one.
    checkpoints
        Of one run: the mean of so many of its last checkpoints.
    weights
        How much each model counts: --weights 2 1 (default: as much as any other).
    greedy
        Begin with the model that is best on --data, add the others one by one, and leave out those that make it worse.
    data
        For --greedy: pairs that none of the models was trained on, as `evaluate` takes them.
    device
        For --greedy: auto (a GPU if there is one), cpu, cuda, cuda:1.
    """
    from manyheads.training.soup import average_models

    average_models(
        out, models, checkpoints=checkpoints, weights=weights, greedy=greedy, data=data or None, device=device
    )
