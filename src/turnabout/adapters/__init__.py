"""Other people's database connections, as `queue.within(connection)` uses them.

A file for each library. None of them imports it: whoever hands in a connection has done so. What is
none of these may be a `Client` or an `AsyncClient`: PostgreSQL by a library of your own choice.
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
