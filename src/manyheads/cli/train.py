"""`manyheads train`: from pairs of lines to a model."""

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from manyheads.cli.changes import parse_changes
from manyheads.cli.options import Device, Files, Settings

__all__ = ["train"]


def train(
    recipe: str | None = None,
    /,
    *,
    train: Files,
    dev: Files = (),
    out: str,
    base: Annotated[str | None, Parameter(name="--from")] = None,
    teacher: Files = (),
    old_dev: Files = (),
    settings: Settings = (),
    resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    data_changed: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    on_save_error: Literal["stop", "warn"] = "stop",
    device: Device = "auto",
) -> None:
    """Train a model on pairs of lines; its folder then works with `translate`, `evaluate` and `score`. (Recipes that begin with lm/ and bert/ are
    for texts, classify/ for labelled ones, embed/ for texts that mean the same, parallel/ for pairs.)

    ```
    manyheads train --train pairs.tsv --out runs/first
    manyheads train small --train train.de train.en --dev dev.de dev.en --out runs/de-en --set train.epochs=100
    manyheads train --from runs/de-en --train manuals.tsv --out runs/manuals
    manyheads train small --train pairs.tsv --teacher runs/one runs/two runs/three --out runs/student
    manyheads train classify/finetune --from runs/minilm --train labelled.tsv --out runs/mood
    ```

    Parameters
    ----------
    recipe
        A preset (`manyheads recipes` lists them) or a TOML file. Without it, one that suits the number of pairs.
    train
        A file of pairs, or a source file and a target file, or several; file:2 is met twice as often; plain, gzip or zstd.
        Standard input is named as a single dash.
    dev
        The same, to judge by. Without it some of the training pairs are held out.
    out
        Folder of the run: the model, its recipe and tokenizer, checkpoints, log.jsonl, report.html, inspect.html.
    base
        A run folder or a bundled model that is trained further: it keeps its shape and its tokenizer.
    teacher
        Run folders or bundled models that say, beside the pairs, what each word may be: one model learns what several know (train.taught says how
        much). What is trained has their vocabulary.
    old_dev
        What that model was judged by, to see what it forgets (default: what its run folder has of it).
    settings
        Change a key of the recipe; repeat it for more: --set train.steps=2000 --set model.width=256.
    resume
        Go on with the run in --out, if there is one: the same command, with --resume.
    data_changed
        With --resume: go on although the data is not what the run began with.
    on_save_error
        When the disk is full: stop, or warn each time, go on and count it in summary.json.
    """
    from manyheads.training.api import train as train_model

    trained = train_model(
        recipe, train=train, dev=dev or None, out=out, base=base, teachers=teacher, old_dev=old_dev or None,
        changes=parse_changes(settings), resume=resume, data_changed=data_changed,
        on_save_error=on_save_error, device=device,
    )  # fmt: skip
    if trained.stopped is not None:
        sys.exit(128 + trained.stopped)
