"""The interface of a database client, so that verbs can run in its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")

Paramstyle = Literal["numeric_dollar", "pyformat", "format", "named", "qmark"]
"""The parameter style of the SQL that `fetch` takes: `$1`, `%(p1)s`, `%s`, `:p1` or `?`."""

Parameters = Sequence[Any] | Mapping[str, Any]
"""A sequence in the order of the SQL, or, for `pyformat` and `named`, a mapping of `p1`, `p2` …

The values are int, str, bytes, bool, None, and lists of these.
"""

Rows = Sequence[Sequence[Any]]


class _EitherClient(Protocol):
    @property
    def paramstyle(self) -> Paramstyle:
        """The parameter style."""
        ...

    def is_in_transaction(self) -> bool:
        """Whether what `fetch` does waits for your commit or rollback: a transaction is open, or
        the next statement opens one. False is refused: a verb would be committed at once.
        """
        ...


class Client(_EitherClient, Protocol):
    """A blocking connection to PostgreSQL. Pass one to `queue.within` instead of a connection."""

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """Run one statement and give all its rows, the columns in order. Nothing is committed."""
        ...


class AsyncClient(_EitherClient, Protocol):
    """The same for asyncio."""

    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """See `Client.fetch`."""
        ...


class SqliteClient(Protocol):
    """A connection to an SQLite file, which uses the standard library's `sqlite3` underneath."""

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do the work on that connection, in the thread that it belongs to."""
        ...


class AsyncSqliteClient(Protocol):
    """The same for asyncio."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """See `SqliteClient.run`."""
        ...
