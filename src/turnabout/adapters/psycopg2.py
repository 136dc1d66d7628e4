"""psycopg2 connections."""

from __future__ import annotations

import sys
from typing import Any

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows

_IDLE = 0
_TYPES = ("INTEGER", "LONGINTEGER", "BOOLEAN", "UNICODE", "BINARY")


class Psycopg2:
    """A `Client` over such a connection."""

    paramstyle: Paramstyle = "pyformat"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        """See `Client.is_in_transaction`."""
        connection = self._connection
        return not connection.autocommit or connection.get_transaction_status() != _IDLE

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """See `Client.fetch`."""
        theirs: Any = sys.modules["psycopg2"]
        own = theirs.extensions
        with self._connection.cursor(cursor_factory=own.cursor) as cursor:
            for name in _TYPES:  # the connection's owner, or the program, may have others
                own.register_type(getattr(own, name, None) or getattr(theirs, name), cursor)
                own.register_type(getattr(own, f"{name}ARRAY"), cursor)
            cursor.execute(sql, parameters)
            return cursor.fetchall()
