"""What a blocking store has by itself: its connections, and how long it waits for a condition.

A connection is in autocommit, and spoken to in libpq's own terms.

psycopg makes the connection, and its loaders read the answers; but its cursors do much for each
call that ours never need (conversions by type, transactions, server-side cursors), and that is most
of a small call's time in the client. Here a call is one prepared statement, its parameters written
straight into the protocol's forms, and a wait that Ctrl-C can end (decision 21). The same for
asyncio is `async_connection`; all else is written once, in `_async`.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from turnabout.postgres.arrays import binary, literal
from turnabout.postgres.url import PostgresOptions

_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_TEXT, _BINARY = 0, 1


class LibpqConnection:
    """See the module. Not for two threads at once: the pool lends it to one."""

    __slots__ = ("_names", "_pg", "_poll", "_prepare", "_reader", "raw")

    def __init__(self, options: PostgresOptions) -> None:
        self.raw = psycopg.connect(options.conninfo, autocommit=True)
        self._pg = self.raw.pgconn
        self._reader = Transformer(self.raw)
        self._prepare = options.prepare
        self._names: dict[bytes, bytes] = {}
        self._poll = select.poll()
        self._poll.register(self.raw.fileno(), select.POLLIN)

    @classmethod
    def open(cls, options: PostgresOptions) -> LibpqConnection:
        """A new one."""
        return cls(options)

    @property
    def closed(self) -> bool:
        """Whether it was closed, or broke."""
        return self.raw.closed

    def run(self, sql: bytes, parameters: Sequence[Any]) -> list[Any]:
        """The rows of one statement, in a transaction of its own.

        Raises: psycopg.Error, as psycopg's own cursors do.
        """
        values, formats = _encoded(parameters)
        if self._prepare:
            name = self._names.get(sql) or self._prepared(sql)
            self._pg.send_query_prepared(name, values, formats, _BINARY)
        else:
            self._pg.send_query_params(sql, values, None, formats, _BINARY)
        result = self._result()
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def is_fresh(self) -> bool:
        """False if the server has hung up meanwhile: an idle connection has nothing to say."""
        return not self.raw.closed and not self._poll.poll(0)

    def close(self) -> None:
        """Hang up."""
        self.raw.close()

    def _prepared(self, sql: bytes) -> bytes:
        name = b"turnabout_%d" % len(self._names)
        self._pg.send_prepare(name, sql)
        self._result()
        self._names[sql] = name
        return name

    def _result(self) -> pq.abc.PGresult:
        """The answer to what was sent; waits for it."""
        if self._pg.flush():
            self._flush()
        result = None
        while True:
            while self._pg.is_busy():
                self._poll.poll()
                self._pg.consume_input()
            following = self._pg.get_result()
            if following is None:
                break
            result = following if result is None or result.status in _GOOD else result
        if result is None:
            raise psycopg.OperationalError("the server closed the connection without an answer")
        if result.status not in _GOOD:
            raise error_from_result(result)
        return result

    def _flush(self) -> None:
        """Wait for room to write. What the server says meanwhile is read, so that it goes on."""
        file = self.raw.fileno()
        self._poll.modify(file, select.POLLIN | select.POLLOUT)
        try:
            while self._pg.flush():
                self._poll.poll()
                self._pg.consume_input()
        finally:
            self._poll.modify(file, select.POLLIN)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    return bool(condition.wait_for(predicate, seconds))


def _encoded(parameters: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Parameters as the protocol carries them; the statement's casts give their types."""
    values: list[bytes | None] = []
    formats: list[int] = []
    for parameter in parameters:
        is_binary = False
        match parameter:
            case None:
                value = None
            case str():
                value = parameter.encode()
            case bool():
                value = b"t" if parameter else b"f"
            case int():
                value = b"%d" % parameter
            case bytes():
                value, is_binary = parameter, True
            case _:
                items: Sequence[Any] = parameter
                is_binary = any(isinstance(item, bytes) for item in items)
                value = binary(items) if is_binary else literal(items)
        values.append(value)
        formats.append(_BINARY if is_binary else _TEXT)
    return values, formats
