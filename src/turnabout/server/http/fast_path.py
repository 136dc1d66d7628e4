"""The way of the busiest requests: from the connection through our own layers to their door.

What FastAPI and Starlette put around a route (telemetry, limits and error pages of theirs, a search
through all routes) costs more than a send does. The requests that move messages do without it; all
others, and these by any other method or path, go the long way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from turnabout.words.errors import TurnaboutError

PREFIX = "/v1/queues/"
HOT = frozenset({"messages", "send", "receive", "ack", "extend", "release", "defer", "fail"})
"""What follows the queue's name in the paths of busy routes."""
_PLACE = "turnabout.place"
"""In a scope: the endpoint that the request comes to, if the layers around it let it pass."""

Layer = Callable[[ASGIApp], ASGIApp]
Answer = Callable[[Request, Exception], Awaitable[Response]]


class App(FastAPI):
    """FastAPI's app, with a way around it for requests that move messages."""

    _short: ASGIApp | None = None
    _hot: dict[str, Any]

    def shorten(self, layers: Sequence[Layer], answer_error: Answer) -> None:
        """Begin to use the short way, for the routes that there are now.

        layers:       what is around every request, the innermost first.
        answer_error: what a TurnaboutError becomes.
        """
        self._hot = {
            route.path.rpartition("/")[2]: route.endpoint
            for route in self.router.routes
            if isinstance(route, Route) and route.path.removeprefix(f"{PREFIX}{{queue}}/") in HOT
        }

        async def door(scope: Scope, receive: Receive, send: Send) -> None:
            place = scope["endpoint"] = scope[_PLACE]
            try:
                await place(scope, receive, send)
            except TurnaboutError as error:
                response = await answer_error(Request(scope), error)
                await response(scope, receive, send)

        short: ASGIApp = door
        for layer in layers:
            short = layer(short)
        self._short = short

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if (
            self._short is not None
            and scope["type"] == "http"
            and scope["method"] == "POST"
            and scope["path"].startswith(PREFIX)
            and not scope.get("root_path")
        ):
            queue, _, what = scope["path"][len(PREFIX) :].partition("/")
            place = self._hot.get(what)
            if place is not None and queue:
                scope["app"] = self
                scope[_PLACE] = place
                scope["path_params"] = {"queue": queue}
                await self._short(scope, receive, send)
                return
        await super().__call__(scope, receive, send)
