"""psycopg 3: `Connection` and `AsyncConnection`."""

from __future__ import annotations

import sys
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows

_IDLE = 0


def context(connection: Any) -> Any:
    """The driver's own loaders and dumpers for a connection, whatever the program has registered
    there or for all connections.
    """
    return SimpleNamespace(connection=connection, adapters=_adapters())


@cache
def _adapters() -> Any:
    psycopg: Any = sys.modules["psycopg"]
    plain = psycopg.adapt.AdaptersMap(types=psycopg.postgres.types)
    psycopg.postgres.register_default_adapters(SimpleNamespace(connection=None, adapters=plain))
    psycopg.types.array.register_all_arrays(SimpleNamespace(connection=None, adapters=plain))
    return plain


def rows_of(cursor: Any) -> Rows:
    """Fetch all rows of a cursor, with our loaders if it is one of psycopg's."""
    result = getattr(cursor, "pgresult", None)
    if result is None:
        return cursor.fetchall()
    reader = sys.modules["psycopg"].adapt.Transformer(context(cursor.connection))
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def as_literal(value: Any) -> Any:
    """A list of bytes as the literal of an array. psycopg makes one of it that holds other bytes
    where `standard_conforming_strings` is off: it doubles the backslashes then.
    """
    if not isinstance(value, list):
        return value
    items = cast("list[Any]", value)
    if not any(isinstance(item, bytes) for item in items):
        return items
    return "{" + ",".join("NULL" if i is None else f'"\\\\x{i.hex()}"' for i in items) + "}"


@cache
def _plain(name: str) -> Any:
    """A subclass of that psycopg cursor class, with our dumpers."""
    cursors = getattr(sys.modules["psycopg"], name)
    return type(name, (cursors,), {"adapters": property(lambda _: _adapters())})


class _EitherPsycopg:
    paramstyle: Paramstyle = "numeric_dollar"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        """See `Client.is_in_transaction`."""
        connection = self._connection
        return not connection.autocommit or connection.info.transaction_status != _IDLE


class Psycopg(_EitherPsycopg):
    """A `Client` over a blocking connection."""

    def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """See `Client.fetch`."""
        with _plain("RawCursor")(self._connection) as cursor:
            return rows_of(cursor.execute(sql, [*map(as_literal, parameters)], binary=True))


class AsyncPsycopg(_EitherPsycopg):
    """An `AsyncClient` over a connection for asyncio."""

    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """See `AsyncClient.fetch`."""
        async with _plain("AsyncRawCursor")(self._connection) as cursor:
            return rows_of(await cursor.execute(sql, [*map(as_literal, parameters)], binary=True))
