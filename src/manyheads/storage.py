"""Files that are either complete or absent: anything saved survives `kill -9`, a power cut and a full disk.

A folder is written beside its final place, every file is synced, a manifest with sizes and SHA-256 sums comes last,
and a rename makes it appear. In a folder that stays (a run), files are replaced one by one, under a manifest that
meanwhile accepts both the old and the new content. Readers check what they read against the manifest, so a flipped
bit is noticed.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from manyheads.errors import InputError, SaveError, brief

__all__ = [
    "MANIFEST",
    "PLAIN_NAME",
    "append_line",
    "is_whole",
    "make_folder",
    "plain_size",
    "publish",
    "read_file",
    "read_manifest",
    "replace_file",
    "room_free",
    "saving",
    "sync",
    "sync_file",
    "withdraw",
    "write_folder",
    "write_whole",
]

MANIFEST = "manifest.json"
SCHEMA = 1
LARGEST_MANIFEST = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

PLAIN_NAME = re.compile(r"\w[\w.-]*", re.ASCII)

Files = Mapping[str, bytes]
Entry = dict[str, Any]
Entries = dict[str, list[Entry]]


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_folder(folder: Path, files: Files, *, instead: bool = False) -> None:
    """Write a folder that appears complete, with its manifest; `instead` of an existing folder of this name, if any."""
    write_whole(folder, {**files, MANIFEST: manifest(entries(files))}, instead=instead)


def write_whole(folder: Path, files: Files, *, instead: bool = False) -> None:
    """Write a folder that appears complete, in the form of other libraries: no manifest, and subfolders are allowed."""
    temporary = folder.with_name(f".{folder.name}.writing")
    with saving(folder, files):
        try:
            check_room(folder.parent, files)
            shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
            make_folder(temporary)
            for name, content in files.items():
                make_folder((temporary / name).parent)
                write_file(temporary / name, content)
            for inner in {(temporary / name).parent for name in files}:
                sync(inner)
            if instead:  # the old folder goes only now that the new one is written
                put_aside(folder)
            os.replace(temporary, folder)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync(folder.parent)
    shutil.rmtree(aside(folder), ignore_errors=True)


def put_aside(folder: Path) -> None:
    shutil.rmtree(aside(folder), ignore_errors=True)
    with suppress(FileNotFoundError):
        os.replace(folder, aside(folder))


def aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.before")


def publish(root: Path, files: Files) -> None:
    """Put files into a folder that may have some already. At no moment does its manifest refuse a file that is there.

    A file that the manifest does not list is written before it is listed; one that it lists is replaced while the old
    and the new content are both accepted.
    """
    with saving(root, files):
        check_room(root, files)
        old = read_manifest(root) if (root / MANIFEST).exists() else {}
        new = entries(files)
        known = [name for name in files if name in old]
        for name in files:
            if name not in old:
                replace_file(root / name, files[name])
        if known:
            replace_file(root / MANIFEST, manifest(old | {name: new[name] + old[name] for name in known}))
        for name in known:
            replace_file(root / name, files[name])
        replace_file(root / MANIFEST, manifest(old | new))


@contextmanager
def saving(path: Path, files: Files | None = None) -> Iterator[None]:
    """Turn an OSError while `path` is saved into a SaveError, which on a full disk names the room that `files` need."""
    try:
        yield
    except OSError as error:
        full = error.errno in NO_ROOM
        room = f": {room_for(path, files)}" if full and files is not None else ""
        raise SaveError(
            f"{path} could not be saved: {error.strerror or error}{room}; what was saved before is untouched",
            hint="make room, then continue with --resume" if full else None,
        ) from None


def withdraw(root: Path, name: str) -> None:
    """Take a file out of a folder and its manifest, if it is there."""
    listed = read_manifest(root)
    if listed.pop(name, None) is not None:
        replace_file(root / MANIFEST, manifest(listed))
        (root / name).unlink(missing_ok=True)


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
        sync_file(file)


def sync_file(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Make a folder and all missing ones above it; each is synced into its parent before the next is made."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir()
        sync(folder.parent)


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: str) -> None:
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:  # names of files need not be UTF-8
        file.write(line + "\n")


def check_room(folder: Path, files: Files) -> None:
    if room_free(folder) < room_needed(files):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def room_for(folder: Path, files: Files) -> str:
    return f"{room_needed(files):,} bytes are needed, {room_free(folder):,} are free"


def room_needed(files: Files) -> int:
    """Bytes that the files need, with a fixed allowance for the manifest."""
    return sum(len(content) for name, content in files.items() if name != MANIFEST) + LARGEST_MANIFEST // 16


def room_free(folder: Path) -> int:
    return shutil.disk_usage(nearest_folder(folder)).free


def nearest_folder(path: Path) -> Path:
    return path if path.is_dir() else nearest_folder(path.parent)


# ── the manifest ────────────────────────────────────────────────────────────────────────────────────────────────────


def entry(content: bytes) -> Entry:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def entries(files: Files) -> Entries:
    return {name: [entry(content)] for name, content in files.items()}


def manifest(files: Entries) -> bytes:
    return (json.dumps({"schema": SCHEMA, "files": files}, indent=1, sort_keys=True) + "\n").encode()


def read_manifest(folder: Path) -> Entries:
    """For each file name, the contents that are accepted."""
    path = folder / MANIFEST
    try:
        if plain_size(path) > LARGEST_MANIFEST:
            raise ValueError("it is too large for a manifest")
        stored = json.loads(path.read_bytes())
        if stored["schema"] != SCHEMA:
            raise ValueError(f"its schema is {stored['schema']!r}, this version reads {SCHEMA}")
        return {checked_name(name): [checked_entry(e) for e in found] for name, found in stored["files"].items()}
    except OSError as error:
        raise InputError(f"a folder must have a {MANIFEST}, got {folder}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {brief(error)}") from None


def checked_name(name: str) -> str:
    """The name, if it is that of a file in the folder itself: nothing above it, nothing hidden."""
    if not PLAIN_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a file name")
    return name


def checked_entry(stored: Any) -> Entry:
    size, digest = stored["bytes"], stored["sha256"]
    if type(size) is not int or type(digest) is not str:
        raise ValueError(f"{size!r} and {digest!r} are not a size and a checksum")
    return {"bytes": size, "sha256": digest}


def plain_size(path: Path) -> int:
    """The size of a plain file in bytes. Links lead elsewhere, and pipes and devices never end: they are refused."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a link" if stat.S_ISLNK(status.st_mode) else "it is not a regular file")
    return status.st_size


def read_file(folder: Path, name: str, most: int | None = None) -> bytes:
    """The content of a file, checked against the manifest; of at most `most` bytes, if that is given.

    Another process may publish between the reading of the manifest and of the file. So a file counts as damaged only
    if the manifest has not changed meanwhile.
    """
    manifest = read_manifest(folder)
    while True:
        try:
            return read_accepted(folder / name, manifest.get(name), most)
        except InputError:
            before, manifest = manifest, read_manifest(folder)
            if manifest == before:
                raise


def read_accepted(path: Path, accepted: list[Entry] | None, most: int | None) -> bytes:
    if accepted is None:
        raise InputError(f"{path} is not in the manifest: it was not written by a run")
    try:
        size = plain_size(path)
        if most is not None and size > most:
            raise InputError(f"{path} must have at most {most:,} bytes, got {size:,}")
        content = path.read_bytes() if size in [e["bytes"] for e in accepted] else None
    except OSError as error:
        raise InputError(f"{path} is missing or unreadable: {error.strerror}") from None
    if content is None:
        expected = " or ".join(f"{e['bytes']:,}" for e in accepted)
        raise InputError(f"{path} is damaged: it has {size:,} bytes, not {expected}")
    if entry(content) not in accepted:
        raise InputError(f"{path} is damaged: its SHA-256 sum does not match the manifest")
    return content


def is_whole(folder: Path) -> bool:
    """Whether every file of a folder is there, as its manifest says."""
    try:
        for name in read_manifest(folder):
            read_file(folder, name)
    except InputError:
        return False
    return True
