"""Documents are true: every console block is run and prints what it says, every Python block is a doctest."""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.at_once import table

from manyheads.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path, language):
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def commands(path):
    """(command, expected output) of every `$ ` line."""
    for block in blocks(path, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


WITH_COMMANDS = [path for path in DOCUMENTS if blocks(path, "console")]
OF_THEIR_OWN = ("manyheads demo", "manyheads serve")  # take minutes, or never end: they have tests of their own


def test_every_verb_is_shown_by_a_command_that_runs():
    said = " ".join(command for path in WITH_COMMANDS for command, _ in commands(path))
    groups = {name: ["check", "clean"] if name == "data" else [""] for name in app if not name.startswith("-")}
    verbs = {f"manyheads {name} {verb}".strip() for name, verbs in groups.items() for verb in verbs}
    assert len(verbs) >= 12
    assert [verb for verb in sorted(verbs) if verb not in said] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.name)
def test_commands_print_what_the_documents_say(path):
    """In the order of the document: what one command writes the next may read. Then its Python, which may read it too."""
    for command, output in commands(path):
        if not any(name in command for name in OF_THEIR_OWN):
            assert_prints(command, output)
    if blocks(path, "python"):
        run_python(path)


@pytest.mark.slow
def test_the_demo_of_the_readme_runs():
    (command,) = [command for command, _ in commands(ROOT / "README.md") if OF_THEIR_OWN[0] in command]
    said = run(command)
    assert re.search(r"word error rate \d+\.\d %   phone error rate \d+\.\d %", said)
    assert "A dog is sleeping on the couch." in said
    assert (ROOT / "runs" / "demo" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def run(command):
    beside_python = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    result = subprocess.run(
        command, shell=True, cwd=ROOT, env=beside_python, capture_output=True, text=True, timeout=1_800
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def assert_prints(command, output):
    said = [line.rstrip() for line in run(command).splitlines()]
    if output:
        assert said == [line.rstrip() for line in output.splitlines()], command


def test_the_chinese_readme_has_the_same_commands():
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"
    for language in ("console", "python"):
        assert blocks(chinese, language) == blocks(english, language)
    figures = re.compile(r"\d+(?:\.\d+)?")
    rows = [
        [figures.findall(line) for line in p.read_text().splitlines() if line.startswith("| ")]
        for p in (english, chinese)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if blocks(p, "python") and not blocks(p, "console")], ids=lambda p: p.name
)
def test_python_blocks_are_doctests(path):
    run_python(path)


def run_python(path):
    text = "\n".join(blocks(path, "python"))
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    assert test.examples
    try:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    finally:
        torch.set_printoptions(profile="default")


def result(file):
    return json.loads((ROOT / "benchmarks" / "results" / file).read_text())


@pytest.mark.parametrize(
    ("line", "case"),
    [
        ("Tatoeba German → English, `tatoeba`", "tatoeba"),
        ("CMU dictionary, letters → phones, `pronounce`", "cmudict"),
        ("the bundled `de-en`, 11 MB of 8-bit weights", "de-en"),
    ],
)
def test_the_table_of_the_readme_is_what_was_measured(line, case):
    measured = result(f"quality_{case}.json")
    test, seconds = measured["test"], f"{measured['training_seconds']:.0f} s"
    bleu, phones = f"BLEU {test['bleu']:.1f}", "word error {wer:.1f} %, phone error {per:.1f} %"
    row = f"| {line} | {phones.format(**test) if 'wer' in test else bleu} | {seconds} |"
    assert row in (ROOT / "README.md").read_text(encoding="utf-8")


def readme():
    """Its words, whatever the lines they are on."""
    return " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_quality_after_half_a_minute_is_what_was_measured():
    (mean,) = [mean for mean in result("time_to_quality.json")["means"] if mean["budget_s"] == 30]
    assert (mean["runs"], mean["failed"], mean["over_budget"]) == (3, 0, 0)
    named = f"`small` for 94 epochs, mean of three seeds | BLEU {mean['bleu']:.1f} | {mean['seconds']:.0f} s |"
    assert named in readme()


def test_the_speed_that_the_readme_names_is_what_was_measured():
    """Against whichever other system is fastest, compiled or not."""
    rows = [row for row in result("train_gpu.json")["rows"] if row["size"] == "base"]

    def fastest(tokens, ours):
        speeds = [row["target_tokens_per_s"] for row in rows
                  if row["batch_tokens"] == tokens and (row["system"] == "manyheads") == ours]  # fmt: skip
        return max(speeds)

    ours, theirs = ([fastest(tokens, mine) for tokens in (12_500, 50_000)] for mine in (True, False))
    most, least = (mine / other for mine, other in zip(ours, theirs, strict=True))
    named = (
        f"{ours[0] / 1e6:.2f} to {ours[1] / 1e6:.2f} million target tokens per second: {least:.1f} to {most:.1f} times"
    )
    assert named in readme()


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "README.zh-CN.md"], ids=lambda p: p.name)
def test_links_and_files_that_documents_name_are_there(path):
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


def test_the_table_of_the_guide_to_writing_at_once_is_what_was_measured():
    guide = (ROOT / "docs" / "guides" / "parallel.md").read_text(encoding="utf-8")
    results = ROOT / "benchmarks" / "results"
    parts = re.split(r"^(Multi30k|Tatoeba), ", guide, flags=re.MULTILINE)
    assert parts[1::2] == ["Multi30k", "Tatoeba"]
    for corpus, part in zip(parts[1::2], parts[2::2], strict=True):
        lines = re.findall(r"^\| [^|]+, [^|]+ \| \d.* \|$", part, flags=re.MULTILINE)
        measured = table(*(results / f"at_once_{corpus.lower()}_{where}.json" for where in ("cpu", "cpu_int8", "h200")))
        assert len(lines) >= 12
        assert [line for line in lines if line not in measured] == []
