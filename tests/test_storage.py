"""What we call saved is whole and stays: through kills at any moment, full disks, flipped bits and foreign files."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from manyheads.errors import InputError, SaveError
from manyheads.storage import (
    MANIFEST,
    append_line,
    is_whole,
    publish,
    read_file,
    read_manifest,
    write_folder,
    write_whole,
)

OLD = {"recipe.toml": b"old recipe", "model.safetensors": b"old model"}
NEW = {"model.safetensors": b"a newer model", "summary.json": b"{}"}


def content(folder):
    """What a reader finds."""
    return {name: read_file(folder, name) for name in read_manifest(folder)}


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "step-1", OLD)
    return tmp_path / "step-1"


# ── saved and read ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_written_whole(tmp_path):
    folder = tmp_path / "new" / "checkpoints" / "step-1"
    write_folder(folder, OLD)
    assert content(folder) == OLD
    assert is_whole(folder)
    assert sorted(path.name for path in folder.parent.rglob("*")) == [MANIFEST, *sorted(OLD), "step-1"]


def test_published_files_join_those_that_are_there(tmp_path):
    publish(tmp_path, OLD)
    publish(tmp_path, NEW)
    assert content(tmp_path) == OLD | NEW
    assert all(len(accepted) == 1 for accepted in read_manifest(tmp_path).values())
    assert sorted(os.listdir(tmp_path)) == [MANIFEST, *sorted(OLD | NEW)]


def test_equal_files_have_equal_manifests(tmp_path):
    write_folder(tmp_path / "a", {"x": b"1", "y": b"2"})
    write_folder(tmp_path / "b", {"y": b"2", "x": b"1"})
    assert (tmp_path / "a" / MANIFEST).read_bytes() == (tmp_path / "b" / MANIFEST).read_bytes()


def test_lines_are_appended(tmp_path):
    append_line(tmp_path / "log", "eins")
    append_line(tmp_path / "log", "zwei ü")
    assert (tmp_path / "log").read_bytes() == "eins\nzwei ü\n".encode()


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


DAMAGE = {
    "it has 4 bytes, not 9": lambda path: path.write_bytes(path.read_bytes()[:4]),
    "it has 10 bytes, not 9": lambda path: append_line(path, ""),
    "its SHA-256 sum": lambda path: flip(path, 37),
    "is missing or unreadable: No such file": Path.unlink,
    "it is a link": link,
    "it is not a regular file": pipe,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named(folder, damage, request):
    damage(folder / "model.safetensors")
    with pytest.raises(InputError) as error:
        read_file(folder, "model.safetensors")
    assert error.value.message.startswith(f"{folder}/model.safetensors ")
    assert request.node.callspec.id in error.value.message
    assert not is_whole(folder)
    assert read_file(folder, "recipe.toml") == b"old recipe"


@pytest.mark.parametrize("bit", range(0, 8 * len(OLD["recipe.toml"]), 7))
def test_every_flipped_bit_is_noticed(folder, bit):
    flip(folder / "recipe.toml", bit)
    with pytest.raises(InputError, match=r"recipe\.toml is damaged: its SHA-256 sum"):
        read_file(folder, "recipe.toml")


def test_a_file_nobody_wrote_is_not_read(folder):
    (folder / "extra.json").write_bytes(b"{}")
    with pytest.raises(InputError, match=r"extra\.json is not in the manifest: it was not written by a run"):
        read_file(folder, "extra.json")
    assert is_whole(folder)


ENTRY = {"bytes": 1, "sha256": "0"}
FOREIGN = {
    "empty": b"",
    "a list": b"[]",
    "a number": b"3",
    "not UTF-8": b"\xff\xfe",
    "cut": b'{"schema": 1, "files": {',
    "nested": b"[" * 100_000,
    "many digits": b'{"schema": ' + b"9" * 5000 + b"}",
    "too large": b" " * (1 << 20) + b"{}",
    "of another schema": b'{"schema": 2, "files": {}}',
    "no files": b'{"schema": 1}',
    "files of a foreign shape": b'{"schema": 1, "files": [1]}',
    "entries of a foreign shape": b'{"schema": 1, "files": {"a": 1}}',
    "a size in words": json.dumps({"schema": 1, "files": {"a": [ENTRY | {"bytes": "many"}]}}).encode(),
    "a sum of numbers": json.dumps({"schema": 1, "files": {"a": [ENTRY | {"sha256": [1]}]}}).encode(),
    **{
        f"the name {name!r}": json.dumps({"schema": 1, "files": {name: [ENTRY]}}).encode()
        for name in ("../model", "/etc/passwd", "..", ".", "", "a/b", "a\0b", "\ud800", ".hidden", "a\n")
    },
}


@pytest.mark.parametrize("manifest", FOREIGN.values(), ids=FOREIGN)
def test_a_manifest_that_is_none_is_refused(folder, manifest):
    (folder / MANIFEST).write_bytes(manifest)
    for reader in (read_manifest, lambda folder: read_file(folder, "recipe.toml"), lambda folder: publish(folder, NEW)):
        with pytest.raises(InputError) as error:
            reader(folder)
        assert error.value.message.startswith(f"{folder}/{MANIFEST} is damaged: ")
        assert len(error.value.message) < len(str(folder)) + 150
    assert not is_whole(folder)


def test_a_manifest_that_accepts_nothing(folder):
    (folder / MANIFEST).write_bytes(b'{"schema": 1, "files": {"recipe.toml": []}}')
    with pytest.raises(InputError, match=r"recipe\.toml is damaged"):
        read_file(folder, "recipe.toml")


@pytest.mark.parametrize(
    ("damage", "reason"), [(link, "a link"), (pipe, "not a regular file"), (Path.unlink, "No such file")]
)
def test_a_manifest_that_is_not_there(folder, damage, reason):
    damage(folder / MANIFEST)
    with pytest.raises(InputError, match=rf"must have a manifest\.json, got {folder}: .*{reason}"):
        read_manifest(folder)


def test_a_manifest_may_not_lead_to_a_device(folder):
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).symlink_to("/dev/zero")
    assert not is_whole(folder)


# ── killed, full, out of order ──────────────────────────────────────────────────────────────────────────────────────

OPERATIONS = ("open", "fsync", "replace", "mkdir", "close")


class Killed(BaseException):
    """The process ended here: no handler of ours runs."""


def failing_at(monkeypatch, call, error):
    """From the `call`th file operation on, nothing works."""
    left = [call]

    def failing(function):
        def operate(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise error
            return function(*arguments, **options)

        return operate

    for name in OPERATIONS:
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    monkeypatch.setattr("builtins.open", failing(open))
    return left


def operations_of(monkeypatch, work):
    with monkeypatch.context() as patch:
        left = failing_at(patch, 10_000, None)
        work()
    return 10_000 - left[0]


def test_killed_anywhere_in_a_publication(tmp_path, monkeypatch):
    (tmp_path / "counted").mkdir()
    publish(tmp_path / "counted", OLD)
    count = operations_of(monkeypatch, lambda: publish(tmp_path / "counted", NEW))
    assert count > 15
    seen = set()
    for call in range(count):
        root = tmp_path / f"run-{call}"
        root.mkdir()
        publish(root, OLD)
        with monkeypatch.context() as patch:
            failing_at(patch, call, Killed())
            with pytest.raises(Killed):
                publish(root, NEW)
        assert is_whole(root)
        found = content(root)
        assert found["recipe.toml"] == b"old recipe"
        assert found["model.safetensors"] in (b"old model", b"a newer model")
        assert found.get("summary.json", b"{}") == b"{}"
        seen.add(tuple(found.values()))
        publish(root, NEW)
        assert content(root) == OLD | NEW
        assert not [name for name in os.listdir(root) if name.endswith(".writing")]
    assert len(seen) >= 3


def test_killed_anywhere_in_the_first_publication(tmp_path, monkeypatch):
    for call in range(30):
        root = tmp_path / f"run-{call}"
        root.mkdir()
        with monkeypatch.context() as patch:
            failing_at(patch, call, Killed())
            with suppress(Killed):
                publish(root, OLD)
        assert not (root / MANIFEST).exists() or content(root) == OLD
        publish(root, OLD)
        assert content(root) == OLD
    assert (tmp_path / "run-29" / MANIFEST).exists()


def test_killed_anywhere_in_a_folder(tmp_path, monkeypatch):
    count = operations_of(monkeypatch, lambda: write_folder(tmp_path / "counted", OLD))
    assert count > 10
    for call in range(count):
        folder = tmp_path / "checkpoints" / f"step-{call}"
        with monkeypatch.context() as patch:
            failing_at(patch, call, Killed())
            with pytest.raises(Killed):
                write_folder(folder, OLD)
        assert not folder.exists() or content(folder) == OLD
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(folder, NEW)
        assert content(folder) == NEW
        assert not list(folder.parent.glob(".*"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EIO])
def test_refused_anywhere_by_the_operating_system(tmp_path, monkeypatch, number):
    publish(tmp_path, OLD)
    for call in range(9):
        for save, place in [(publish, tmp_path), (write_folder, tmp_path / "step-2")]:
            with monkeypatch.context() as patch:
                failing_at(patch, call, OSError(number, os.strerror(number)))
                with pytest.raises(SaveError) as error:
                    save(place, OLD | NEW)
            room = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            sizes = ": 65,[0-9]{3} bytes are needed, [0-9,]+ are free" if room else ""
            said = f"{re.escape(str(place))} could not be saved: {os.strerror(number)}{sizes}; what was saved before is untouched"
            assert re.fullmatch(said, error.value.message)
            assert error.value.hint == ("make room, then continue with --resume" if room else None)
            assert is_whole(tmp_path)
            assert not (tmp_path / "step-2").exists()


def test_what_was_begun_is_removed(tmp_path, monkeypatch):
    publish(tmp_path, OLD)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for save, place in [(publish, tmp_path), (write_folder, tmp_path / "step-2")]:
        with pytest.raises(SaveError):
            save(place, NEW)
    assert sorted(os.listdir(tmp_path)) == [MANIFEST, *sorted(OLD)]
    assert content(tmp_path) == OLD


def test_room_is_looked_for_before_anything_is_written(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=70_000))
    with pytest.raises(SaveError, match=r"165,536 bytes are needed, 70,000 are free") as error:
        write_folder(tmp_path / "far" / "step-1", {"model.safetensors": bytes(100_000)})
    assert "make room" in error.value.hint
    assert not os.listdir(tmp_path)


REALLY_FULL = """
import sys
from pathlib import Path
from manyheads import storage
from manyheads.errors import SaveError
from manyheads.storage import is_whole, publish, write_folder
root = Path(sys.argv[1])
publish(root, {"model.safetensors": bytes(300_000)})
write_folder(root / "step-1", {"weights": bytes(200_000)})
for look in (storage.check_room, lambda *_: None):
    storage.check_room = look
    for save, place in [(publish, root), (write_folder, root / "step-2")]:
        try:
            save(place, {"model.safetensors": bytes(700_000)})
        except SaveError as error:
            print(error.message.partition("saved: ")[2].split(";")[0])
assert is_whole(root) and is_whole(root / "step-1")
print(sorted(path.name for path in root.iterdir()))
"""


def test_a_disk_that_is_really_full(tmp_path):
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    if subprocess.run(["unshare", "-Urm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("needs unshare and tmpfs")
    script = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, sys.executable, REALLY_FULL], capture_output=True, text=True
    )
    assert done.stderr == ""
    *said, names = done.stdout.splitlines()
    sizes = re.compile(r"No space left on device: 765,536 bytes are needed, ([\d,]+) are free")
    free = [int(sizes.fullmatch(line)[1].replace(",", "")) for line in said]
    assert len(free) == 4
    assert all(400_000 < left < 600_000 for left in free)  # what was begun is gone when it is counted
    assert names == f"['{MANIFEST}', 'model.safetensors', 'step-1']"


def test_a_folder_that_is_there_already_is_not_replaced(folder):
    with pytest.raises(SaveError, match="Directory not empty"):
        write_folder(folder, NEW)
    assert content(folder) == OLD


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SaveError, match="step-1 could not be saved: "):
        write_folder(tmp_path / "file" / "step-1", OLD)


# ── on disk before it is called saved ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def recorded(monkeypatch):
    """What was synced and renamed, in order, by name."""
    events = []
    fsync, replace = os.fsync, os.replace

    def record_sync(descriptor):
        events.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def record_rename(old, new):
        events.append(("rename", Path(old).name, Path(new).name))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_rename)
    return events


def test_a_folder_is_synced_from_the_inside_out(tmp_path, recorded):
    write_folder(tmp_path / "checkpoints" / "step-1", {"a": b"1", "b": b"2"})
    assert recorded == [
        ("sync", tmp_path.name),  # checkpoints is there
        ("sync", "checkpoints"),
        ("sync", "a"),
        ("sync", "b"),
        ("sync", MANIFEST),
        ("sync", ".step-1.writing"),
        ("rename", ".step-1.writing", "step-1"),
        ("sync", "checkpoints"),
    ]


def test_a_publication_is_synced_file_by_file(tmp_path, recorded):
    publish(tmp_path, {"a": b"1"})
    recorded.clear()
    publish(tmp_path, {"a": b"2", "b": b"3"})

    def replaced(name):
        return [("sync", f".{name}.writing"), ("rename", f".{name}.writing", name), ("sync", tmp_path.name)]

    assert recorded == [*replaced("b"), *replaced(MANIFEST), *replaced("a"), *replaced(MANIFEST)]


def test_a_folder_for_others_has_folders_inside_and_no_manifest(tmp_path):
    write_whole(tmp_path / "theirs", {"config.json": b"{}", "1_Pooling/config.json": b"[]"})
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"theirs/config.json": b"{}", "theirs/1_Pooling/config.json": b"[]"}
