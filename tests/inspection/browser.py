"""A real browser for tests of the inspector's page, and what they all ask of it."""

import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `dev`")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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
        self.page.wait_for_function("window.copied !== undefined")
        return list(csv.reader(self.page.evaluate("window.copied").splitlines()))

    def saved(self, name):
        with self.page.expect_download() as found:
            self.page.get_by_role("button", name=name).click()
        return found.value.path().read_bytes()


def weights_in(rows):
    """The numbers of the matrix's table; a masked cell is 0."""
    return np.array([[float(cell or 0) for cell in row[1:]] for row in rows[1:]])


def embedded(data):
    return json.dumps(data).replace("<", "\\u003c")
