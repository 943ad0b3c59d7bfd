"""`manyheads train`: from pairs of lines to a model."""

import sys
from typing import Annotated

from cyclopts import Parameter

from manyheads.cli.changes import parse_changes
from manyheads.cli.options import Device, Files, Settings

__all__ = ["train"]


def train(
    recipe: str,
    /,
    *,
    train: Files,
    dev: Files = (),
    out: str,
    settings: Settings = (),
    resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    device: Device = "auto",
) -> None:
    """Train a model on pairs of lines; its folder then works with `translate`, `evaluate` and `score`.

    ```
    manyheads train tiny --train pairs.tsv --out runs/first
    manyheads train small --train train.de train.en --dev dev.de dev.en --out runs/de-en --set train.epochs=20
    ```

    Parameters
    ----------
    recipe
        A preset (`manyheads recipes` lists them) or a TOML file.
    train
        One TSV file (source TAB target), or a source file and a target file; plain, gzip or zstd; - is standard input.
    dev
        The same, to judge by. Without it some of the training pairs are held out.
    out
        Folder of the run: the model, its recipe and tokenizer, checkpoints, log.jsonl, report.html.
    settings
        Change a key of the recipe; repeat it for more: --set train.steps=2000 --set model.width=256.
    resume
        Go on with the run in --out, if there is one: the same command, with --resume.
    device
        auto (a GPU if there is one), cpu, cuda, cuda:1.
    """
    from manyheads.training.api import train as train_model

    trained = train_model(
        recipe, train=train, dev=dev or None, out=out, changes=parse_changes(settings), resume=resume, device=device
    )
    if trained.stopped is not None:
        sys.exit(128 + trained.stopped)
