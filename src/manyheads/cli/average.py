"""`manyheads average`: one model from several, or from several checkpoints of a run."""

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
    """Average the weights of several models or checkpoints.

    ```
    manyheads average runs/mean runs/mine --checkpoints 5
    manyheads average runs/soup runs/a runs/b runs/c --greedy --data dev.tsv
    ```

    Parameters
    ----------
    out
        Model folder to create; it must not exist.
    models
        Models with the same architecture and vocabulary, best if all were trained further from one model.
    checkpoints
        Average this many of the last checkpoints of a single run.
    weights
        Relative weight of each model, such as --weights 2 1 (default: equal weights).
    greedy
        Start with the model that is best on --data, then add the others one by one, leaving out those that make it
        worse.
    data
        For --greedy: pairs that no model was trained on, in files as for `evaluate`.
    device
        For --greedy: device to run on: auto (a GPU if there is one), cpu, cuda or cuda:1.
    """
    from manyheads.training.soup import average_models

    average_models(
        out, models, checkpoints=checkpoints, weights=weights, greedy=greedy, data=data or None, device=device
    )
