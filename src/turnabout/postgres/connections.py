"""Connections of psycopg's, for handlers that work in a transaction."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import psycopg

from turnabout.postgres._sync.joined import PostgresJoined
from turnabout.postgres.errors import translated
from turnabout.postgres.joined import Now
from turnabout.postgres.url import PostgresOptions, address
from turnabout.words.errors import Disconnected
from turnabout.words.urls import without_secrets
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
            connection = psycopg.connect(self._address(), **self._prepares())
        if _is_read_only(connection):
            connection.close()
            raise self._read_only()
        return connection

    async def open_async(self) -> psycopg.AsyncConnection[Any]:
        """A connection of psycopg's for asyncio."""
        with translated(self._options.url):
            connection = await psycopg.AsyncConnection.connect(self._address(), **self._prepares())
        if _is_read_only(connection):
            await connection.close()
            raise self._read_only()
        return connection

    def sever(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        """Cancel what runs on it, and cut it: the server undoes its transaction."""
        with suppress(psycopg.Error, OSError):
            connection.cancel()
            with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                cut.shutdown(socket.SHUT_RDWR)

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> PostgresJoined:
        """A blocking store on a connection; `run` carries out a verb beside it."""
        return PostgresJoined(connection, run, lambda _: None, self._clock, self._known)

    def _read_only(self) -> Disconnected:
        return Disconnected(f"{without_secrets(self._options.url)} is read-only, as a standby is")

    def _address(self) -> str:
        return address(self._options.conninfo, "turnabout worker")

    def _prepares(self) -> dict[str, Any]:
        return {} if self._options.prepare else {"prepare_threshold": None}


def _is_read_only(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """As the server said when the connection began; a handler could write nothing in it."""
    said = connection.info.parameter_status
    return "on" in (said("in_hot_standby"), said("default_transaction_read_only"))
