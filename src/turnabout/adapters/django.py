"""Django's connections, on PostgreSQL and SQLite: `django.db.connection`, `connections[alias]`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from turnabout.adapters.protocol import Client, Parameters, Paramstyle, Rows, SqliteClient
from turnabout.adapters.psycopg import rows_of
from turnabout.words.errors import UsageError

T = TypeVar("T")


def of_connection(connection: Any) -> Client | SqliteClient:
    """The client for a connection; UsageError on other databases."""
    if connection.vendor == "postgresql":
        return _DjangoOnPostgres(connection)
    if connection.vendor == "sqlite":
        return _DjangoOnSqlite(connection)
    raise UsageError(f"Turnabout lives in PostgreSQL or SQLite, and this is {connection.vendor}")


class _DjangoOnPostgres:
    paramstyle: Paramstyle = "pyformat"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        return self._connection.in_atomic_block or not self._connection.get_autocommit()

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return rows_of(cursor)


class _DjangoOnSqlite:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.ensure_connection()
        return work(self._connection.connection)
