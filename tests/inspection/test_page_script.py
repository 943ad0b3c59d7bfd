"""The inspector's script: many files that are one, and nothing in it that could turn text into markup."""

import re
from collections import Counter
from importlib.resources import files

import pytest

from manyheads.inspection.singlefile import script, style

DECLARED = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
SEVERAL = re.compile(r"^(?:const|let) \[([^\]]*)\]", re.MULTILINE)
FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "createContextualFragment",
    "DOMParser", "setAttribute(\"style\"", "import(", "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", "localStorage",
)  # fmt: skip

SERVED = "server.js"
"""What only the served page has: it asks the server that it came from."""


def sources():
    return sorted(path.name for path in (files("manyheads.inspection") / "page").iterdir() if path.name.endswith(".js"))


def test_every_file_is_in_the_one_module_once():
    for name in sources():
        first = (files("manyheads.inspection") / "page" / name).read_text("utf-8").splitlines()[0]
        assert script(SERVED).count(first) == 1
        assert script().count(first) == (name != SERVED)


def test_a_name_is_declared_once_in_all_files():
    several = [name for names in SEVERAL.findall(script(SERVED)) for name in names.split(", ")]
    names = Counter(DECLARED.findall(script(SERVED)) + several)
    assert [name for name, count in names.items() if count > 1] == []
    assert {"alignView", "matrixView", "insideView", "stepsView", "switchesView", "fromFile", "inspector"} <= set(names)


def test_nothing_is_imported_and_only_the_default_is_exported():
    assert re.findall(r"^(?:import|export)\b.*", script(), re.MULTILINE) == ["export default inspector;"]


@pytest.mark.parametrize("word", FORBIDDEN)
def test_nothing_in_it_parses_text_or_reaches_out(word):
    assert word not in script()
    assert word == "fetch(" or word not in script(SERVED)


def test_it_cannot_end_the_element_that_it_lies_in():
    assert "</script" not in script().lower()
    assert "<!--" not in script()
    assert "</style" not in style().lower()


def test_the_style_fetches_nothing_and_stays_inside_the_inspector():
    assert "url(" not in style()
    assert "@import" not in style()
    rules = re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)
    assert re.findall(r"^[^\s}].*", rules, re.MULTILINE) == [".manyheads-inspector {"]
