"""The asyncio half of a connection: opening it, and waiting on its socket.

`socket` is the same for blocking callers; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg

from turnabout.postgres.socket import input_of
from turnabout.postgres.url import PostgresOptions, address


async def connect_async(options: PostgresOptions) -> psycopg.AsyncConnection[Any]:
    """A new connection, in autocommit."""
    return await psycopg.AsyncConnection.connect(
        address(options.conninfo, "turnabout"), autocommit=True
    )


class AsyncSocket:
    """The socket of a connection. seconds: how long a wait may last, in the running event loop."""

    __slots__ = ("_file", "_input", "seconds")

    def __init__(self, file: int, seconds: float) -> None:
        self.seconds = seconds
        self._file = file
        self._input = input_of(file)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._input(0))

    async def readable(self, *, or_writable: bool = False) -> bool:
        """Wait until there is something to read, or room to write. False: not in time."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._file, _in_time, ready)
        if or_writable:
            loop.add_writer(self._file, _in_time, ready)
        late = loop.call_later(self.seconds, _too_late, ready)
        try:
            return await ready
        finally:
            late.cancel()
            loop.remove_reader(self._file)
            if or_writable:
                loop.remove_writer(self._file)


def _in_time(ready: asyncio.Future[bool]) -> None:
    """The loop may call once more before it is told to stop."""
    if not ready.done():
        ready.set_result(True)


def _too_late(ready: asyncio.Future[bool]) -> None:
    if not ready.done():
        ready.set_result(False)


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
