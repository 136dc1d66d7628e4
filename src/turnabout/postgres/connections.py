"""Connections of psycopg's, for handlers that work in a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from turnabout.postgres._sync.joined import PostgresJoined
from turnabout.postgres.errors import translated
from turnabout.postgres.joined import Now
from turnabout.postgres.url import PostgresOptions
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb


class PostgresConnections:
    """See `turnabout.store.Connections`."""

    receives = True

    def __init__(
        self, options: PostgresOptions, clock: Now, wake: Callable[[str, Change], Awaitable[None]]
    ) -> None:
        self._options = options
        self._clock = clock
        self._known: set[str] = set()
        self._wake = wake

    async def wake(self, queue: str, change: Change = Change.ANY, /) -> None:
        """See `turnabout.store.Connections`."""
        await self._wake(queue, change)

    def open(self) -> psycopg.Connection[Any]:
        """A connection of psycopg's."""
        with translated(self._options.url):
            return psycopg.connect(self._options.conninfo, **self._prepares())

    async def open_async(self) -> psycopg.AsyncConnection[Any]:
        """A connection of psycopg's for asyncio."""
        with translated(self._options.url):
            return await psycopg.AsyncConnection.connect(self._options.conninfo, **self._prepares())

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> PostgresJoined:
        """A blocking store on a connection; `run` carries out a verb beside it."""
        return PostgresJoined(connection, run, lambda _: None, self._clock, self._known)

    def _prepares(self) -> dict[str, Any]:
        return {} if self._options.prepare else {"prepare_threshold": None}
