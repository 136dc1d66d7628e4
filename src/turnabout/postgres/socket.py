"""The blocking half of a connection: opening it, and waiting on its socket.

The same for asyncio is `async_socket`; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import selectors
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from turnabout.postgres.url import PostgresOptions, address

SELECTOR: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""`poll`, which has no limit on file numbers. Windows has only `select`, but its sockets have no
such numbers."""
READ: Final = selectors.EVENT_READ
BOTH: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


def connect(options: PostgresOptions) -> psycopg.Connection[Any]:
    """A new connection, in autocommit."""
    return psycopg.connect(address(options.conninfo, "turnabout"), autocommit=True)


class Socket:
    """The socket of a connection, waited for by `SELECTOR`.

    seconds: how long a wait may last.
    """

    __slots__ = ("_file", "_selector", "seconds")

    def __init__(self, file: int, seconds: float) -> None:
        self.seconds = seconds
        self._file = file
        self._selector = SELECTOR()
        self._selector.register(file, READ)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._selector.select(0))

    def readable(self, *, or_writable: bool = False) -> bool:
        """Wait until there is something to read, or room to write. False: not in time."""
        if not or_writable:
            return bool(self._selector.select(self.seconds))
        self._selector.modify(self._file, BOTH)
        try:
            return bool(self._selector.select(self.seconds))
        finally:
            self._selector.modify(self._file, READ)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    return bool(condition.wait_for(predicate, seconds))
