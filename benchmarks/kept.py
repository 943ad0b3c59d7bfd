"""Trained models, kept small: to be measured elsewhere, and to be learnt from."""

import shutil
from pathlib import Path

__all__ = ["keep", "summary_of"]


def keep(run: Path, kept: Path) -> None:
    """Save a run's model with 8-bit weights to the folder `kept`, and the summary of its training beside it."""
    from manyheads.decoding.loading import load_translator

    kept.parent.mkdir(parents=True, exist_ok=True)
    load_translator(str(run), "cpu", "fp32").save(kept, "int8")
    shutil.copyfile(run / "summary.json", summary_of(kept))


def summary_of(kept: Path) -> Path:
    return kept.with_name(f"{kept.name}.summary.json")
