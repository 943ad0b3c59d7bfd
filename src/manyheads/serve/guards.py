"""The guards between a browser and the model, each a layer around the application.

A page of some other site can make a browser send requests here. So a request must name this machine as its host, a
request for work must be JSON and come from our own page, and no other site may read, frame or run an answer.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders

__all__ = ["BodyLimit", "OwnPage", "Sealed"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SEAL = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Sealed:
    """Tells the browser, in the headers of every answer, what it may do with it."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SEAL)
            await send(message)

        await self.app(scope, receive, sealed)


class OwnPage:
    """Admits requests that name this machine as host; those for work must be JSON, and from our own page or no page."""

    def __init__(self, app: App, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        fault = self.fault(scope) if scope["type"] == "http" else None
        answer = JSONResponse({"error": fault}, 403) if fault else self.app
        await answer(scope, receive, send)

    def fault(self, scope: Message) -> str | None:
        headers = Headers(scope=scope)
        if name_of(f"//{headers.get('host', '')}") not in self.hosts:
            return f"the host must be one of {', '.join(self.hosts)}"
        if scope["method"] in ("GET", "HEAD"):
            return None
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return "the content type must be application/json"
        origin = headers.get("origin")
        if origin is not None and place_of(origin) != headers.get("host"):
            return "requests from other pages are refused"
        return None


def place_of(address: str) -> str | None:
    """The host:port of an address, as written; None if it is invalid or contains a user."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018  # raises, if it is none
    except ValueError:
        return None
    return None if "@" in parts.netloc else parts.netloc


def name_of(address: str) -> str | None:
    return urlsplit(address).hostname if place_of(address) else None


class BodyLimit:
    """Refuses requests larger than `most` bytes, whatever length they declare."""

    def __init__(self, app: App, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body, more = bytearray(), True
        while more and len(body) <= self.most:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if len(body) > self.most:
            return await JSONResponse({"error": f"a request must have at most {self.most:,} bytes"}, 413)(
                scope, receive, send
            )
        given = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def read() -> Message:
            return next(given, None) or await receive()

        return await self.app(scope, read, send)
