"""Files that are whole or not there: what we call saved survives `kill -9`, a power cut and a full disk.

A folder is written beside its final place, every file is synced, a manifest with sizes and SHA-256 sums comes last, and a
rename makes it appear. Files of a folder that stays (a run) are replaced one by one, under a manifest that, while this goes
on, accepts the old and the new content. Readers check what they read against the manifest: a flipped bit is noticed.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.errors import InputError, SaveError

__all__ = ["MANIFEST", "append_line", "is_whole", "publish", "read_file", "read_manifest", "write_folder"]

MANIFEST = "manifest.json"
SCHEMA = 1
LARGEST_MANIFEST = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Files = Mapping[str, bytes]


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_folder(folder: Path, files: Files) -> None:
    """A folder that appears whole, with its manifest."""
    temporary = folder.with_name(f".{folder.name}.writing")
    try:
        check_room(folder.parent, files)
        shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
        temporary.mkdir(parents=True)
        for name, content in files.items():
            write_file(temporary / name, content)
        write_file(temporary / MANIFEST, manifest({name: [entry(content)] for name, content in files.items()}))
        sync(temporary)
        os.replace(temporary, folder)
        sync(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise cannot_save(folder, error) from None


def publish(root: Path, files: Files) -> None:
    """Put files into a folder that may have some already; at no moment does its manifest refuse what is there."""
    try:
        check_room(root, files)
        old = stored_entries(root)
        new = {name: [entry(content)] for name, content in files.items()}
        replace_file(root / MANIFEST, manifest(old | {name: new[name] + old.get(name, []) for name in new}))
        for name, content in files.items():
            replace_file(root / name, content)
        replace_file(root / MANIFEST, manifest(old | new))
    except OSError as error:
        raise cannot_save(root, error) from None


def replace_file(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write_file(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_file(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def check_room(folder: Path, files: Files) -> None:
    needed = sum(map(len, files.values())) + LARGEST_MANIFEST // 16
    free = shutil.disk_usage(nearest_folder(folder)).free
    if free < needed:
        raise OSError(errno.ENOSPC, f"{needed:,} bytes are needed, {free:,} are free")


def nearest_folder(path: Path) -> Path:
    return path if path.is_dir() else nearest_folder(path.parent)


def cannot_save(path: Path, error: OSError) -> SaveError:
    full = error.errno in NO_ROOM
    return SaveError(
        f"{path} could not be saved: {error.strerror}; what was saved before is untouched",
        hint="make room and go on with --resume" if full else None,
    )


# ── the manifest ────────────────────────────────────────────────────────────────────────────────────────────────────


def entry(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def manifest(entries: Mapping[str, list[dict[str, Any]]]) -> bytes:
    return (json.dumps({"schema": SCHEMA, "files": entries}, indent=1, sort_keys=True) + "\n").encode()


def stored_entries(root: Path) -> dict[str, list[dict[str, Any]]]:
    """What the manifest says, of files that are still there; nothing if there is no manifest."""
    return read_manifest(root) if (root / MANIFEST).exists() else {}


def read_manifest(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """File name → the contents that are accepted."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise ValueError("it is larger than any manifest")
        stored = json.loads(path.read_bytes())
        if stored["schema"] != SCHEMA:
            raise ValueError(f"its schema is {stored['schema']!r}, this version reads {SCHEMA}")
        return {
            name: [{"bytes": e["bytes"], "sha256": e["sha256"]} for e in es] for name, es in stored["files"].items()
        }
    except OSError as error:
        raise InputError(f"a folder must have a {MANIFEST}, got {folder}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error!r}") from None


def read_file(folder: Path, name: str) -> bytes:
    """The content of a file, if it is what the manifest says; what was checked is what is given back."""
    accepted = read_manifest(folder).get(name)
    path = folder / name
    if accepted is None:
        raise InputError(f"{path} is not in the manifest: it was not written by a run")
    if path.is_symlink():
        raise InputError(f"{path} must be a plain file, got a link")
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size in [e["bytes"] for e in accepted] else None
    except OSError as error:
        raise InputError(f"{path} is missing or unreadable: {error.strerror}") from None
    if content is None:
        raise InputError(f"{path} is damaged: it has {size:,} bytes, not {accepted[0]['bytes']:,}")
    if entry(content) not in accepted:
        raise InputError(f"{path} is damaged: its SHA-256 sum is not that of the manifest")
    return content


def is_whole(folder: Path) -> bool:
    """Is every file of a folder there, as its manifest says?"""
    try:
        for name in read_manifest(folder):
            read_file(folder, name)
    except InputError:
        return False
    return True
