"""`manyheads train`: from sentence pairs or texts to a model."""

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from manyheads.cli.changes import parse_changes
from manyheads.cli.options import Device, Files, Settings
from manyheads.freed import keep_freed_memory

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
    """Train a model on sentence pairs or texts.

    ```
    manyheads train --train pairs.tsv --out runs/first
    manyheads train small --train train.de train.en --dev dev.de dev.en --out runs/de-en --set train.epochs=100
    manyheads train --from runs/de-en --train manuals.tsv --out runs/manuals
    manyheads train small --train pairs.tsv --teacher runs/one runs/two runs/three --out runs/student
    manyheads train classify/finetune --from runs/minilm --train labelled.tsv --out runs/mood
    ```

    The folder of the run is a model for the other commands. Most recipes train translators; recipes that begin with
    parallel/ also take sentence pairs, lm/ and bert/ plain texts, classify/ labelled texts, embed/ pairs of texts that
    mean the same.

    Parameters
    ----------
    recipe
        A preset (`manyheads recipes` lists them) or a TOML file (default: a preset that suits the number of pairs; with
        --from, finetune).
    train
        Training data: a file of pairs, or a source file and a target file, or several of these; plain, gzip or
        zstd; - is standard input. The pairs of FILE:2 are used twice as often.
    dev
        Development set to judge the model by, in the same form (default: some of the training pairs are held out).
    out
        Folder of the run: model, recipe, tokenizer, checkpoints, log.jsonl, report.html; of a translator that writes
        token by token also inspect.html (train.replay).
    base
        Model to train further: a run folder or a bundled model. Its shape and tokenizer are kept.
    teacher
        Run folders or bundled models to learn from besides the pairs, word by word (train.taught sets the share). The
        new model has their vocabulary.
    old_dev
        Development set of the --from model, to see what it forgets (default: the one in its run folder, if any).
    settings
        Change a key of the recipe; may be repeated: --set train.steps=2000 --set model.width=256.
    resume
        Continue the run in --out, if there is one: repeat the command with --resume.
    data_changed
        With --resume: continue even if the data is not what the run started with.
    on_save_error
        If a save fails, as on a full disk: stop, or warn and continue (summary.json counts the failures).
    """
    from manyheads.training.api import train as train_model

    keep_freed_memory()
    trained = train_model(
        recipe, train=train, dev=dev or None, out=out, base=base, teachers=teacher, old_dev=old_dev or None,
        changes=parse_changes(settings), resume=resume, data_changed=data_changed,
        on_save_error=on_save_error, device=device,
    )  # fmt: skip
    if trained.stopped is not None:
        sys.exit(128 + trained.stopped)
