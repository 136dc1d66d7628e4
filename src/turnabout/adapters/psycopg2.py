"""psycopg2 connections."""

from __future__ import annotations

import sys
from typing import Any

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows

_IDLE = 0


class Psycopg2:
    """A `Client` over such a connection."""

    paramstyle: Paramstyle = "pyformat"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        """As `Client.is_in_transaction`."""
        connection = self._connection
        return not connection.autocommit or connection.get_transaction_status() != _IDLE

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """As `Client.fetch`."""
        plain = sys.modules["psycopg2"].extensions.cursor  # its owner may have another default
        with self._connection.cursor(cursor_factory=plain) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()
