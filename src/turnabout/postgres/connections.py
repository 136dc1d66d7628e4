"""Connections of psycopg's, for handlers that work in a transaction."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from turnabout.postgres._sync.joined import PostgresJoined
from turnabout.postgres.errors import translated
from turnabout.postgres.joined import Now
from turnabout.postgres.url import PostgresOptions, address
from turnabout.words.errors import Disconnected
from turnabout.words.urls import without_secrets
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

_Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


class PostgresConnections:
    """See `turnabout.store.Connections`. Of one handler: all that it keeps are of one colour."""

    def __init__(
        self, options: PostgresOptions, clock: Now, wake: Callable[[str, Change], Awaitable[None]]
    ) -> None:
        self._options = options
        self._clock = clock
        self._known: set[str] = set()
        self._wake = wake
        self._idle: list[Any] = []
        self._closed = False
        self._lock = threading.Lock()

    async def wake(self, queue: str, change: Change = Change.ANY, /) -> None:
        """See `turnabout.store.Connections`."""
        await self._wake(queue, change)

    def open(self) -> psycopg.Connection[Any]:
        """A connection of psycopg's."""
        while (kept := self._kept()) is not None:
            if _is_fresh(kept):
                return kept
            kept.close()
        with translated(self._options.url):
            connection = psycopg.connect(self._address(), **self._prepares())
        if _is_read_only(connection):
            connection.close()
            raise self._read_only()
        return connection

    async def open_async(self) -> psycopg.AsyncConnection[Any]:
        """A connection of psycopg's for asyncio."""
        while (kept := self._kept()) is not None:
            if _is_fresh(kept):
                return kept
            await kept.close()
        with translated(self._options.url):
            connection = await psycopg.AsyncConnection.connect(self._address(), **self._prepares())
        if _is_read_only(connection):
            await connection.close()
            raise self._read_only()
        return connection

    def transaction(self, connection: _Connection) -> Any:
        """That of psycopg's, in which a handler can neither commit nor roll back by itself."""
        return connection.transaction()

    def put_back(self, connection: psycopg.Connection[Any], *, keep: bool) -> None:
        """One that broke, or was left in a transaction, is closed in any case."""
        if not (keep and self._keeps(connection)):
            connection.close()

    async def put_back_async(self, connection: psycopg.AsyncConnection[Any], *, keep: bool) -> None:
        """The same for asyncio."""
        if not (keep and self._keeps(connection)):
            await connection.close()

    def is_lost(self, connection: _Connection) -> bool:
        """Whether it broke."""
        return connection.broken

    async def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            self._closed, kept, self._idle = True, self._idle, []
        for connection in kept:
            if (closing := connection.close()) is not None:
                await closing

    def sever(self, connection: _Connection) -> None:
        """Cancel what runs on it, and cut it: the server undoes its transaction."""
        with suppress(psycopg.Error, OSError):
            connection.cancel()
            with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                cut.shutdown(socket.SHUT_RDWR)

    def joined(self, connection: object, run: Callable[[Verb[Any]], Any]) -> PostgresJoined:
        """A blocking store on a connection; `run` carries out a verb beside it."""
        return PostgresJoined(connection, run, lambda _: None, self._clock, self._known)

    def _kept(self) -> Any:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keeps(self, connection: _Connection) -> bool:
        with self._lock:
            if self._closed or connection.info.transaction_status != TransactionStatus.IDLE:
                return False
            self._idle.append(connection)
            return True

    def _read_only(self) -> Disconnected:
        return Disconnected(
            f"{without_secrets(self._options.url)} is read-only, as a standby is, or a database or "
            "role with default_transaction_read_only"
        )

    def _address(self) -> str:
        return address(self._options.conninfo, "turnabout worker")

    def _prepares(self) -> dict[str, Any]:
        return {} if self._options.prepare else {"prepare_threshold": None}


def _is_fresh(connection: _Connection) -> bool:
    """False if the server has hung up meanwhile: an idle connection has nothing to say."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)


def _is_read_only(connection: _Connection) -> bool:
    """As the server said when the connection began; a handler could write nothing in it."""
    said = connection.info.parameter_status
    return "on" in (said("in_hot_standby"), said("default_transaction_read_only"))
