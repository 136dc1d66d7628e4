"""Connections of psycopg's, for handlers that work in a transaction."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from turnabout.postgres._sync.joined import PostgresJoined
from turnabout.postgres.errors import translated
from turnabout.postgres.joined import Now
from turnabout.postgres.url import PostgresOptions, address
from turnabout.store import OnLoop
from turnabout.words.errors import Disconnected
from turnabout.words.urls import without_secrets
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

_Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
C = TypeVar("C", bound=_Connection)


class PostgresConnections:
    """See `turnabout.store.Connections`. Of one handler: all that it keeps are of one colour."""

    def __init__(
        self,
        options: PostgresOptions,
        clock: Now,
        own: Callable[[Verb[Any]], Coroutine[Any, Any, Any]],
        wake: Callable[[str, Change], Coroutine[Any, Any, None]],
    ) -> None:
        """`own` and `wake`: as `AsyncPostgresJoined` has them."""
        self._options = options
        self._clock = clock
        self._known: set[str] = set()
        self._own = own
        self._wake = wake
        self._idle: list[Any] = []
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> psycopg.Connection[Any]:
        """A connection of psycopg's."""
        if (kept := self._kept()) is not None:
            return kept
        with translated(self._options.url):
            return self._writable(psycopg.connect(self._address(), **self._prepares()))

    async def open_async(self) -> psycopg.AsyncConnection[Any]:
        """A connection of psycopg's for asyncio."""
        if (kept := self._kept()) is not None:
            return kept
        connect = psycopg.AsyncConnection[Any].connect
        with translated(self._options.url):
            return self._writable(await connect(self._address(), **self._prepares()))

    def transaction(self, connection: _Connection) -> Any:
        """A psycopg transaction in which the handler can neither commit nor roll back."""
        return connection.transaction()

    def put_back(self, connection: _Connection, *, keep: bool) -> None:
        """One that broke, or was left in a transaction, is closed in any case."""
        with self._lock:
            is_idle = connection.info.transaction_status == TransactionStatus.IDLE
            if keep and is_idle and not self._closed:
                self._idle.append(connection)
                return
        connection.pgconn.finish()

    def is_lost(self, connection: _Connection) -> bool:
        """Whether it broke."""
        return connection.broken

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            self._closed = True
        while (kept := self._kept()) is not None:
            kept.pgconn.finish()

    def sever(self, connection: _Connection) -> None:
        """Cancel what runs on it, and cut it: the server undoes its transaction."""
        with suppress(psycopg.Error, OSError):
            connection.cancel()
            with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                cut.shutdown(socket.SHUT_RDWR)

    def joined(self, connection: psycopg.Connection[Any], on_loop: OnLoop) -> PostgresJoined:
        """A blocking store on a connection."""
        own, wake = self._own, self._wake
        return PostgresJoined(
            connection,
            lambda verb: on_loop(own(verb)),
            lambda queue, change: on_loop(wake(queue, change)),
            self._clock,
            self._known,
        )

    def _kept(self) -> Any:
        """One on which the server has not hung up meanwhile: it would have something to say."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                kept = self._idle.pop()
            with selectors.DefaultSelector() as selector:
                selector.register(kept.fileno(), selectors.EVENT_READ)
                if not selector.select(0):
                    return kept
            kept.pgconn.finish()

    def _writable(self, connection: C) -> C:
        """The connection. As the server said when it began: a handler could write nothing in it."""
        setting = connection.info.parameter_status
        if "on" in (setting("in_hot_standby"), setting("default_transaction_read_only")):
            connection.pgconn.finish()
            raise Disconnected(
                f"{without_secrets(self._options.url)} is read-only, as a standby is, or a "
                "database or role with default_transaction_read_only"
            )
        return connection

    def _address(self) -> str:
        return address(self._options.conninfo, "turnabout worker")

    def _prepares(self) -> dict[str, Any]:
        return {} if self._options.prepare else {"prepare_threshold": None}
