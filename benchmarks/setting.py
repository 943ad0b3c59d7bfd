"""What figures were taken on: the machine, the versions, the command; and how they are written to a file."""

import importlib.metadata
import json
import os
import platform
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch

__all__ = ["setting", "write_json"]

PACKAGES = ("torch", "triton", "transformers", "numpy")


def setting(device: torch.device) -> dict[str, Any]:
    """The head of every file of results."""
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "machine": machine(device),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def command() -> str:
    """The command as it was typed, but for the interpreter's path."""
    module = getattr(sys.modules["__main__"].__spec__, "name", None)
    return shlex.join(["python", *(["-m", module] if module else [Path(sys.argv[0]).name]), *sys.argv[1:]])


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write_json(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
