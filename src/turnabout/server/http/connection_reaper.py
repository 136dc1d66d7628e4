"""The connections of a server: one timer ends those whose time is over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from email.utils import formatdate
from typing import Any, Protocol

from starlette.types import ASGIApp

from turnabout.server.counts import ServerCounts
from turnabout.server.options import ServerOptions
from turnabout.server.tenants.shares import Shares

STARTS = 4
"""Requests that begin in one round of the loop: a millisecond's work."""


class WatchedConnection(Protocol):
    """A connection, as far as its end is concerned."""

    transport: asyncio.Transport
    deadline: float
    write_deadline: float

    def overdue(self, now: float) -> None:
        """The time for something is over: say so where that makes sense, and end it."""

    def shutdown(self) -> None:
        """The server closes: after the present answer, or now."""


class ConnectionReaper:
    """The connections of a server, its running requests, and the state that they share."""

    def __init__(self, app: ASGIApp, options: ServerOptions, counts: ServerCounts) -> None:
        self.app = app
        self.options = options
        self.counts = counts
        self.connections: set[WatchedConnection] = set()
        self.places = Shares(options.max_connections)
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that the app has."""
        self._begun = 0
        """Requests that have begun in this round of the loop."""
        self._waiting: dict[str, deque[Coroutine[Any, Any, None]]] = {}
        """Requests that begin in the next rounds of the loop, by holder, in turn."""
        self.date_line = _date_line()
        """The header `date` of the answers, renewed with each look."""
        shortest = min(
            options.head_seconds,
            options.body_idle_seconds,
            options.body_seconds,
            options.idle_seconds,
            options.write_seconds,
        )
        self._every = min(0.5, shortest / 4)
        self._timer: asyncio.TimerHandle | None = None

    def start(self, holder: str, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request in a task of its own. Few begin in one round of the loop, of all holders
        in turn, so that one holder's requests do not keep the loop from others.
        """
        if self._begun < STARTS:
            self._begin(work)
        else:
            self._waiting.setdefault(holder, deque()).append(work)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next_round)
        self._begun += 1
        task = loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _next_round(self) -> None:
        self._begun = 0
        waiting = self._waiting
        while waiting and self._begun < STARTS:
            holder = next(iter(waiting))
            line = waiting.pop(holder)
            self._begin(line.popleft())
            if line:
                waiting[holder] = line  # behind the others

    def look(self) -> None:
        """End overdue connections, now and periodically, in the running loop."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.date_line = _date_line()
        for connection in list(self.connections):
            if now >= connection.deadline or now >= connection.write_deadline:
                connection.overdue(now)
        self._timer = loop.call_later(self._every, self.look)

    def stop(self) -> None:
        """Stop looking, and end all remaining connections and requests."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.transport.abort()


def _date_line() -> bytes:
    return b"date: %s\r\n" % formatdate(usegmt=True).encode()
