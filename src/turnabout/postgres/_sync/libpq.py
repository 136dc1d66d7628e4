"""For blocking callers. Generated from `_async/libpq.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NoReturn

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from turnabout.adapters.psycopg import context
from turnabout.postgres.socket import Socket, connect
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


class LibpqConnection:
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

    def __init__(self, raw: psycopg.Connection[Any], options: PostgresOptions) -> None:
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
        self._socket = Socket(raw.fileno(), options.call_seconds)

    @classmethod
    def open(cls, options: PostgresOptions) -> LibpqConnection:
        """Open a connection. Raises: UsageError for a database that is not in UTF8."""
        made = cls(connect(options), options)
        try:
            check_encoding(made.raw.pgconn, options.url)
        except UsageError:
            made.close()
            raise
        return made

    def find_out(self) -> None:
        """Make the session's settings, where no pooler stands in between; and ask whether everyday
        statements may be used, and make theirs if so: this role may write to the tables.
        """
        if self._is_standby():
            return
        if self._pg.parameter_status(b"default_transaction_read_only") == b"on":
            self._reads_only = bool(self.run(READS_ONLY, (), prepare=False))
        process = (self._pg.backend_pid,)
        try:
            is_ours = self.run(OWN_SETTINGS, process, prepare=False)
            self.is_direct = bool(is_ours and self._prepare and self.run(SETTINGS, process))
        except psycopg.Error:
            if self.closed:
                raise

    @property
    def closed(self) -> bool:
        """Whether it was closed, or broke."""
        return self.raw.closed

    def run(
        self, sql: bytes, parameters: Sequence[Any], *, prepare: bool = True
    ) -> list[Any]:
        """The rows of one statement, in a transaction of its own.

        Raises: psycopg.Error, as psycopg's own cursors do.
        """
        values, formats = encoded(parameters)
        if self._prepare and prepare:
            result = self._run_prepared(sql, values, formats)
        else:
            self._pg.send_query_params(sql, values, None, formats, BINARY)
            result = self._result()
        self._reader.set_pgresult(result)
        return self._reader.load_rows(0, result.ntuples, tuple)

    def _run_prepared(
        self, sql: bytes, values: list[bytes | None], formats: list[int]
    ) -> pq.abc.PGresult:
        left = TRIES
        while True:
            name = self._names.get(sql) or self._prepared(sql)
            self._pg.send_query_prepared(name, values, formats, BINARY)
            try:
                return self._result()
            except psycopg.Error as error:
                left -= 1
                if error.sqlstate != FORGOTTEN or not left or not self._may_repeat():
                    raise
                del self._names[sql]

    def _prepared(self, sql: bytes) -> bytes:
        name = b"turnabout_" + hashlib.sha256(sql).hexdigest()[:24].encode()
        self._pg.send_prepare(name, sql)
        try:
            self._result()
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

    def close(self) -> None:
        """Hang up."""
        self.raw.close()

    def _result(self) -> pq.abc.PGresult:
        """The answer to what was sent; waits for it."""
        # What the server says before it has read everything is read, so that it goes on.
        while self._pg.flush():
            if not self._socket.readable(or_writable=True):
                self._give_up()
            self._pg.consume_input()
        result = None
        while True:
            while self._pg.is_busy():
                if not self._socket.readable():
                    self._give_up()
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
                self._leave()
            raise error
        return result

    def _give_up(self) -> NoReturn:
        seconds = self._socket.seconds
        self._leave()
        raise NoAnswer(f"the server said nothing for {seconds:g} seconds")

    def _leave(self) -> None:
        self.is_lost = True
        self.close()

    def _is_standby(self) -> bool:
        return self._pg.parameter_status(b"in_hot_standby") == b"on"
