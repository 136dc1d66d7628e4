"""The blocking half of a connection: opening it, and waiting on its socket.

The same for asyncio is `async_socket`; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import select
import selectors
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from turnabout.postgres.url import PostgresOptions, address

BOTH: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


def input_of(file: int) -> Callable[[float], Any]:
    """A wait for input there, of so many milliseconds: `poll` itself, which has no limit on file
    numbers. Windows has only `select`, but its sockets have no such numbers.
    """
    if not hasattr(select, "poll"):
        return lambda milliseconds: select.select([file], [], [], milliseconds / 1000)[0]
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return poll.poll


def connect(options: PostgresOptions) -> psycopg.Connection[Any]:
    """A new connection, in autocommit."""
    return psycopg.connect(address(options.conninfo, "turnabout"), autocommit=True)


class Socket:
    """The socket of a connection. seconds: how long a wait may last."""

    __slots__ = ("_file", "_input", "seconds")

    def __init__(self, file: int, seconds: float) -> None:
        self.seconds = seconds
        self._file = file
        self._input = input_of(file)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._input(0))

    def readable(self, *, or_writable: bool = False) -> bool:
        """Wait until there is something to read, or room to write. False: not in time."""
        if not or_writable:
            return bool(self._input(self.seconds * 1000))
        with selectors.DefaultSelector() as selector:
            selector.register(self._file, BOTH)
            return bool(selector.select(self.seconds))


def wait_for(
    condition: threading.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    return bool(condition.wait_for(predicate, seconds))
