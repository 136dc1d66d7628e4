"""What a blocking connection has by itself: how it is opened, and how long it waits.

The same for asyncio is `async_socket`; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from turnabout.postgres.url import PostgresOptions, address


def connect(options: PostgresOptions) -> psycopg.Connection[Any]:
    """A new connection, in autocommit."""
    return psycopg.connect(address(options.conninfo, "turnabout"), autocommit=True)


class Socket:
    """The socket of a connection, waited for by `poll`, which knows no largest file.

    seconds: how long a wait may last.
    """

    __slots__ = ("_file", "_poll", "seconds")

    def __init__(self, file: int, seconds: float) -> None:
        self.seconds = seconds
        self._file = file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._poll.poll(0))

    def readable(self) -> bool:
        """Wait until there is something to read. False: not in time."""
        return bool(self._poll.poll(self.seconds * 1000))

    def readable_or_writable(self) -> bool:
        """Wait until there is, or until there is room to write. False: not in time."""
        self._poll.modify(self._file, select.POLLIN | select.POLLOUT)
        try:
            return bool(self._poll.poll(self.seconds * 1000))
        finally:
            self._poll.modify(self._file, select.POLLIN)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    return bool(condition.wait_for(predicate, seconds))
