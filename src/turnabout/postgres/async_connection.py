"""What an asyncio store has by itself: its connections, and how long it waits for a condition.

`libpq_connection` is the same for blocking callers; all else is written once, in `_async`.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from turnabout.postgres.url import PostgresOptions


class AsyncConnection:
    """One connection in autocommit, with the cursor that all its calls use."""

    __slots__ = ("_cursor", "_poll", "raw")

    def __init__(self, raw: psycopg.AsyncConnection[Any]) -> None:
        self.raw = raw
        self._cursor = psycopg.AsyncRawCursor(raw)
        self._poll = select.poll()
        self._poll.register(raw.fileno(), select.POLLIN)

    @classmethod
    async def open(cls, options: PostgresOptions) -> AsyncConnection:
        """A new one."""
        return cls(
            await psycopg.AsyncConnection.connect(
                options.conninfo,
                autocommit=True,
                prepare_threshold=0 if options.prepare else None,
            )
        )

    @property
    def closed(self) -> bool:
        """Whether it was closed, or broke."""
        return self.raw.closed

    def is_fresh(self) -> bool:
        """False if the server has hung up meanwhile: an idle connection has nothing to say."""
        return not self.raw.closed and not self._poll.poll(0)

    async def run(self, sql: bytes, parameters: Sequence[Any]) -> list[Any]:
        """The rows of one statement, in a transaction of its own. Raises: psycopg.Error."""
        await self._cursor.execute(sql, parameters, binary=True)
        return await self._cursor.fetchall() if self._cursor.description else []

    async def close(self) -> None:
        """Hang up."""
        await self.raw.close()


async def wait_for_async(
    condition: asyncio.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    try:
        async with asyncio.timeout(seconds):
            await condition.wait_for(lambda: bool(predicate()))
    except TimeoutError:
        return False
    return True
