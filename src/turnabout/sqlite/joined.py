"""Verbs on the caller's own SQLite connection, in its transaction.

The same procedures run there, each in a savepoint, so that one that fails leaves nothing behind.
The connection keeps its settings: ours are on cursors of our own.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from turnabout.adapters import AsyncSqliteClient, SqliteClient, adapted, adapted_async
from turnabout.adapters.joined import ANOTHER_STORE, OPEN_ONE, check_joins
from turnabout.sqlite._connection import SQLITE_SAFE, Connection
from turnabout.sqlite._engine import Engine
from turnabout.sqlite._errors import our_errors, translated
from turnabout.sqlite._moving import target_of
from turnabout.sqlite._url import Place
from turnabout.store import AsyncJoined, Joined, OnLoop
from turnabout.words.errors import Busy, UsageError
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb

A = TypeVar("A")


class SqliteJoined(Joined):
    """Verbs on the caller's blocking connection."""

    def __init__(self, engine: Callable[[], Engine], connection: object) -> None:
        client = adapted(connection)
        if not hasattr(client, "run"):
            raise UsageError(ANOTHER_STORE.format("PostgreSQL", "SQLite"))
        self._client = cast("SqliteClient", client)
        self._engine = engine

    def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in the caller's transaction."""
        return self._client.run(partial(_run, self._engine(), verb))

    def wake(self, queue: str, change: Change = Change.ANY) -> None:
        """Notify those who wait; after the caller's commit."""
        self._engine().notifier.notify(queue, change=change)


class AsyncSqliteJoined(AsyncJoined):
    """Verbs on the caller's connection for asyncio."""

    def __init__(self, engine: Callable[[], Awaitable[Engine]], connection: object) -> None:
        client = adapted_async(connection)
        if not hasattr(client, "run"):
            raise UsageError(ANOTHER_STORE.format("PostgreSQL", "SQLite"))
        self._client = cast("AsyncSqliteClient", client)
        self._engine = engine

    async def run(self, verb: Verb[A]) -> A:
        """Carry out a verb in the caller's transaction."""
        return await self._client.run(partial(_run, await self._engine(), verb))

    async def wake(self, queue: str, change: Change = Change.ANY) -> None:
        """Notify those who wait; after the caller's commit."""
        (await self._engine()).notifier.notify(queue, change=change)


class SqliteConnections:
    """See `turnabout.store.Connections`."""

    def __init__(self, place: Place, engine: Callable[[], Engine]) -> None:
        if place.path is None:
            raise UsageError(
                "memory is private to its Turnabout: use a file for `transaction=True`"
            )
        self._place = place
        self._engine = engine

    def open(self) -> sqlite3.Connection:
        """A connection that takes the write lock at its first write, not before."""
        path = self._place.path
        assert path is not None
        with our_errors():
            connection = sqlite3.connect(
                path,
                timeout=self._place.busy_seconds,
                isolation_level="IMMEDIATE",
                check_same_thread=False,
            )
            try:
                connection.execute(f"pragma synchronous = {self._place.synchronous}")
                if sqlite3.sqlite_version_info < SQLITE_SAFE:
                    connection.execute("pragma wal_autocheckpoint = 0")
            except BaseException:
                connection.close()
                raise
        return connection

    def transaction(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """The connection: it begins a transaction by itself, and as a context it ends it."""
        return connection

    def put_back(self, connection: sqlite3.Connection, *, keep: bool) -> None:
        """Close it: another is opened in no time."""
        connection.close()

    def is_lost(self, connection: sqlite3.Connection) -> bool:
        """A file is always there."""
        return False

    def close(self) -> None:
        """Nothing: none is kept."""

    def sever(self, connection: sqlite3.Connection) -> None:
        """Undo what it has written, which holds up all other writers, and close it."""
        with suppress(sqlite3.Error):
            connection.interrupt()
            connection.rollback()
            connection.close()

    def joined(self, connection: sqlite3.Connection, on_loop: OnLoop) -> SqliteJoined:
        """A blocking store on a connection."""
        return SqliteJoined(self._engine, connection)


def _run(engine: Engine, verb: Verb[A], raw: sqlite3.Connection) -> A:
    check_joins(verb)
    nothing = verb.nothing_to_do()
    if nothing is not None:
        return nothing
    text_factory = raw.text_factory
    raw.text_factory = str
    is_open = False
    try:
        _check_place(engine, raw)
        _check_transaction(raw)
        is_open = True
        return _in_savepoint(engine, verb, raw)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == 0:
            raise  # the module's own word on the connection: closed, another thread's
        ours = translated(error)
        if isinstance(ours, Busy):
            target = target_of(engine._place.path)
            why = "another connection writes" if target is None else f"it is moved to {target}"
            ours = Busy(
                f"{error}: {why}. Roll your transaction back and repeat it; "
                "one begun by `begin immediate` waits at its start instead"
            )
        if is_open and not raw.in_transaction:
            ours = type(ours)(f"{ours} (SQLite has rolled back your whole transaction)")
        raise ours from error
    finally:
        raw.text_factory = text_factory


def _check_place(engine: Engine, raw: sqlite3.Connection) -> None:
    """The caller's connection has to be to the store's own file."""
    path = engine._place.path
    if path is None:
        raise UsageError(
            "this Turnabout is in memory, which no other connection shares: use a file"
        )
    databases = Borrowed(raw).execute("pragma database_list").fetchall()
    file = next((row["file"] for row in databases if row["name"] == "main"), "")
    if not file or not path.samefile(file):
        raise UsageError(
            f"the connection is to {file or 'memory'}, and the queue lives in {path}: connect to it"
        )


def _check_transaction(raw: sqlite3.Connection) -> None:
    """A transaction is open, or one begins here as with any other writing statement."""
    if raw.in_transaction:
        return
    if raw.isolation_level is None or getattr(raw, "autocommit", -1) is True:
        raise UsageError(f"{OPEN_ONE} (`begin immediate`)")
    raw.execute("begin immediate")


def _in_savepoint(engine: Engine, verb: Verb[A], raw: sqlite3.Connection) -> A:
    raw.execute("savepoint turnabout_verb")
    try:
        answer = engine.run_on(cast("Connection", Borrowed(raw)), verb)
    except BaseException:
        if raw.in_transaction:
            raw.execute("rollback to turnabout_verb")
            raw.execute("release turnabout_verb")
        raise
    raw.execute("release turnabout_verb")
    return answer


class Borrowed:
    """The caller's connection as the procedures use one: see `_connection.Connection`."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.to_notify: set[str] = set()
        self.rows: dict[str, dict[str, Any]] = {}
        self.optimistic = False
        self.need_room: Callable[[], None] = lambda: None
        self.random = random.Random()  # noqa: S311 - jitter, no secret

    @property
    def in_transaction(self) -> bool:
        """See `sqlite3.Connection.in_transaction`."""
        return self._raw.in_transaction

    @property
    def total_changes(self) -> int:
        """See `sqlite3.Connection.total_changes`."""
        return self._raw.total_changes

    def cursor(self) -> sqlite3.Cursor:
        """A cursor whose rows have names, whatever the connection makes for its owner."""
        cursor = sqlite3.Connection.cursor(self._raw)
        cursor.row_factory = sqlite3.Row
        return cursor

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """See `sqlite3.Connection.execute`."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        """See `sqlite3.Connection.executemany`."""
        return self.cursor().executemany(sql, parameters)

    def tuples(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Like that of our own connections."""
        cursor = sqlite3.Connection.cursor(self._raw)
        cursor.row_factory = None
        return cursor.execute(statement, parameters).fetchall()
