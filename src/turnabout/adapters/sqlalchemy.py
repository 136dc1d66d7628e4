"""SQLAlchemy 2: connections and sessions, blocking and for asyncio, on PostgreSQL and SQLite.

A session is asked for its connection at each verb, since that changes with its transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from turnabout.adapters.aiosqlite import Aiosqlite
from turnabout.adapters.protocol import (
    AsyncClient,
    AsyncSqliteClient,
    Client,
    Parameters,
    Paramstyle,
    Rows,
    SqliteClient,
)
from turnabout.adapters.psycopg import rows_of
from turnabout.words.errors import UsageError

T = TypeVar("T")


def of_connection(connection: Any) -> Client | SqliteClient:
    """The client for a `Connection`."""
    return _blocking(connection, lambda: connection)


def of_session(session: Any) -> Client | SqliteClient:
    """The client for a `Session` or a `scoped_session`."""
    return _blocking(session.get_bind(), session.connection)


def of_async_connection(connection: Any) -> AsyncClient | AsyncSqliteClient:
    """The client for an `AsyncConnection`."""

    async def current() -> Any:
        return connection

    return _asynchronous(connection, current)


def of_async_session(session: Any) -> AsyncClient | AsyncSqliteClient:
    """The client for an `AsyncSession` or an `async_scoped_session`."""
    return _asynchronous(session.get_bind(), session.connection)


def _blocking(bind: Any, current: Callable[[], Any]) -> Client | SqliteClient:
    if _is_sqlite(bind):
        return _SqlAlchemyOnSqlite(current)
    return _SqlAlchemyOnPostgres(bind, current)


def _asynchronous(bind: Any, current: Callable[[], Any]) -> AsyncClient | AsyncSqliteClient:
    if _is_sqlite(bind):
        return _AsyncOnSqlite(current)
    return _AsyncOnPostgres(bind, current)


def _is_sqlite(bind: Any) -> bool:
    name = bind.dialect.name
    if name not in ("sqlite", "postgresql"):
        raise UsageError(f"Turnabout lives in PostgreSQL or SQLite, and this is {name}")
    return name == "sqlite"


def _commits_by_itself(bind: Any) -> bool:
    """Whether the isolation level is AUTOCOMMIT; without it there is always a transaction."""
    level = bind.get_execution_options().get("isolation_level")
    if level is None:
        level = getattr(bind.dialect, "_on_connect_isolation_level", None)
    return level == "AUTOCOMMIT"


class _EitherOnPostgres:
    def __init__(self, bind: Any, current: Callable[[], Any]) -> None:
        self._bind = bind
        self._current = current
        self.paramstyle: Paramstyle = bind.dialect.paramstyle

    def is_in_transaction(self) -> bool:
        return not _commits_by_itself(getattr(self._bind, "sync_connection", None) or self._bind)


class _SqlAlchemyOnPostgres(_EitherOnPostgres):
    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        with self._current().exec_driver_sql(sql, parameters) as result:
            return rows_of(result.cursor)


class _SqlAlchemyOnSqlite:
    def __init__(self, current: Callable[[], Any]) -> None:
        self._current = current

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._current()
        if not connection.in_transaction():
            connection.begin()
        return work(connection.connection.driver_connection)


class _AsyncOnPostgres(_EitherOnPostgres):
    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        connection = await self._current()
        return (await connection.exec_driver_sql(sql, parameters)).fetchall()


class _AsyncOnSqlite:
    def __init__(self, current: Callable[[], Any]) -> None:
        self._current = current

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = await self._current()
        if not connection.in_transaction():
            await connection.begin()
        raw = await connection.get_raw_connection()
        return await Aiosqlite(raw.driver_connection).run(work)
