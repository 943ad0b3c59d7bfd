"""Loading a model never runs code from it: nothing in the package could."""

import ast
from pathlib import Path

import pytest

import manyheads

SOURCES = sorted(Path(manyheads.__file__).parent.rglob("*.py"))
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "code",
    "codeop",
    "runpy",
}
CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "np.load",
    "numpy.load",
    "torch.jit.load",
    "torch.hub.load",
}
NAMES = {"allow_pickle", "trust_remote_code", "weights_only"}


def dotted(node):
    """a.b.c as text; nothing for what is no plain name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def unsafe(tree):
    """Every place where a program could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name.split(".")[0] in MODULES or name in CALLS)
        elif isinstance(node, (ast.Attribute, ast.Name)) and dotted(node) in CALLS:
            yield dotted(node)
        elif isinstance(node, ast.keyword) and node.arg in NAMES:
            yield node.arg


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(SOURCES[0].parent)) for path in SOURCES])
def test_no_source_can_run_what_it_reads(path):
    assert list(unsafe(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    ["import pickle", "from pickle import loads", "import yaml as y", "torch.load(f)", "load = torch.load", "eval('1')",
     "exec(x)", "from torch import load", "np.load(f)", "f(allow_pickle=True)", "import marshal", "compile(x, 'a', 'exec')"],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(code):
    assert list(unsafe(ast.parse(code)))


def test_what_only_looks_alike_is_left_alone():
    assert not list(
        unsafe(ast.parse("model.eval(); re.compile(x); torch.compile(m); json.load(f); Translator.load(f)"))
    )
