"""The inspector as one file that opens from anywhere: no server, no network, no other file.

Texts and numbers of models are data, never markup: they are JSON that cannot close its element, and the page's own
script displays them as text. The page's content security policy allows that one script, by its hash, and no requests.
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
    """The page as HTML. `second` is what the first bundle is compared with."""
    code, look = script() + START, PAGE_STYLE + style()
    page = PAGE.format(
        script_hash=hash_of(code), style_hash=hash_of(look), style=look, data=embedded(bundle, second), script=code
    )
    return page.encode()


def embedded(bundle: Bundle, second: Bundle | None = None) -> str:
    """JSON in ASCII, with `<`, `>` and `&` escaped so that nothing in it can be parsed as markup."""
    data = as_data(bundle) if second is None else as_data(bundle) | {"other": as_data(second)}
    text = json.dumps(data, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def as_data(bundle: Bundle) -> dict[str, Any]:
    planes = {name: base64.b64encode(plane.tobytes()).decode() for name, plane in bundle.planes.items()}
    return {"header": bundle.header, "planes": planes}


def script(*more: str) -> str:
    """The inspector's module, the same text for every host: its files joined, each after the files that it imports.

    `more` names files that only some hosts include: without them, a page cannot do what they do.
    """
    parts: dict[str, str] = {}
    for name in ("inspector.js", *more):
        join(name, parts)
    return "\n".join(parts.values())


def join(name: str, parts: dict[str, str]) -> None:
    """Add a file and what it imports. Files joined into one need no imports or exports but the default export."""
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
