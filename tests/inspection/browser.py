"""A real browser for tests of the inspector's page, and what they all ask of it."""

import json
import shutil
from contextlib import contextmanager
from xml.etree import ElementTree

import numpy as np
import pytest

from manyheads.inspection.bundle import Bundle
from manyheads.inspection.notebook import framed
from manyheads.inspection.summaries import summarise

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("encoder", "decoder", "cross")


@contextmanager
def launched():
    if CHROMIUM is None:
        pytest.skip("needs a chromium on the PATH")
    with sync_api.sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser.new_context(reduced_motion="reduce")
        browser.close()


class Look:
    """A page that is open, with all that it asked for and complained of."""

    def __init__(self, browser, path, address="", width=1280, scheme="light", ready=True):
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.page.set_default_timeout(10_000)
        self.requests, self.complaints, self.dialogs = [], [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        url = path if isinstance(path, str) else path.as_uri()
        self.page.goto(f"{url}#{address}" if address else url)
        if ready:
            self.ready()

    def ready(self):
        self.page.wait_for_selector("[data-state=ready]")
        return self

    def go(self, address):
        """To another address of the same page: as if its reader had typed it."""
        self.page.evaluate("""(address) => new Promise((resolve) => {
            addEventListener("popstate", () => setTimeout(resolve), { once: true });
            location.hash = address;
        })""", address)  # fmt: skip
        return self.ready()

    def text(self, selector):
        return self.page.locator(selector).first.inner_text()

    def texts(self, selector):
        return self.page.locator(selector).all_inner_texts()

    @property
    def said(self):
        return self.text("[aria-live]")

    def table(self):
        """What "Copy CSV" copies, as rows of texts."""
        import csv

        self.page.evaluate("window.copied = undefined")
        self.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        self.page.get_by_role("button", name="Copy CSV").click()
        self.page.wait_for_function("() => window.copied !== undefined")
        return list(csv.reader(self.page.evaluate("window.copied").splitlines()))

    def saved(self, name):
        self.page.wait_for_timeout(110)  # of more than ten downloads in a second, a browser drops the rest
        with self.page.expect_download() as found:
            self.page.get_by_role("button", name=name).click()
        return found.value.path().read_bytes()


@contextmanager
def opening(browser, *addresses):
    """Opens pages of servers, (address, at, …) → Look; in the end nothing may have left these servers, nothing be complained of."""
    opened = []

    def open_at(address, at="", ready=False, **options):
        opened.append(Look(browser, address, at, ready=ready, **options))
        opened[-1].page.set_default_timeout(30_000)
        return opened[-1]

    yield open_at
    allowed = (*(f"{address}/" for address in addresses), "blob:", "data:")
    for one in opened:
        assert one.complaints == []
        assert one.dialogs == []
        assert [url for url in one.requests if not url.startswith(allowed)] == []
        one.page.close()


def weights_in(rows):
    """The numbers of the matrix's table; a masked cell is 0."""
    return np.array([[float(cell or 0) for cell in row[1:]] for row in rows[1:]])


def embedded(data):
    return json.dumps(data).replace("<", "\\u003c")


def made_up(layers, heads, rows, columns):
    """An inspection of a model of any size, of weights that are drawn, with the summaries that they have."""
    drawn = np.random.default_rng(0)
    shapes = {"encoder": (columns, columns), "decoder": (rows, rows), "cross": (rows, columns)}
    ends = {"encoder": [columns - 1], "decoder": [0], "cross": [columns - 1]}
    planes, summed = {}, {kind: [] for kind in KINDS}
    for kind, (high, wide) in shapes.items():
        for layer in range(layers):
            weights = drawn.gamma(0.2, size=(heads, high, wide)) + 1e-4
            weights = np.tril(weights) if kind == "decoder" else weights
            weights = weights / weights.sum(-1, keepdims=True)
            planes[f"{kind}/{layer}"] = weights.astype("float16")
            found = summarise(weights, np.isin(np.arange(wide), ends[kind]), kind)
            summed[kind].append({name: values.tolist() for name, values in found.items()})
    header = {
        "schema": "inspection/1",
        "model": {
            "name": "made up", "heads": heads, "kv_heads": heads, "width": 8, "scale": 0.5, "layers": dict.fromkeys(KINDS, layers),
            "bounds": {"encoder": [None, None], "decoder": [None, 0], "cross": [None, None]},
        },
        "source": made_up_side("s", columns, {columns - 1}),
        "target": made_up_side("t", rows + 1, {0, rows}),
        "translation": "made up", "score": -1.0, "log_probability": -1.0, "forced": False, "part": 1, "parts": 1, "reading": None,
        "steps": [{"log_probability": -0.1, "rank": 0, "entropy": 0.1, "candidates": []}] * rows,
        "heads": summed, "off": [["encoder", 0, 1]], "left_out": [],
        "planes": {name: {"type": "f16", "shape": value.shape, "block": 1} for name, value in planes.items()},
    }  # fmt: skip
    return Bundle(header, planes)


def made_up_side(letter, count, specials):
    texts = [f"{letter}{n}" for n in range(count)]
    pieces = [{"text": text, "id": 9, "start": 0, "end": 1, "word": n} for n, text in enumerate(texts)]
    words = [{"text": text, "start": 0, "end": 1, "special": n in specials} for n, text in enumerate(texts)]
    return {"text": " ".join(texts), "pieces": pieces, "words": words}


def assert_address_holds(look, address):
    """What is looked at is in the address, after a key there and back; and that address shows the same."""
    first = look(address)
    first.page.keyboard.press("w")
    first.page.keyboard.press("w")
    first.ready()
    written = first.page.url.split("#")[1]
    assert set(written.split("&")) == set(address.split("&"))
    assert look(written).page.screenshot() == first.page.screenshot()


def tabs_in_a_frame(browser, inspection, folder):
    """The titles of the tabs that a notebook shows of an inspection, in a page of another encoding, which has nothing to complain of."""
    path = folder / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=latin-1><body>{framed(inspection)}", encoding="ascii")
    page = Look(browser, path, ready=False)
    frame = page.page.frame_locator("iframe")
    frame.locator("[data-state=ready]").wait_for()
    titles = frame.locator("[role=tab]").all_inner_texts()
    assert page.complaints == []
    page.page.close()
    return titles


def assert_drawn(page, view):
    """A view is chosen, says something, has a table and a picture, and fits."""
    page.go(f"v={view}")
    assert page.page.locator(f"[role=tab][aria-selected=true][data-view={view}]").count() == 1
    assert len(page.text(".panel")) > 50
    assert len(page.table()) > 2
    root = ElementTree.fromstring(page.saved("Save SVG"))
    assert root.tag == f"{SVG}svg"
    assert len(list(root.iter())) > 8
    assert not page.page.evaluate("document.documentElement.scrollWidth > innerWidth"), view
