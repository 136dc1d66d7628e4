"""The ASGI app: the doors over one store. Whoever opened the store closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from turnabout.server.auth.authenticator import Gate
from turnabout.server.batching.batcher import together
from turnabout.server.batching.bounded_receive import Portions
from turnabout.server.batching.long_poll import Parking
from turnabout.server.context import Background, Crowd, House
from turnabout.server.counts import Counted, Counts
from turnabout.server.http.access_log import Seen
from turnabout.server.http.fast_path import App, Layer
from turnabout.server.http.request_guard import Shield
from turnabout.server.options import ServerOptions
from turnabout.store import AsyncStore
from turnabout.wire.errors import error_body, plain_error, retry_after
from turnabout.words.errors import TurnaboutError, Unauthorized

Door = Callable[[House], Sequence[BaseRoute]]
"""A door is a function that gives its routes."""

DOORS = (
    "turnabout.server.api.native",
    "turnabout.server.api.health",
    "turnabout.server.api.metrics",
    "turnabout.server.compat.hq",
    "turnabout.server.compat.toxmq",
    "turnabout.server.dashboard",
)
"""Modules with a door named `routes`; the busiest first, as a route is looked for in this order.
By name: some stand above the server, which knows nothing of them but that they are there.
"""
AGAIN_SECONDS = 1.0
"""After background work failed."""

log = logging.getLogger("turnabout.server")


def create_app(store: AsyncStore, options: ServerOptions | None = None) -> FastAPI:
    """The app over that store; `app.state.house` is its house.

    Any ASGI server can run it. `turnabout serve` adds deadlines for connections and the way to
    close in good order.
    """
    options = options or ServerOptions()
    counts = Counts()
    merged = Counted(together(Portions(store, options.max_payload_bytes)), counts)
    gate = Gate()
    crowd = Crowd(options)
    parking = Parking(merged, crowd)
    callers = _traced(merged) if options.tracing else merged
    house = House(store, options, callers, parking, gate, crowd, counts=counts)
    gate.house = house
    house.on_close.append(parking.close)
    house.background.append(parking.housekeeping.run)
    app = App(
        title="Turnabout",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _working(house),
        # Its own spans would have query strings in them; ours are in `spans`.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.house = house
    for name in DOORS:
        door: Door = import_module(name).routes
        app.router.routes.extend(door(house))
    app.add_exception_handler(TurnaboutError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_no_route)
    layers: list[Layer] = [lambda inner: Shield(inner, house)]
    if options.tracing:
        from turnabout.server.http.spans import Spanned

        layers.append(Spanned)
    layers.append(lambda inner: Seen(inner, house))  # the last one is the outermost
    for layer in layers:
        app.add_middleware(layer)
    app.shorten(layers, _answer_error)
    return app


def _traced(store: AsyncStore) -> AsyncStore:
    """Messages of clients that send no trace context get that of their request."""
    from turnabout.tracing import AsyncTracedStore, SpansOnBehalf

    return AsyncTracedStore(store, SpansOnBehalf(parent=False))


# --- background ----------------------------------------------------------------------------------


@asynccontextmanager
async def _working(house: House) -> AsyncGenerator[None]:
    """Do the house's work beside the requests, and stop it in the end."""
    tasks = [asyncio.create_task(_keep_doing(work)) for work in house.background]
    try:
        yield
    finally:
        house.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_doing(work: Background) -> None:
    while True:
        try:
            await work()
        except Exception:  # it's beside the requests, which go on
            log.exception("work in the background failed, and begins again")
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


# --- errors --------------------------------------------------------------------------------------


async def _answer_error(request: Request, error: Exception) -> Response:
    """What a door let through."""
    status, body = error_body(error)
    if status == 500:  # a bug, of which the client is told nothing
        about = {"request_id": getattr(request.state, "request_id", "")}
        log.error("a request failed", exc_info=error, extra=about)
    headers: dict[str, str] = {}
    if (seconds := retry_after(error)) is not None:
        headers["retry-after"] = seconds
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(body, status, headers, "application/json")


async def _answer_no_route(request: Request, error: Exception) -> Response:
    """No such path, or not by that method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        code = "no_such_method"
        there = sorted((error.headers or {}).get("Allow", "").split(", "))
        message = f"{request.method[:20]} does nothing here: use {' or '.join(there)}"
    elif error.status_code == 404:
        code, message = "no_such_path", "there is nothing here: GET /v1 tells what there is"
    else:
        code, message = "usage", "the request cannot be read"
    _, body = plain_error(code, message)
    return Response(body, error.status_code, error.headers, "application/json")
