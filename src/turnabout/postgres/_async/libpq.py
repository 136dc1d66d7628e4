"""One connection of a store: in autocommit, and driven through libpq directly.

psycopg makes the connection, and its loaders read the answers; but its cursors do much for each
call that ours never need (conversions by type, transactions, server-side cursors), and that is most
of a small call's time in the client. Here a call is one prepared statement, its parameters written
straight into the protocol's forms, and a wait that Ctrl-C or a cancellation can end (decision 21).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from turnabout.adapters.psycopg import context
from turnabout.postgres.async_socket import AsyncSocket, connect_async
from turnabout.postgres.errors import (
    READ_ONLY,
    NoAnswer,
    RoleReadsOnly,
    check_encoding,
    leads_to_a_standby,
)
from turnabout.postgres.everyday import OWN_SETTINGS, READS_ONLY, SETTINGS
from turnabout.postgres.parameters import BINARY, encoded
from turnabout.postgres.url import PostgresOptions
from turnabout.words.errors import UsageError

_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)

PREPARED_ALREADY = "42P05"
FORGOTTEN = "26000"
TRIES = 5
"""Attempts to prepare a statement for one call, where a pooler hands calls to other servers."""


class AsyncConnection:
    """See the module. Not for two callers at once: the pool lends it to one.

    Prepared statements are named by a digest of their text: behind a pooler, one of that name that
    somebody else has prepared is the same one.
    """

    __slots__ = (
        "_names",
        "_pg",
        "_prepare",
        "_reader",
        "_reads_only",
        "_socket",
        "is_direct",
        "is_lost",
        "raw",
    )

    def __init__(self, raw: psycopg.AsyncConnection[Any], options: PostgresOptions) -> None:
        self.raw = raw
        self.is_direct = False
        """Everyday statements may be used: see `find_out`."""
        self.is_lost = False
        """True if its server was silent or read-only, as other connections' may be."""
        self._reads_only = False
        """Whether the connection's role may only read."""
        self._pg = raw.pgconn
        self._reader = Transformer(context(raw))
        self._prepare = options.prepare
        self._names: dict[bytes, bytes] = {}
        self._socket = AsyncSocket(raw.fileno(), options.call_seconds)

    @classmethod
    async def open(cls, options: PostgresOptions) -> AsyncConnection:
        """Open a connection. Raises: UsageError for a database that is not in UTF8."""
        made = cls(await connect_async(options), options)
        try:
            check_encoding(made.raw.pgconn, options.url)
        except UsageError:
            await made.close()
            raise
        return made

    async def find_out(self) -> None:
        """Make the session's settings, where no pooler stands in between; and ask whether everyday
        statements may be used, and make theirs if so: this role may write to the tables.
        """
        if self._is_standby():
            return
        if self._pg.parameter_status(b"default_transaction_read_only") == b"on":
            self._reads_only = bool(await self.run(READS_ONLY, (), prepare=False))
        process = (self._pg.backend_pid,)
        try:
            is_ours = await self.run(OWN_SETTINGS, process, prepare=False)
            self.is_direct = bool(is_ours and self._prepare and await self.run(SETTINGS, process))
        except psycopg.Error:
            if self.closed:
                raise

    @property
    def closed(self) -> bool:
        """Whether it was closed, or broke."""
        return self.raw.closed

    async def run(
        self, sql: bytes, parameters: Sequence[Any], *, prepare: bool = True
    ) -> list[Any]:
        """The rows of one statement, in a transaction of its own.

        Raises: psycopg.Error, as psycopg's own cursors do.
        """
        values, formats = encoded(parameters)
        if self._prepare and prepare:
            result = await self._run_prepared(sql, values, formats)
        else:
            self._pg.send_query_params(sql, values, None, formats, BINARY)
            result = await self._result()
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    async def _run_prepared(
        self, sql: bytes, values: list[bytes | None], formats: list[int]
    ) -> pq.abc.PGresult:
        left = TRIES
        while True:
            name = self._names.get(sql) or await self._prepared(sql)
            self._pg.send_query_prepared(name, values, formats, BINARY)
            try:
                return await self._result()
            except psycopg.Error as error:
                left -= 1
                if error.sqlstate != FORGOTTEN or not left or not self._may_repeat():
                    raise
                del self._names[sql]

    async def _prepared(self, sql: bytes) -> bytes:
        name = b"turnabout_" + hashlib.sha256(sql).hexdigest()[:24].encode()
        self._pg.send_prepare(name, sql)
        try:
            await self._result()
        except psycopg.Error as error:
            if error.sqlstate != PREPARED_ALREADY or not self._may_repeat():
                raise
        self._names[sql] = name
        return name

    def _may_repeat(self) -> bool:
        """Nothing happened, and no transaction is open that the error has spoiled."""
        return self._pg.transaction_status == pq.TransactionStatus.IDLE

    def is_fresh(self) -> bool:
        """False if the server has hung up meanwhile: an idle connection has nothing to say."""
        return not self.raw.closed and not self._socket.has_input()

    async def close(self) -> None:
        """Hang up."""
        await self.raw.close()

    async def _result(self) -> pq.abc.PGresult:
        """The answer to what was sent; waits for it."""
        # What the server says before it has read everything is read, so that it goes on.
        while self._pg.flush():
            if not await self._socket.readable(or_writable=True):
                await self._give_up()
            self._pg.consume_input()
        result = None
        while True:
            while self._pg.is_busy():
                if not await self._socket.readable():
                    await self._give_up()
                self._pg.consume_input()
            following = self._pg.get_result()
            if following is None:
                break
            result = following if result is None or result.status in _GOOD else result
        if result is None:
            raise psycopg.OperationalError("the server closed the connection without an answer")
        if result.status not in _GOOD:
            error = error_from_result(result)
            if self._reads_only and error.sqlstate == READ_ONLY:
                raise RoleReadsOnly(error.diag.message_primary or "") from error
            if leads_to_a_standby(error):
                await self._leave()
            raise error
        return result

    async def _give_up(self) -> NoReturn:
        seconds = self._socket.seconds
        await self._leave()
        raise NoAnswer(f"the server said nothing for {seconds:g} seconds")

    async def _leave(self) -> None:
        self.is_lost = True
        await self.close()

    def _is_standby(self) -> bool:
        return self._pg.parameter_status(b"in_hot_standby") == b"on"
