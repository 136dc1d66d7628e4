"""Connections that a process of Spark's keeps from one task to the next.

To open one for Arrow takes as long as to read ten thousand rows, as the driver asks for all types
first, and each batch is read by new tasks. A task has its connection to itself; it comes back only
if all went well. Nothing here knows what it is connected to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

IDLE_SECONDS: Final = 60.0
"""One that has been idle for longer is not used again: a firewall may have forgotten it."""
MOST: Final = 4
"""Connections kept, the newest: a process may read several databases."""

_lock = Lock()
_kept: dict[tuple[int, Hashable], tuple[float, Any]] = {}
"""Connections by process and key, each with its age. After a fork the parent's stay, untouched:
both processes would speak on one socket."""


@contextmanager
def using(key: Hashable, make: Callable[[], Any]) -> Generator[Any]:
    """A connection for the block: the one that is kept under the key, or one that `make` opens.

    It is kept afterwards; if the block raises, or is left in the middle, it is closed.
    """
    found = _taken((os.getpid(), key))
    connection = make() if found is None else found
    try:
        yield connection
    except BaseException:
        _close(connection)
        raise
    _keep((os.getpid(), key), connection)


def has(key: Hashable) -> bool:
    """Whether one is kept under the key; the server may have closed it meanwhile."""
    return (os.getpid(), key) in _kept


def drop(key: Hashable | None = None) -> None:
    """Close what this process keeps under the key; None: all that it keeps."""
    for name in [one for one in _ours() if key is None or one[1] == key]:
        with _lock:
            _, connection = _kept.pop(name, (0.0, None))
        _close(connection)


def _taken(name: tuple[int, Hashable]) -> Any | None:
    with _lock:
        since, connection = _kept.pop(name, (0.0, None))
    if connection is not None and time.monotonic() - since > IDLE_SECONDS:
        _close(connection)
        return None
    return connection


def _keep(name: tuple[int, Hashable], connection: Any) -> None:
    with _lock:
        gone = [_kept.pop(name, None)]  # another thread's
        _kept[name] = time.monotonic(), connection
        gone += [_kept.pop(old) for old in _ours()[:-MOST]]
    for one in gone:
        if one is not None:
            _close(one[1])


def _ours() -> list[tuple[int, Hashable]]:
    """The oldest first."""
    return [name for name in tuple(_kept) if name[0] == os.getpid()]


def _close(connection: Any) -> None:
    with suppress(Exception):  # it may be broken, which is why it goes
        connection.close()
