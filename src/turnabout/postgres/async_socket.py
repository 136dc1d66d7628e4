"""What an asyncio connection has by itself: how it is opened, and how long it waits.

`socket` is the same for blocking callers; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Any

import psycopg

from turnabout.postgres.url import PostgresOptions


async def connect_async(options: PostgresOptions) -> psycopg.AsyncConnection[Any]:
    """A new connection, in autocommit."""
    return await psycopg.AsyncConnection.connect(options.conninfo, autocommit=True)


class AsyncSocket:
    """The socket of a connection, waited for by the running event loop."""

    __slots__ = ("_file", "_poll")

    def __init__(self, file: int) -> None:
        self._file = file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._poll.poll(0))

    async def readable(self) -> None:
        """Wait until there is something to read."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._file, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._file)

    async def readable_or_writable(self) -> None:
        """Wait until there is, or until there is room to write."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._file, _set, ready)
        loop.add_writer(self._file, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._file)
            loop.remove_writer(self._file)


def _set(ready: asyncio.Future[None]) -> None:
    """The loop may call once more before it is told to stop."""
    if not ready.done():
        ready.set_result(None)


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
