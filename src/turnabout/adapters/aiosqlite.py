"""aiosqlite connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Aiosqlite:
    """An `AsyncSqliteClient`: the work goes to the thread that has the connection.

    aiosqlite has no public way to run many steps in its thread at once; what its own methods are
    made of has had the same name and form since its first release.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """See `AsyncSqliteClient.run`."""
        return await self._connection._execute(lambda: work(self._connection._conn))
