"""What a blocking connection has by itself: how it is opened, and how long it waits.

The same for asyncio is `async_socket`; all else of a connection is written once, in `_async`.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from turnabout.postgres.url import PostgresOptions


def connect(options: PostgresOptions) -> psycopg.Connection[Any]:
    """A new connection, in autocommit."""
    return psycopg.connect(options.conninfo, autocommit=True)


class Socket:
    """The socket of a connection, waited for by `poll`, which knows no largest file."""

    __slots__ = ("_file", "_poll")

    def __init__(self, file: int) -> None:
        self._file = file
        self._poll = select.poll()
        self._poll.register(file, select.POLLIN)

    def has_input(self) -> bool:
        """Whether there is something to read, the end included."""
        return bool(self._poll.poll(0))

    def readable(self) -> None:
        """Wait until there is something to read."""
        self._poll.poll()

    def readable_or_writable(self) -> None:
        """Wait until there is, or until there is room to write."""
        self._poll.modify(self._file, select.POLLIN | select.POLLOUT)
        try:
            self._poll.poll()
        finally:
            self._poll.modify(self._file, select.POLLIN)


def wait_for(
    condition: threading.Condition, predicate: Callable[[], object], seconds: float
) -> bool:
    """Wait until it holds, which `condition` is notified of; False: not within that time."""
    return bool(condition.wait_for(predicate, seconds))
