"""Serves the dashboard's files: one page, which speaks `/v1` like anybody.

The files are the same for all and hold no data, so they need no token; what they show does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from turnabout.server.context import ServerContext

PLACE = "/dashboard/"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}
"""Nothing from elsewhere, nothing inline, in nobody's frame; asked anew after an upgrade."""

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _StaticFile:
    body: bytes
    kind: str
    etag: str


def routes(context: ServerContext) -> Sequence[BaseRoute]:
    """The page's routes; none where the server's option `dashboard` is off."""
    if not context.options.dashboard:
        return []
    known = _read()

    async def page(request: Request) -> Response:
        return _answer(request, known["index.html"])

    async def file(request: Request) -> Response:
        found = known.get(request.path_params["file"])
        return Response("no such file", 404) if found is None else _answer(request, found)

    async def lead(_: Request) -> Response:
        return RedirectResponse(PLACE, 307, headers={"Cache-Control": "no-cache"})

    return [
        Route("/", lead, methods=["GET"]),
        Route("/dashboard", lead, methods=["GET"]),
        Route(PLACE, page, methods=["GET"]),
        Route(PLACE + "{file}", file, methods=["GET"]),
    ]


def _read() -> dict[str, _StaticFile]:
    """All files, read once; a name that is not among them is nothing."""
    found: dict[str, _StaticFile] = {}
    for entry in files("turnabout.dashboard").joinpath("static").iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = _StaticFile(
                body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            )
    return found


def _answer(request: Request, found: _StaticFile) -> Response:
    headers = {**HEADERS, "ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, 200, headers, found.kind)
