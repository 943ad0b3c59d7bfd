"""The inspector as one file that opens from anywhere: no server, no network, nothing beside it.

What comes from texts and models is data, never markup: it is JSON that cannot end its element, and the page's own script puts
it on the screen as text. The page's policy lets that one script run, by its hash, and nothing else be fetched.
"""

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

from manyheads.inspection.bundle import Bundle

__all__ = ["PAGE_STYLE", "script", "single_file", "style"]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{script_hash}'; style-src '{style_hash}'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Manyheads inspector</title>
<style>{style}</style>
</head>
<body>
<main id="inspector"></main>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""

IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)

PAGE_STYLE = """
html { background: #fdfcfa; }
@media (prefers-color-scheme: dark) { html { background: #171615; } }
body { margin: 0; }
"""

START = """
{
  const data = JSON.parse(document.getElementById("data").textContent);
  inspector.render({ model: fromFile(data), el: document.getElementById("inspector"), address: true });
}
"""


def single_file(bundle: Bundle, second: Bundle | None = None) -> bytes:
    """`second` is what it is compared with."""
    code, look = script() + START, PAGE_STYLE + style()
    page = PAGE.format(
        script_hash=hash_of(code), style_hash=hash_of(look), style=look, data=embedded(bundle, second), script=code
    )
    return page.encode()


def embedded(bundle: Bundle, second: Bundle | None = None) -> str:
    """JSON without a letter that means anything to a reader of HTML or JavaScript."""
    data = as_data(bundle) if second is None else as_data(bundle) | {"other": as_data(second)}
    text = json.dumps(data, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def as_data(bundle: Bundle) -> dict[str, Any]:
    planes = {name: base64.b64encode(plane.tobytes()).decode() for name, plane in bundle.planes.items()}
    return {"header": bundle.header, "planes": planes}


def script(*more: str) -> str:
    """The module of the inspector, the same text for every host: its files joined, each after those that it imports.

    `more` are files that only some hosts have: what a page has not got, it cannot do.
    """
    parts: dict[str, str] = {}
    for name in ("inspector.js", *more):
        join(name, parts)
    return "\n".join(parts.values())


def join(name: str, parts: dict[str, str]) -> None:
    """Add a file and what it imports. Among files that are one, imports and exports mean nothing; only the default stays."""
    if name in parts:
        return
    code = read(name)
    for other in IMPORT.findall(code):
        join(other, parts)
    parts[name] = EXPORT.sub("", IMPORT.sub("", code)).strip() + "\n"


def style() -> str:
    return read("inspector.css")


def read(name: str) -> str:
    return (files("manyheads.inspection") / "page" / name).read_text("utf-8")


def hash_of(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
