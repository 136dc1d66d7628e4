"""asyncpg connections, plain or out of a pool."""

from __future__ import annotations

import sys
from typing import Any

from turnabout.adapters.protocol import Parameters, Paramstyle, Rows


class Asyncpg:
    """An `AsyncClient` over such a connection."""

    paramstyle: Paramstyle = "numeric_dollar"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def is_in_transaction(self) -> bool:
        """See `AsyncClient.is_in_transaction`."""
        return self._connection.is_in_transaction()

    async def fetch(self, sql: str, parameters: Parameters) -> Rows:
        """See `AsyncClient.fetch`."""
        plain = sys.modules["asyncpg"].Record  # its owner may have another class of them
        records = await self._connection.fetch(sql, *parameters, record_class=plain)
        return [tuple(record) for record in records]
