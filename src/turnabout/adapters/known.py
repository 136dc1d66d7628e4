"""Finding the adapter for an object: by the names of its type and of its type's bases."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from turnabout.adapters import aiosqlite, asyncpg, django, psycopg, psycopg2, sqlalchemy, sqlite3
from turnabout.adapters.protocol import AsyncClient, AsyncSqliteClient, Client, SqliteClient
from turnabout.words.errors import UsageError

_BLOCKING: Mapping[str, Callable[[Any], Client | SqliteClient]] = {
    "psycopg.Connection": psycopg.Psycopg,
    "psycopg2.connection": psycopg2.Psycopg2,
    "sqlalchemy.Connection": sqlalchemy.of_connection,
    "sqlalchemy.Session": sqlalchemy.of_session,
    "sqlalchemy.scoped_session": sqlalchemy.of_session,
    "django.BaseDatabaseWrapper": django.of_connection,
    "django.ConnectionProxy": django.of_connection,
    "sqlite3.Connection": sqlite3.Sqlite3,
}

_ASYNC: Mapping[str, Callable[[Any], AsyncClient | AsyncSqliteClient]] = {
    "psycopg.AsyncConnection": psycopg.AsyncPsycopg,
    "asyncpg.Connection": asyncpg.Asyncpg,
    "asyncpg.PoolConnectionProxy": asyncpg.Asyncpg,
    "sqlalchemy.AsyncConnection": sqlalchemy.of_async_connection,
    "sqlalchemy.AsyncSession": sqlalchemy.of_async_session,
    "sqlalchemy.async_scoped_session": sqlalchemy.of_async_session,
    "aiosqlite.Connection": aiosqlite.Aiosqlite,
}

_CLIENT = ("paramstyle", "is_in_transaction", "fetch")


def adapted(connection: object) -> Client | SqliteClient:
    """The blocking client for a connection.

    Raises: UsageError for one of asyncio, and for an object that is not a known connection.
    """
    names = _names(type(connection))
    for name in names:
        if name in _BLOCKING:
            return _BLOCKING[name](connection)
    if any(name in _ASYNC for name in names):
        raise UsageError(
            f"{names[0]} is for asyncio: use a queue of turnabout.aio with it, "
            "or pass a blocking connection"
        )
    if _is_client(connection):
        if inspect.iscoroutinefunction(cast("Client", connection).fetch):
            raise UsageError(f"{names[0]}.fetch is a coroutine: use a queue of turnabout.aio")
        return cast("Client", connection)
    raise _unknown(names[0], "Client")


def adapted_async(connection: object) -> AsyncClient | AsyncSqliteClient:
    """The asyncio client for a connection.

    Raises: UsageError for a blocking one, and for an object that is not a known connection.
    """
    names = _names(type(connection))
    for name in names:
        if name in _ASYNC:
            return _ASYNC[name](connection)
    if any(name in _BLOCKING for name in names):
        raise UsageError(
            f"{names[0]} blocks: use a queue of turnabout.connect with it, in a thread, "
            "or pass a connection for asyncio"
        )
    if _is_client(connection):
        if not inspect.iscoroutinefunction(cast("AsyncClient", connection).fetch):
            raise UsageError(f"{names[0]}.fetch blocks: use a queue of turnabout.connect")
        return cast("AsyncClient", connection)
    raise _unknown(names[0], "AsyncClient")


def _names(kind: type[Any]) -> list[str]:
    """`library.Class` of a type and its bases, nearest first."""
    return [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in kind.__mro__]


def _is_client(connection: object) -> bool:
    return all(hasattr(connection, name) for name in _CLIENT)


def _unknown(name: str, protocol: str) -> UsageError:
    return UsageError(
        f"{name} is not a connection that Turnabout knows: pass one of psycopg, psycopg2, "
        "asyncpg, SQLAlchemy, Django, sqlite3 or aiosqlite (a connection, not an engine or pool), "
        f"or an object with the methods of turnabout.adapters.{protocol}: {', '.join(_CLIENT)}"
    )
