"""The standard library's `sqlite3` connections."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Sqlite3:
    """An `SqliteClient` that is the connection itself."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """See `SqliteClient.run`."""
        return work(self._connection)
