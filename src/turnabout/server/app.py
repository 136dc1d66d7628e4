"""The ASGI app: layers, router and APIs over one store, which its opener closes."""

from __future__ import annotations

import logging

from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from turnabout import slices
from turnabout._connect import tracing_slice
from turnabout.server.api import health, metrics, native
from turnabout.server.auth.authenticator import Authenticator
from turnabout.server.batching.batching_store import BatchingStore
from turnabout.server.batching.bounded_answers import BoundedAnswers
from turnabout.server.batching.long_poll import LongPoll
from turnabout.server.context import ServerContext
from turnabout.server.counts import CountingStore, ServerCounts, template
from turnabout.server.http.access_log import AccessLog, shown_path
from turnabout.server.http.forwarded import Forwarded
from turnabout.server.http.request_guard import RequestGuard
from turnabout.server.lifecycle import Lifecycle
from turnabout.server.options import ServerOptions
from turnabout.server.tenants.admission import Admission
from turnabout.store import AsyncStore
from turnabout.wire.errors import error_body, plain_error, retry_after
from turnabout.words.errors import TurnaboutError, Unauthorized

APIS = (native, health, metrics)
"""The busiest first, as a route is looked for in this order; then those of slices. A slice with few
routes and many requests says so (`IS_BUSY`), and comes before all.
"""

log = logging.getLogger("turnabout.server")


class ServerApp:
    """The ASGI app: our layers around Starlette's router.

    Not Starlette's own app, whose layers for errors cost a request as much as ours do together.
    """

    def __init__(self, router: Router, context: ServerContext) -> None:
        self.router = router
        self.state = State({"context": context})
        options, counts = context.options, context.counts
        app: ASGIApp = Errors(router)
        app = RequestGuard(app, options, context.admission, context.lifecycle, counts)
        if options.tracing:
            of_requests = tracing_slice().SpansOnBehalf.of_requests
            app = of_requests(app, template=template, shown=shown_path)
        app = AccessLog(app, counts, logs_all=options.access_log)
        proxies = options.trusted_proxies
        self._outermost: ASGIApp = Forwarded(app, proxies) if proxies else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self
        await self._outermost(scope, receive, send)


def create_app(
    store: AsyncStore, options: ServerOptions | None = None, url: str | None = None
) -> ServerApp:
    """The app over that store; `app.state.context` is its context.

    `url`: the database's, for what the dashboard's doctor looks at.
    Any ASGI server can run it. `turnabout serve` adds deadlines for connections and the way to
    close in good order.
    """
    options = options or ServerOptions()
    counts, lifecycle = ServerCounts(), Lifecycle()
    authenticator = Authenticator(store, options)
    admission = Admission(options, authenticator.quotas.weight, counts.refused)
    bounded = BoundedAnswers(store, admission.answers, options.max_payload_bytes)
    merged = CountingStore(BatchingStore(bounded), counts)
    long_poll = LongPoll(merged, admission)
    lifecycle.on_close.append(long_poll.close)
    long_poll.maintenance.usage_of = authenticator.quotas.usage_now
    lifecycle.background += [long_poll.maintenance.run, long_poll.maintenance.run_redrives]
    context = ServerContext(
        store,
        tracing_slice().SpansOnBehalf().traced_async(merged) if options.tracing else merged,
        long_poll,
        authenticator,
        lifecycle,
        admission,
        options,
        counts,
        url,
    )
    routes: list[BaseRoute] = []
    apis = [*APIS, *slices.modules("routes")]
    for api in sorted(apis, key=lambda one: not getattr(one, "IS_BUSY", False)):
        routes.extend(api.routes(context))
    router = Router(routes, redirect_slashes=False, lifespan=lambda _: lifecycle.working())
    return ServerApp(router, context)


# --- errors --------------------------------------------------------------------------------------


class Errors:
    """The innermost layer: exceptions become answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer its errors; the start of an answer cannot be taken back."""
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
    """The answer to an error that an API let through."""
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
