"""The application: a page, the inspector's module, and answers to what they ask."""

from html import escape
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from manyheads.decoding.translator import Translator
from manyheads.errors import ManyheadsError
from manyheads.inspection.live import BusyError, GoneError, Live, tells_of
from manyheads.inspection.singlefile import PAGE_STYLE, script, style
from manyheads.inspection.switches import Head
from manyheads.modelfolder import bundled
from manyheads.serve.guards import BodyLimit, OwnPage, Sealed

__all__ = ["make_app"]

LARGEST = 64 << 10
"""Most bytes of a question."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Manyheads</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/inspector.css">
</head>
<body>
<main id="inspector" data-example="{example}" data-tells="{tells}"></main>
<script type="module" src="/inspector.js"></script>
</body>
</html>
"""
START = """
{
  const el = document.getElementById("inspector");
  inspector.render({ model: fromServer({ ...el.dataset }), el, address: true });
}
"""
EXAMPLES = {"de-en": "Ein kleiner Hund schläft unter dem Tisch."}
"""Example sentences for the bundled models; what another model reads is not known."""

MOST_AT_ONCE = 64
"""Most hypotheses of a beam, or iterations over all places: they multiply the work of a question."""

Text = Annotated[str, Field(max_length=10_000)]
Length = Annotated[str, Field(max_length=20)]
Multiple = Annotated[int, Field(ge=0, le=MOST_AT_ONCE)]


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Switch(Question):
    kind: Text
    layer: int
    head: int


class Ask(Question):
    """What to translate, and how.

    text         what to translate; part: which part of it, if it is long
    target       a given translation, as text; ids: the same, piece by piece; prefix: only its start
    off          heads to go without; instead: what they give
    iterations   how often a model that writes all at once fills in its places; length: how long its translation is
                 ("12" pieces, "0.8" of the likeliest length); iteration: the one whose heads are shown
    against      the number of an answer whose output is also scored without these heads

    Each model refuses what means nothing to it. 0 and "" mean that an option is not set.
    """

    text: Text
    target: Text | None = None
    prefix: Text = ""
    off: Annotated[list[Switch], Field(max_length=10_000)] = []
    instead: Text = "zero"
    part: Annotated[int, Field(ge=1)] = 1
    beam: Multiple = 0
    iterations: Multiple = 0
    iteration: Multiple = 0
    length: Length = ""
    against: int | None = None
    ids: Annotated[list[int], Field(max_length=10_000)] | None = None


class Ranking(Question):
    """What a head that is taken out gives instead."""

    instead: Text = "zero"


class Method(Question):
    """The method of an attribution."""

    method: Text


def make_app(translator: Translator) -> FastAPI:
    live = Live(translator)
    app = FastAPI(title="Manyheads", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(OwnPage, hosts=LOOPBACK)  # type: ignore[arg-type]
    app.add_middleware(BodyLimit, most=LARGEST)  # type: ignore[arg-type]
    app.add_middleware(Sealed)  # type: ignore[arg-type]
    add_refusals(app)

    for path, content, kind in (
        ("/", PAGE.format(example=escape(example_for(translator)), tells=" ".join(tells_of(translator))), "text/html"),
        ("/inspector.js", script("server.js") + START, "text/javascript"),
        ("/inspector.css", PAGE_STYLE + style(), "text/css"),
    ):
        app.add_api_route(path, lambda content=content, kind=kind: Response(content, media_type=kind))

    @app.post("/api/inspect")
    def ask(question: Ask) -> dict[str, Any]:
        off = [Head(one.kind, one.layer, one.head) for one in question.off]
        return live.inspect(**question.model_dump() | {"off": off})

    @app.get("/api/planes/{number}/{name:path}")
    def plane(number: int, name: str) -> Response:
        return Response(live.plane(number, name), media_type="application/octet-stream")

    @app.post("/api/importance/{number}")
    def importance(number: int, question: Ranking) -> list[dict[str, Any]]:
        return live.importance(number, question.instead)

    @app.post("/api/attribution/{number}")
    def attribution(number: int, question: Method) -> dict[str, Any]:
        return live.attribution(number, question.method)

    return app


def example_for(translator: Translator) -> str:
    return next((text for name, text in EXAMPLES.items() if translator.folder == bundled(name)), "")


def add_refusals(app: FastAPI) -> None:
    """Answer every refusal with one sentence, and a hint if there is one; none reveals paths on this machine."""

    @app.exception_handler(ManyheadsError)
    def refused(_: Request, error: ManyheadsError) -> JSONResponse:
        status = 503 if isinstance(error, BusyError) else 404 if isinstance(error, GoneError) else 400
        return JSONResponse({"error": error.message, "hint": error.hint}, status)

    @app.exception_handler(HTTPException)
    def not_there(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code)

    @app.exception_handler(RequestValidationError)
    def misunderstood(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return JSONResponse({"error": f"{place}: {first['msg']}"}, 400)
