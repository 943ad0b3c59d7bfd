"""`manyheads data`: refusals, pipes, and files that appear whole."""

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.command import status
from manyheads.checking.api import clean_data
from manyheads.checking.choices import check_outputs
from manyheads.checking.findings import FINDINGS, FIXES
from manyheads.errors import OptionError
from manyheads.text.lines import read_lines

PAIRS = "".join(
    f"Das ist Satz {word}.\tThis is sentence {word}.\n" for word in ["eins", "zwei", "drei", "vier", "fünf"]
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text(PAIRS * 2)


def manyheads(*words, **options):
    command = [sys.executable, "-m", "manyheads", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize(
    ("words", "complaint", "hint"),
    [
        (["check"], "data check takes at least one file, got none", ""),
        (["check", "nowhere.tsv"], "a file must be readable, got nowhere.tsv", "looked for in"),
        (["check", "a.tsv", "--model", "de-enn"], "there is no such folder", "did you mean 'de-en'?"),
        (["check", "a.tsv", "a.tsv", "a"], "got a alone", ""),
        (["clean", "a.tsv", "--out", "b.tsv", "--drop", "duplicates"], "got 'duplicates'", "did you mean 'duplicate'?"),
        (["clean", "a.tsv", "--out", "b.tsv", "--drop", "same=3"], "--drop same takes no limit", "length=255"),
        (["clean", "a.tsv", "--out", "b.tsv", "--drop", "ratio=x"], "at least 1, got 'ratio=x'", ""),
        (["clean", "a.tsv", "--out", "b.tsv", "--drop", "ratio=nan"], "at least 1, got 'ratio=nan'", ""),
        (["clean", "a.tsv", "--out", "b.tsv", "--fix", "spaces"], "got 'spaces'", "did you mean 'space'?"),
        (["clean", "a.tsv", "--out", "b.tsv", "--fix", "space", "--drop", "space"], "both mended and dropped", ""),
        (["clean", "a.tsv", "--out", "b.tsv", "--drop", "overlap"], "got no --against", ""),
        (["clean", "a.tsv", "--out", "./a.tsv"], "output files must differ from the input files", ""),
        (["clean", "a.tsv", "--out", "b.tsv", "--removed", "b.tsv"], "output files must differ", ""),
        (["clean", "a.tsv", "--out", "b.jsonl"], "--out takes a TSV file, or a source file and a target file", ""),
        (["clean", "a.tsv", "--out", "b", "c", "d"], "got b c d", "--out clean.tsv"),
        (["clean", "a.tsv:2", "--out", "b.tsv"], "only training data takes a weight, got 'a.tsv:2' for data clean", ""),
        (["clean", "b", "--out", "a.tsv", "--drop", "seen", "--against", "a.tsv"], "got a.tsv twice", ""),
        (["clean", "b", "--out", "c", "--removed", "a.tsv", "--drop", "seen", "--against", "a.tsv"], "a.tsv twice", ""),
        (
            ["clean", "a.tsv", "--out", "b.tsv", "--against", "c.tsv"],
            "--against is for --drop overlap",
            "--drop overlap",
        ),
        (["clean", "a.tsv", "--out", "b.tsv", "--model", "de-en"], "--model is for --drop length", "--drop length=255"),
        (["check", "a.tsv", "--examples", "-3"], "--examples must be at least 0, got -3", ""),
    ],
)
def test_refusals(capsys, words, complaint, hint):
    assert status("data", *words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert complaint in said
    assert hint in said
    assert os.listdir() == ["a.tsv"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"out": "b.tsv", "drop": {"duplicates": 0}}, "got 'duplicates'"),
        ({"out": "b.tsv", "drop": {"ratio": 0.5}}, "at least 1, got 'ratio=0.5'"),
        ({"out": "b.tsv", "drop": {}, "fix": ["spaces"]}, "got 'spaces'"),
        ({"out": "a.tsv", "drop": {}}, "got a.tsv twice"),
        ({"out": [Path("b.tsv")], "removed": Path("a.tsv"), "drop": {}}, "got a.tsv twice"),
        ({"out": [], "drop": {}}, "got none"),
    ],
)
def test_refusals_without_the_command_line(options, complaint):
    with pytest.raises(OptionError) as error:
        clean_data("a.tsv", **options)
    assert complaint in error.value.message
    assert (os.listdir(), Path("a.tsv").read_text()) == (["a.tsv"], PAIRS * 2)


@pytest.mark.parametrize("places", [["-", "b.tsv"], ["b.tsv", "/dev/stdin"]])
def test_nothing_is_written_to_standard_input(places):
    """Nothing is run that could: what is under /dev is everybody's."""
    with pytest.raises(OptionError, match=r"take files to write, got .*, which is standard input"):
        check_outputs(places, (), ())


def test_a_name_is_one_file_and_not_a_file_for_each_letter():
    assert clean_data("a.tsv", out="cl", drop={"duplicate": 0}).kept == 5
    assert sorted(os.listdir()) == ["a.tsv", "cl", "cl.removed.tsv"]


def test_what_comes_through_a_pipe_is_judged_as_a_file_is():
    reports = [
        json.loads(manyheads("data", "check", "a.tsv", "--json", "--examples", "0").stdout),
        json.loads(manyheads("data", "check", "-", "--json", "--examples", "0", input=PAIRS * 2).stdout),
    ]
    assert reports[0] == reports[1]
    assert reports[0]["findings"]["duplicate"]["count"] == 5


def test_a_pipe_beside_a_file_is_cleaned_as_files_are(capsys):
    os.mkfifo("pipe")
    Path("b.tsv").write_text("Noch ein Satz.\tOne more sentence.\n")
    thread = threading.Thread(target=lambda: Path("pipe").write_text("".join(f"{n}\n" for n in range(3))))
    Path("other").write_text("a\nb\nc\n")
    thread.start()
    assert status("data", "clean", "b.tsv", "pipe", "other", "--out", "out.tsv", "--drop", "duplicate") == 0
    thread.join()
    assert Path("out.tsv").read_text() == "Noch ein Satz.\tOne more sentence.\n0\ta\n1\tb\n2\tc\n"


def test_a_table_of_eighty_columns():
    Path("odd.tsv").write_bytes(PAIRS.encode() + b"x\xff\n" + b"Ein\x07 langer Satz " * 9 + b"\tA sentence\n")
    result = manyheads("data", "check", "odd.tsv", env={**os.environ, "COLUMNS": "80"})
    assert result.returncode == 0
    assert result.stderr == ""
    assert max(map(len, result.stdout.split("\n"))) <= 80
    assert "odd.tsv: 6 pairs in 7 rows" in result.stdout
    assert "\\x07 langer Satz" in result.stdout
    assert "\x07" not in result.stdout


def test_the_pieces_of_a_model(capsys):
    assert status("data", "check", "a.tsv", "--model", "de-en", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    from manyheads.decoding.translator import Translator

    tokenizer = Translator.load("de-en", "cpu").vocabulary.source
    longest = max(map(len, tokenizer.encode([line.split("\t")[0] for line in PAIRS.splitlines()])))
    assert report["lengths"]["source"]["longest"] == longest
    assert report["pieces"] == "of de-en"


def test_torch_is_not_needed():
    code = "import sys; from manyheads.cli.main import main; main(['data', 'check', 'a.tsv']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


def test_packed_files_are_the_same_bytes_every_time(capsys):
    for name in ("b", "c"):
        words = ["--out", f"{name}.tsv.gz", "--removed", f"{name}.removed.tsv.zst", "--drop", "duplicate"]
        assert status("data", "clean", "a.tsv", *words) == 0
    assert gzip.decompress(Path("b.tsv.gz").read_bytes()).decode() == PAIRS
    assert Path("b.tsv.gz").read_bytes() == Path("c.tsv.gz").read_bytes()
    removed = [line.decode().split("\t") for line in read_lines("b.removed.tsv.zst")]
    assert [row[:3] for row in removed] == [["file", "line", "reason"]] + [
        ["a.tsv", str(n), "duplicate"] for n in range(6, 11)
    ]


def test_what_cannot_be_used_leaves_what_was_there(capsys):
    Path("out.tsv").write_text("before")
    Path("de").write_text("a\nb\n")
    Path("en").write_text("x\n")
    assert status("data", "clean", "de", "en", "--out", "out.tsv") == 2
    assert "the same number of lines, got 2 in de and 1 in en" in capsys.readouterr().err
    assert Path("out.tsv").read_text() == "before"
    assert sorted(os.listdir()) == ["a.tsv", "de", "en", "out.tsv"]


def test_a_device_is_written_to_and_never_replaced(capsys):
    assert status("data", "clean", "a.tsv", "--out", "/dev/null", "--removed", "gone.tsv") == 0
    assert not os.path.isfile("/dev/null")
    assert status("data", "clean", "a.tsv", "--out", "/dev/full", "--removed", "full.tsv") == 1
    assert "/dev/full could not be written: No space left on device" in capsys.readouterr().err
    assert not os.path.exists("full.tsv")
    assert status("data", "clean", "a.tsv", "--out", "no/such/folder.tsv") == 2
    assert "a folder that exists, got no/such/folder.tsv\n" in capsys.readouterr().err


def test_a_link_stays_a_link(capsys):
    Path("folder").mkdir()
    Path("link.tsv").symlink_to("folder/real.tsv")
    for _ in ("the file is new", "it is there"):
        assert status("data", "clean", "a.tsv", "--out", "link.tsv", "--drop", "duplicate") == 0
        assert Path("link.tsv").is_symlink()
        assert Path("folder/real.tsv").read_text() == PAIRS
    assert os.listdir("folder") == ["real.tsv"]


def test_tabs_inside_texts_cannot_stay_in_a_tsv_file(capsys):
    Path("a.jsonl").write_text(json.dumps({"source": "a\tb", "target": "x"}) + "\n")
    assert status("data", "clean", "a.jsonl", "--out", "out.tsv") == 0
    assert Path("out.tsv").read_text() == "a b\tx\n"
    assert "1 with a tab inside, kept with a space instead" in capsys.readouterr().err
    assert status("data", "clean", "a.jsonl", "--out", "out.de", "out.en") == 0
    assert Path("out.de").read_text() == "a\tb\n"


def test_a_pair_that_mending_leaves_blank_is_removed_as_it_was_read(capsys):
    Path("b.tsv").write_text("\u200b \tx\nEin  Satz.\u200b\ty\nEin Satz.\ty\n")
    options = ["--fix", "invisible,space", "--drop", "duplicate", "--out", "out.tsv"]
    assert status("data", "clean", "b.tsv", *options) == 0
    assert Path("out.tsv").read_text() == "Ein Satz.\ty\n"
    removed = Path("out.tsv.removed.tsv").read_text().splitlines()[1:]
    assert removed == ["b.tsv\t1\tblank\t\u200b \tx", "b.tsv\t3\tduplicate\tEin Satz.\ty"]
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  1 blank", "  1 duplicate", "  1 mended: invisible", "  1 mended: space",
    ]  # fmt: skip


def test_only_pairs_that_are_kept_count_as_mended(capsys):
    Path("b.tsv").write_text("a  b\tx\na b\tx\na  b \tx\n")
    assert status("data", "clean", "b.tsv", "--fix", "space", "--drop", "duplicate", "--out", "out.tsv") == 0
    assert "  1 mended: space\n" in capsys.readouterr().err
    removed = Path("out.tsv.removed.tsv").read_text().splitlines()[1:]
    assert removed == ["b.tsv\t2\tduplicate\ta b\tx", "b.tsv\t3\tduplicate\ta  b \tx"]


def test_the_name_of_a_file_need_not_be_utf8(capsys):
    name = os.fsdecode(b"caf\xe9.tsv")
    Path(name).write_text("a\tx\n\ty\n")
    assert status("data", "clean", name, "--out", "out.tsv") == 0
    assert Path("out.tsv.removed.tsv").read_text().splitlines()[1:] == ["caf\ufffd.tsv\t2\tblank\t\ty"]


def test_the_sides_of_a_file_that_names_them(capsys):
    Path("a.jsonl").write_text(json.dumps({"translation": {"de": "Ja.", "en": "Yes."}}) + "\n")
    assert status("data", "clean", "a.jsonl", "--source", "en", "--target", "de", "--out", "out.tsv") == 0
    assert Path("out.tsv").read_text() == "Yes.\tJa.\n"
    capsys.readouterr()
    assert status("data", "check", "a.jsonl", "--source", "en") == 2
    assert "both sides are named, and differently, or neither is, got source = 'en'" in capsys.readouterr().err
    assert status("data", "check", "a.jsonl", "--json") == 0  # a line that is no pair is a finding
    assert json.loads(capsys.readouterr().out)["findings"]["no_pair"]["count"] == 1


@pytest.mark.parametrize("words", [["data", "--help"], ["data", "check", "--help"], ["data", "clean", "--help"]])
def test_help_begins_with_examples(capsys, words):
    assert status(*words) == 0
    said = capsys.readouterr().out
    assert said.startswith("Usage: manyheads data")
    assert "manyheads data c" in said.split("\n", 4)[4]


odd = st.text(st.sampled_from("ab \x07\u200bÃ¤1.<>@\u0430\ufffd"), max_size=8)
names = st.lists(st.sampled_from(sorted(set(FINDINGS) - {"overlap", "seen", "length"})), unique=True)


@settings(max_examples=60)
@given(
    st.lists(st.lists(odd, min_size=1, max_size=3), min_size=1, max_size=30),
    names,
    st.sets(st.sampled_from(sorted(FIXES))),
)
def test_kept_and_removed_are_all_that_was_read(tmp_path_factory, rows, drop, fix):
    folder = tmp_path_factory.mktemp("all")
    lines = ["\t".join(row) for row in rows]
    (folder / "in.tsv").write_bytes("".join(f"{line}\n" for line in lines).encode())
    out = str(folder / "out.tsv")
    cleaned = clean_data([str(folder / "in.tsv")], out=[out], drop=dict.fromkeys(drop, 3.0), fix=fix - set(drop))
    kept = list(read_lines(out))
    removed = [line.decode().split("\t") for line in read_lines(f"{out}.removed.tsv")][1:]
    assert cleaned.read == len(rows) == len(kept) + len(removed)
    assert (cleaned.kept, cleaned.removed.total()) == (len(kept), len(removed))
    places = [int(row[1]) for row in removed]
    assert places == sorted(places)
    if not fix:
        assert [line.decode() for line in kept] == [line for n, line in enumerate(lines, 1) if n not in places]
