"""The log's floor: the end of removed history, so that readers learn what they missed."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements

_SQL = statements("log_floor")


def raise_to(connection: Connection, queue: int, seq: int | None) -> None:
    """Rows of a queue up to that place were removed; None: none were."""
    if seq is not None:
        connection.execute(_SQL["raise"], {"queue": queue, "seq": seq})
