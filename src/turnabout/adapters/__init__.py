"""Other people's database connections, as `queue.within(connection)` uses them.

A file for each library. None of them imports it: the program that passes a connection has
already done so. Another library for PostgreSQL works through a `Client` or an `AsyncClient`.
"""

from turnabout.adapters.known import adapted, adapted_async
from turnabout.adapters.protocol import (
    AsyncClient,
    AsyncSqliteClient,
    Client,
    Paramstyle,
    SqliteClient,
)

__all__ = [
    "AsyncClient",
    "AsyncSqliteClient",
    "Client",
    "Paramstyle",
    "SqliteClient",
    "adapted",
    "adapted_async",
]
