"""psycopg 3: `Connection` and `AsyncConnection`."""

from __future__ import annotations

import sys
from typing import Any

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows

_IDLE = 0


def _tuples(_cursor: Any) -> type[tuple[Any, ...]]:
    """A row factory: whatever rows the connection makes for its owner, ours are tuples."""
    return tuple


class _EitherPsycopg:
    paramstyle: Paramstyle = "numeric_dollar"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        """As `Client.is_in_transaction`."""
        connection = self._connection
        return not connection.autocommit or connection.info.transaction_status != _IDLE


class Psycopg(_EitherPsycopg):
    """A `Client` over a blocking connection."""

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """As `Client.fetch`."""
        cursors = sys.modules["psycopg"].RawCursor
        with cursors(self._connection, row_factory=_tuples) as cursor:
            cursor.execute(sql, parameters, binary=True)
            return cursor.fetchall()


class AsyncPsycopg(_EitherPsycopg):
    """An `AsyncClient` over a connection for asyncio."""

    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """As `AsyncClient.fetch`."""
        cursors = sys.modules["psycopg"].AsyncRawCursor
        async with cursors(self._connection, row_factory=_tuples) as cursor:
            await cursor.execute(sql, parameters, binary=True)
            return await cursor.fetchall()
