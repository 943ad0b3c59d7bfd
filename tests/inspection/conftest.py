"""What tests of the inspector's page share: one sentence of the bundled model, its page, and a browser that looks at it."""

from dataclasses import replace

import pytest

from manyheads.decoding.translator import Translator
from manyheads.inspection.api import inspect

TEXT = "Ein kleiner Hund schläft unter dem Tisch."


@pytest.fixture(scope="module")
def browser():
    from browser import launched  # skips where there is no playwright

    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def translator():
    """Alignments are read from the mean of a layer, whatever head the bundled model names: pages then begin where tests expect it."""
    found = Translator.load("de-en", precision="fp32")
    found.recipe = replace(found.recipe, decode=replace(found.recipe.decode, alignment="2"))
    return found


@pytest.fixture(scope="module")
def found(translator):
    return inspect(translator, TEXT)


@pytest.fixture(scope="module")
def path(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("page") / "look.html")


@pytest.fixture
def look(browser, path):
    """Opens the page at an address; closes what was opened, and asks that nothing was fetched or complained of."""
    from browser import Look

    opened = []

    def open_at(address="", at=path, **options):
        opened.append(Look(browser, at, address, **options))
        return opened[-1]

    yield open_at
    for one in opened:
        assert one.complaints == []
        assert len([url for url in one.requests if not url.startswith("blob:")]) == 1
        one.page.close()
