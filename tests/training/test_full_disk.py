"""A disk that is really full: a small file system of our own, in a namespace of our own."""

import os
import shutil
import subprocess
import sys

import pytest

from training.corpus import TINY, write_pairs

SCRIPT = """
mount -t tmpfs -o size={size}k none {disk} || exit 99
{train}; echo "status $?"
{python} -c '
import sys
from pathlib import Path
from manyheads.storage import is_whole
saved = sorted(Path("{disk}/run/checkpoints").iterdir(), key=lambda p: int(p.name.split("-")[1]))
print("saved", [p.name for p in saved], "whole", all(map(is_whole, saved)), "model", is_whole(Path("{disk}/run")))
'
mount -o remount,size=64m {disk}
{train} --resume; echo "resumed $?"
"""


def can_mount(folder):
    command = ["unshare", "-Urm", "sh", "-c", f"mount -t tmpfs none {folder}"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_1_and_the_last_save_intact(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("needs user namespaces")
    data = write_pairs(tmp_path / "train.tsv", 200)
    disk = tmp_path / "disk"
    disk.mkdir()
    settings = {**TINY, "train.steps": 30, "train.validate_every": 5, "train.keep": 100, "train.ema": 0.0}
    options = " ".join(f"--set {key}={value}" for key, value in settings.items())
    train = f"{sys.executable} -m manyheads train tiny --train {data} --out {disk}/run --device cpu {options}"
    script = SCRIPT.format(size=1_600, disk=disk, train=train, python=sys.executable)
    result = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert "status 1" in result.stdout, result.stdout + result.stderr
    assert "could not be saved" in result.stderr
    assert "Traceback" not in result.stderr
    assert "whole True model True" in result.stdout
    assert "resumed 0" in result.stdout
    assert "resuming from step" in result.stderr
