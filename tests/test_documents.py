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


CONSOLE = [(path.name, command, output) for path in DOCUMENTS for command, output in commands(path)]


@pytest.mark.parametrize(("name", "command", "output"), CONSOLE, ids=[command for _, command, _ in CONSOLE])
def test_commands_print_what_the_documents_say(name, command, output):
    beside_python = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    result = subprocess.run(
        command, shell=True, cwd=ROOT, env=beside_python, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    if output:
        assert [line.rstrip() for line in result.stdout.splitlines()] == [line.rstrip() for line in output.splitlines()]


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p, "python")], ids=lambda p: p.name)
def test_python_blocks_are_doctests(path):
    text = "\n".join(blocks(path, "python"))
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    assert test.examples
    try:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    finally:
        torch.set_printoptions(profile="default")


def ratios(file):
    rows = json.loads((ROOT / "benchmarks" / "results" / file).read_text())["rows"]
    return {(row["case"], row["pass"]): f"{row['ratio']:.2f}×" for row in rows}


@pytest.mark.parametrize(
    ("line", "file", "case"),
    [
        ("attention, padded batch, 2 CPU cores", "blocks_cpu.json", "attention, padded"),
        ("encoder-decoder, base size, 2 CPU cores", "blocks_cpu.json", "model"),
        ("attention, padded batch, one H200, bf16", "blocks_h200.json", "attention, padded"),
        ("encoder-decoder, base size, one H200, bf16", "blocks_h200.json", "model"),
        ("the same, both compiled", "blocks_h200_compiled.json", "model"),
    ],
)
def test_the_table_of_the_readme_is_what_was_measured(line, file, case):
    measured = ratios(file)
    row = f"| {line} | {measured[case, 'forward']} | {measured[case, 'forward + backward']} |"
    assert row in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_and_files_that_documents_name_are_there(path):
    text = path.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing
