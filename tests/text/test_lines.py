"""Lines end at "\\n" and nowhere else; what is packed is unpacked; what is damaged is named."""

import fcntl
import gzip
import os
import pty
import subprocess
import sys
import termios
import threading
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from manyheads.errors import InputError
from manyheads.text.lines import decode_line, read_lines

# What some reader somewhere takes for the end of a line.
ODD = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\r\x00\ufeff"


@pytest.fixture
def write(tmp_path):
    def write(content, name="text"):
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return write


def zstd(content):
    """As the command writes it: with a checksum."""
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


@given(st.lists(st.text(st.sampled_from(ODD + "ä "), max_size=5), max_size=5), st.booleans())
def test_a_line_ends_at_a_newline_and_nowhere_else(tmp_path_factory, lines, ended):
    path = tmp_path_factory.getbasetemp() / "lines"
    lines = ["x" + line + "x" for line in lines]
    path.write_bytes("\n".join(lines).encode() + b"\n" * (ended and bool(lines)))
    assert [line.decode() for line in read_lines(str(path))] == lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\nb\rc\nd\r", [b"a\r", b"b\rc", b"d\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [b""]),
        (b"PKK\nBZhang\n", [b"PKK", b"BZhang"]),
        (b"BZh", [b"BZh"]),
        (b"\x1f", [b"\x1f"]),
    ],
)
def test_lines(write, content, lines):
    assert list(read_lines(write(content))) == lines
    assert list(read_lines(write(gzip.compress(content)))) == lines
    assert list(read_lines(write(zstd(content)))) == lines


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_several_members_or_frames_are_one_text(write, pack):
    parts = [b"one\ntw", b"", b"o\n", os.urandom(3000).hex().encode() + b"\n"]
    path = write(b"".join(map(pack, parts)), "named.txt")
    assert b"\n".join(read_lines(path)) + b"\n" == b"".join(parts)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_file_that_is_cut_anywhere_is_refused(write, pack):
    whole = pack(os.urandom(50_000).hex().encode() + b"\n")
    for length in (4, 5, 9, 30, len(whole) // 2, len(whole) - 1):
        with pytest.raises(InputError) as error:
            list(read_lines(write(whole[:length], "cut")))
        assert "a compressed file must be complete, got " in error.value.message
        assert "/cut: " in error.value.message


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_and_one_with_something_behind_it_or_a_flipped_bit(write, pack):
    whole = bytearray(pack(b"text\n" * 1000))
    with pytest.raises(InputError, match="must be complete"):
        list(read_lines(write(bytes(whole) + b"garbage!")))
    whole[-1] ^= 1
    with pytest.raises(InputError, match="must be complete"):
        list(read_lines(write(bytes(whole))))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("Grüße\n".encode("utf-16"), "UTF-16"),
        (b"\xfe\xff" + "Grüße\n".encode("utf-16-be"), "UTF-16"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"BZh91AY&SY\x00", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
    ],
)
def test_other_formats_are_refused_by_name(write, content, kind):
    with pytest.raises(InputError) as error:
        list(read_lines(write(content, "odd.txt")))
    assert error.value.message.endswith(f"odd.txt: it looks like {kind}")


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, reason, hint in [
        ("gone", "No such file or directory", f"it was looked for in {tmp_path}"),
        (f"{tmp_path}/gone", "No such file or directory", None),
        (str(tmp_path), "Is a directory", "name a file in it"),
        ("a" * 300, "File name too long", f"it was looked for in {tmp_path}"),
        ("/proc/self/mem", "Input/output error", None),  # opens, and fails when read
    ]:
        with pytest.raises(InputError) as error:
            list(read_lines(path))
        assert error.value.message == f"a file must be readable, got {path}: {reason}"
        assert error.value.hint == hint
    with pytest.raises(InputError, match="no NUL"):
        list(read_lines("a\0b"))


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_line_of_the_limit_is_read_and_one_byte_more_is_not(write, mark, ending):
    path = write(mark + b"1234567" + ending)
    assert list(read_lines(path, limit=7)) == [b"1234567"]
    assert list(read_lines(path, limit=6)) == [None]


@given(st.lists(st.integers(0, 12), max_size=6), st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_skipped_lines_are_still_lines(tmp_path_factory, lengths, ending, mark):
    path = tmp_path_factory.getbasetemp() / "limits"
    path.write_bytes(b"\xef\xbb\xbf" * mark + b"".join(b"x" * length + ending for length in lengths))
    expected = [b"x" * length if length <= 6 else None for length in lengths]
    assert list(read_lines(str(path), limit=6)) == expected


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_line_without_end_is_never_held_in_memory(write, pack):
    path = write(pack(b"before\n" + bytes(50_000_000) + b"\nafter\n"))
    tracemalloc.start()
    lines = list(read_lines(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == [b"before", None, b"after"]
    assert peak < 25_000_000


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_pipe_that_gives_one_byte_at_a_time(tmp_path, pack):
    path, content = tmp_path / "pipe", pack("ein\u2028s\nzwei".encode())
    os.mkfifo(path)

    def feed():
        with open(path, "wb", buffering=0) as pipe:
            for byte in content:
                pipe.write(bytes([byte]))
                while unread(pipe):
                    pass

    thread = threading.Thread(target=feed)
    thread.start()
    assert [line.decode() for line in read_lines(str(path))] == ["ein\u2028s", "zwei"]
    thread.join()


def unread(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_standard_input(pack):
    code = "from manyheads.text.lines import read_lines; print(list(read_lines('-')))"
    done = subprocess.run([sys.executable, "-c", code], input=pack(b"a\r\nb"), capture_output=True, check=True)
    assert done.stdout == b"[b'a', b'b']\n"


def test_a_line_that_is_typed_is_there_at_once():
    code = "from manyheads.text.lines import read_lines\nfor line in read_lines('-'): print(line, flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"B\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"b'B'\n"  # while more may be typed
        process.stdin.close()


def test_a_byte_that_is_not_utf8_is_shown_to_the_byte():
    with pytest.raises(InputError) as error:
        decode_line(b"Gr\xfc\xdfe", "alt.txt", 7)
    assert error.value.message == "a text must be UTF-8, got alt.txt, line 7: byte 0xfc at column 3"
    assert "iconv -f WINDOWS-1252 -t UTF-8 alt.txt" in error.value.hint


def test_who_types_is_answered_line_by_line():
    """A terminal's line is there when it ends, not when the next one does."""
    code = (
        "import sys\nfrom manyheads.text.lines import read_lines\nfor line in read_lines('-'): print(line, flush=True)"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], stdin=slave, stdout=subprocess.PIPE)
    os.close(slave)
    try:
        for line in (b"one", b"two"):
            os.write(master, line + b"\n")
            assert process.stdout.readline() == repr(line).encode() + b"\n"
    finally:
        process.kill()
        process.wait()
        os.close(master)
