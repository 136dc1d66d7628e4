"""The ASGI app: the doors over one store. Whoever opened the store closes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module

from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from turnabout.server.auth.authenticator import Gate
from turnabout.server.batching.batcher import together
from turnabout.server.batching.bounded_receive import Portions
from turnabout.server.batching.long_poll import Parking
from turnabout.server.context import Background, Crowd, House
from turnabout.server.counts import Counted, Counts
from turnabout.server.http.access_log import Seen
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

FORCED_SECONDS = 2.0
"""For background work to end when the server does."""

log = logging.getLogger("turnabout.server")


class App:
    """The ASGI app: our layers around Starlette's router.

    Not Starlette's own app, whose layers for errors cost a request as much as ours do together.
    """

    def __init__(self, router: Router, house: House) -> None:
        self.router = router
        self.state = State({"house": house})
        app: ASGIApp = Errors(router)
        app = Shield(app, house)
        if house.options.tracing:
            from turnabout.server.http.spans import Spanned

            app = Spanned(app)
        self._outermost = Seen(app, house)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self
        await self._outermost(scope, receive, send)


def create_app(store: AsyncStore, options: ServerOptions | None = None) -> App:
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
    routes: list[BaseRoute] = []
    for name in DOORS:
        door: Door = import_module(name).routes
        routes.extend(door(house))
    router = Router(routes, redirect_slashes=False, lifespan=lambda _: working(house))
    return App(router, house)


def _traced(store: AsyncStore) -> AsyncStore:
    """Messages of clients that send no trace context get that of their request."""
    from turnabout.tracing import AsyncTracedStore, SpansOnBehalf

    return AsyncTracedStore(store, SpansOnBehalf(parent=False))


# --- background ----------------------------------------------------------------------------------


@asynccontextmanager
async def working(house: House) -> AsyncGenerator[None]:
    """Do the house's work beside the requests, and stop it in the end."""
    tasks = [asyncio.create_task(_keep_doing(work)) for work in house.background]
    try:
        yield
    finally:
        house.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=FORCED_SECONDS)


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


class Errors:
    """The innermost layer: exceptions become answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. What an answer has begun with cannot be taken back."""
        try:
            await self.app(scope, receive, send)
        except TurnaboutError as error:
            response = _answer_error(scope, error)
        except HTTPException as error:
            response = _answer_no_route(scope, error)
        else:
            return
        await response(scope, receive, send)


def _answer_error(scope: Scope, error: Exception) -> Response:
    """What a door let through."""
    status, body = error_body(error)
    if status == 500:  # a bug, of which the client is told nothing
        about = {"request_id": scope["state"].get("request_id", "")}
        log.error("a request failed", exc_info=error, extra=about)
    headers: dict[str, str] = {}
    if (seconds := retry_after(error)) is not None:
        headers["retry-after"] = seconds
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return Response(body, status, headers, "application/json")


def _answer_no_route(scope: Scope, error: HTTPException) -> Response:
    """No such path, or not by that method."""
    if error.status_code == 405:
        code = "no_such_method"
        there = sorted((error.headers or {}).get("Allow", "").split(", "))
        message = f"{scope['method'][:20]} does nothing here: use {' or '.join(there)}"
    elif error.status_code == 404:
        code, message = "no_such_path", "there is nothing here: GET /v1 tells what there is"
    else:
        code, message = "usage", "the request cannot be read"
    _, body = plain_error(code, message)
    return Response(body, error.status_code, error.headers, "application/json")
