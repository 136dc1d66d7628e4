"""Connections to one file: opened with care, checked, and migrated if new."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from turnabout.sqlite._errors import is_busy, our_errors
from turnabout.sqlite._schema import migrate, refuse_older
from turnabout.sqlite._url import Place
from turnabout.words.errors import Forbidden, UsageError, WrongVersion

SQLITE_MIN = (3, 38, 0)  # STRICT tables, built-in JSON
LOG_BYTES_KEPT = 15 * 1024 * 1024
"""Size that the log is cut to when it starts over: overwriting costs less than growing."""
SQLITE_SAFE = (3, 51, 3)  # no WAL-reset bug: checkpoints may meet commits


class StartOver(Exception):
    """A verb that was run optimistically has to be undone: all are, and start over in savepoints.
    No caller ever meets it.
    """


class Connection(sqlite3.Connection):
    """A connection, and what a verb on it may leave behind."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.to_notify: set[str] = set()
        """Queues besides the verb's own whose receivers are to be notified after the commit."""
        self.rows: dict[str, dict[str, Any]] = {}
        """Rows of queues by name, as they were when they were read: see `_queue.known`."""
        self.need_room: Callable[[], None] = lambda: None
        """Raises: StorageFull, if what room there is on the disk is not for sends."""
        self.optimistic = False
        """Whether a verb may raise `StartOver`, instead of being ready to undo what it does."""
        self.read_only = False
        """Whether the file can only be read: what writes is refused, as SQLite refuses it."""
        self.applied: tuple[str, ...] = ()
        """The steps of the schema that this connection has run."""
        self.random = random.Random()  # noqa: S311
        """Source of the jitter of back-offs; tests seed it."""
        self.row_factory = sqlite3.Row

    def tuples(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Fetch all rows as plain tuples, quicker than named ones: for hot loops."""
        cursor = self.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, parameters).fetchall()


def open_writer(place: Place) -> Connection:
    """The connection that writes. The file is made and migrated if need be; one that this user may
    only read is opened for looking.

    Raises: UsageError, Forbidden, WrongVersion: the message says what to do; Busy.
    """
    if sqlite3.sqlite_version_info < SQLITE_MIN:
        raise WrongVersion(
            f"SQLite {sqlite3.sqlite_version} is too old: use a Python that comes with "
            f"{'.'.join(map(str, SQLITE_MIN))} or later"
        )
    if place.path is not None:
        try:
            _check_file(place.path)
        except PermissionError as error:
            raise Forbidden(f"{error}: check the owner and mode of its folders") from error
        except OSError as error:  # a name that is too long
            raise UsageError(f"{error}: give another path") from error
    connection = connect(place)
    try:
        with our_errors():
            if connection.read_only:
                refuse_older(connection)
            else:
                _use_wal(connection, place)
                connection.applied = migrate(connection, place)
            connection.execute("pragma busy_timeout = 0")  # from now on the turnstile waits
    except BaseException:
        connection.close()
        raise
    return connection


def connect(place: Place) -> Connection:
    """A connection to a file that is known to be good, or to new memory."""
    with our_errors():
        looked_at = place.path if place.path is not None and may_only_read(place.path) else None
        connection = sqlite3.connect(
            place.path or ":memory:" if looked_at is None else address(looked_at),
            uri=looked_at is not None,
            timeout=place.busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        connection.read_only = looked_at is not None
        try:
            connection.execute(f"pragma journal_size_limit = {LOG_BYTES_KEPT}")
            connection.execute(f"pragma synchronous = {place.synchronous}")
            connection.execute("pragma temp_store = memory")
            connection.execute("pragma cache_size = -16000")
            if sqlite3.sqlite_version_info < SQLITE_SAFE:
                connection.execute("pragma wal_autocheckpoint = 0")
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(place: Place) -> Connection:
    """A connection that only reads. In WAL mode it waits for nobody but an opening or closing."""
    connection = connect(place)
    connection.execute("pragma query_only = on")
    return connection


def may_only_read(path: Path) -> bool:
    """Whether this user can look at the file, but write neither to it nor to a log beside it."""
    can_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return path.exists() and not can_write


def address(path: Path) -> str:
    """Return the URI for reading a file without writing. A log is read through shared memory,
    which may have to be made; a file without a log needs neither that nor a lock.
    """
    has_log = path.with_name(f"{path.name}-wal").exists()
    return f"{path.as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"


def _check_file(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()  # `is_dir` and `exists` swallow what else may be wrong with it
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give the path of a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}: make it, or give another path")
    if path.exists():
        if not os.access(path, os.R_OK):
            raise Forbidden(f"{path} may not be read by this user: check its owner and mode")
    elif not os.access(path.parent, os.W_OK):
        raise Forbidden(
            f"{path.parent} may not be written by this user, and SQLite keeps a log beside its file"
        )


def _use_wal(connection: sqlite3.Connection, place: Place) -> None:
    """Turn on the write-ahead log; the first one to do so needs the file for itself a moment."""
    if place.path is None:
        return
    ends_at = time.monotonic() + place.busy_seconds
    while True:
        try:
            (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
            break
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= ends_at:
                raise
        time.sleep(random.uniform(0, 0.005))  # noqa: S311
    if mode != "wal":
        raise UsageError(
            f"{place.path} is on a file system without shared memory: use a local disk"
        )
