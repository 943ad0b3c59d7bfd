"""Faults of every kind are planted: `data check` finds each as often as it is there, `data clean` removes exactly these."""

import json
from collections import Counter
from pathlib import Path

import pytest

from checking.planted import clean_pairs, plant
from cli.command import status
from manyheads.checking.api import check_data
from manyheads.checking.findings import FINDINGS

FILES = ["planted.tsv", "lines.jsonl"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    rows, line, against, counts, good = plant(clean_pairs(2_000))
    (folder / "planted.tsv").write_bytes(rows)
    (folder / "lines.jsonl").write_text(line)
    (folder / "against.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in against))
    return folder, counts, good


@pytest.fixture
def here(planted, monkeypatch):
    monkeypatch.chdir(planted[0])


def read_tsv(path):
    return [tuple(line.split("\t")) for line in Path(path).read_bytes().decode().split("\n")[:-1]]


def test_nothing_is_found_in_clean_pairs(tmp_path):
    path = tmp_path / "clean.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in clean_pairs(2_000)))
    report = check_data([str(path)])
    assert report.pairs == report.rows == 2_000
    assert report.found == []


def test_each_is_found_as_often_as_it_is_there(planted, here, capsys):
    _, counts, _ = planted
    assert status("data", "check", *FILES, "--against", "against.tsv", "--json", "--examples", "100") == 0
    report = json.loads(capsys.readouterr().out)
    assert {name: found["count"] for name, found in report["findings"].items()} == counts
    assert set(FINDINGS) <= set(counts)
    assert report["rows"] == len(Path("planted.tsv").read_bytes().split(b"\n")) + 1
    assert report["pairs"] == report["rows"] - 8
    assert report["sides_told_apart"] is True
    assert report["lengths"]["source"]["over"] == report["lengths"]["target"]["over"] == 1
    lines = [row.decode(errors="replace") for row in Path("planted.tsv").read_bytes().split(b"\n")]
    for name, found in report["findings"].items():
        assert len(found["examples"]) == found["count"]
        for one in found["examples"]:
            if name not in ("newline", "no_pair", "not_utf8", "blank", "too_long"):
                assert (one["file"], lines[one["line"] - 1]) == ("planted.tsv", f"{one['source']}\t{one['target']}")


def test_cleaning_removes_exactly_these(planted, here, capsys):
    _, counts, good = planted
    names = ",".join(FINDINGS)
    assert status("data", "clean", *FILES, "--against", "against.tsv", "--out", "clean.tsv", "--drop", names) == 0
    assert read_tsv("clean.tsv") == good
    header, *removed = read_tsv("clean.tsv.removed.tsv")
    assert header == ("file", "line", "reason", "source", "target")
    found = Counter(reason for row in removed for reason in row[2].split(","))
    assert found == counts
    said = capsys.readouterr().err
    rows = len(good) + len(removed)
    assert said.startswith(
        f"{rows:,} read, {len(good):,} kept in clean.tsv, {len(removed):,} removed to clean.tsv.removed.tsv\n"
    )
    listed = [line.split() for line in said.splitlines()[1:]]
    assert sum(int(line[0]) for line in listed) == len(removed)


@pytest.mark.parametrize("name", ["duplicate", "script", "swapped", "ratio", "mojibake", "same"])
def test_one_name_removes_one_kind_and_what_is_no_pair(planted, here, capsys, name):
    _, counts, _ = planted
    assert status("data", "clean", *FILES, "--out", "one.tsv", "--removed", "gone.tsv", "--drop", name) == 0
    reasons = Counter(row[2] for row in read_tsv("gone.tsv")[1:])
    unusable = {what: counts[what] for what in ("not_utf8", "no_pair", "blank", "too_long")}
    assert reasons == unusable | {name: counts[name]}


def test_what_is_mended_is_kept_and_not_found_again(planted, here, capsys):
    _, counts, _ = planted
    fixes = ["--fix", "swapped,space,quoted", "--fix", "control", "--fix", "invisible"]
    assert status("data", "clean", *FILES, "--out", "mended.de.gz", "mended.en.zst", *fixes) == 0
    said = capsys.readouterr().err
    for name, count in (("swapped", 20), ("space", 2), ("quoted", 2), ("control", 2), ("invisible", 4)):
        assert f"  {count} mended: {name}\n" in said
    report = check_data(["mended.de.gz", "mended.en.zst"])
    assert report.counts["invisible"] == 1  # U+FFFD stood for something
    left = {name: counts[name] for name in ("duplicate", "targets", "same", "ratio", "numbers", "script", "mojibake")}
    assert {name: report.counts[name] for name in left} == left
    assert not any(report.counts[name] for name in ("control", "space", "swapped", "quoted"))


def test_pairs_swapped_back_are_judged_as_they_are_then(tmp_path, monkeypatch):
    """Else a pair of the test set comes into the clean corpus with its sides in order."""
    monkeypatch.chdir(tmp_path)
    pairs = clean_pairs(1_000)
    test, again, rest = pairs[:10], pairs[10:20], pairs[10:]
    rows = [*rest, *((target, source) for source, target in (*test, *again))]
    Path("rows.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    Path("test.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in test))
    options = ["--against", "test.tsv", "--drop", "overlap,duplicate", "--fix", "swapped", "--out", "clean.tsv"]
    assert status("data", "clean", "rows.tsv", *options) == 0
    assert read_tsv("clean.tsv") == rest
    removed = read_tsv("clean.tsv.removed.tsv")[1:]
    assert [row[2] for row in removed] == ["overlap"] * 10 + ["duplicate"] * 10
    assert [row[3:] for row in removed] == rows[len(rest) :]  # as they were read
