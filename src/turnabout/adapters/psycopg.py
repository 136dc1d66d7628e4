"""psycopg 3: `Connection` and `AsyncConnection`."""

from __future__ import annotations

import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows

_IDLE = 0


def context(connection: Any) -> Any:
    """How values are read and written on a connection: as psycopg does it by itself, whatever the
    program has registered there or for all connections.
    """
    return SimpleNamespace(connection=connection, adapters=_adapters())


@cache
def _adapters() -> Any:
    psycopg: Any = sys.modules["psycopg"]
    plain = psycopg.adapt.AdaptersMap(types=psycopg.postgres.types)
    psycopg.postgres.register_default_adapters(SimpleNamespace(connection=None, adapters=plain))
    psycopg.types.array.register_all_arrays(SimpleNamespace(connection=None, adapters=plain))
    return plain


def _tuples(_cursor: Any) -> type[tuple[Any, ...]]:
    """A row factory: whatever rows the connection makes for its owner, ours are tuples."""
    return tuple


@cache
def _plain(name: str) -> Any:
    """That class of psycopg's cursors, with adapters of its own."""
    cursors = getattr(sys.modules["psycopg"], name)
    return type(name, (cursors,), {"adapters": property(lambda _: _adapters())})


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
        with _plain("RawCursor")(self._connection, row_factory=_tuples) as cursor:
            cursor.execute(sql, parameters, binary=True)
            return cursor.fetchall()


class AsyncPsycopg(_EitherPsycopg):
    """An `AsyncClient` over a connection for asyncio."""

    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """As `AsyncClient.fetch`."""
        async with _plain("AsyncRawCursor")(self._connection, row_factory=_tuples) as cursor:
            await cursor.execute(sql, parameters, binary=True)
            return await cursor.fetchall()
