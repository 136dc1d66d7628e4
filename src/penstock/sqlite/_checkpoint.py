"""Checkpoints on SQLite versions where they are dangerous.

SQLite 3.7.0 to 3.51.2 can damage a file when a checkpoint and a commit of two connections meet at
the wrong moment (the WAL-reset bug). There automatic checkpoints are off, and whoever holds the
write lock, so that nobody commits, checkpoints through a second connection. Better versions look
after themselves.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from penstock.sqlite._connection import SQLITE_SAFE, Connection, connect
from penstock.sqlite._url import Place

LOG_BYTES = 4 * 1024 * 1024
_ROWS_BETWEEN = 20_000
_COMMITS_BETWEEN = 200


class Checkpoints:
    """Moves the log into the file now and then. Used under the writer's lock only.

    A log never shrinks, so its size alone does not say that there is something to move: it has
    to have grown, or enough has to have been written over it since.
    """

    def __init__(self, place: Place, writer: Connection) -> None:
        self._place = place
        self._writer = writer
        self._log = None if place.path is None else Path(f"{place.path}-wal")
        if sqlite3.sqlite_version_info >= SQLITE_SAFE:
            self._log = None
        self._connection: Connection | None = None
        self._commits = 0
        self._rows = 0
        self._size = LOG_BYTES

    def after_commit(self) -> None:
        """A look at the log, 2 µs; and a checkpoint when it is due."""
        if self._log is None:
            return
        self._commits += 1
        busy = (
            self._commits >= _COMMITS_BETWEEN
            or self._writer.total_changes - self._rows >= _ROWS_BETWEEN
        )
        size = self._log.stat().st_size
        if size > LOG_BYTES and (busy or size > self._size + LOG_BYTES):
            self._checkpoint()
            self._size = size
            self._commits, self._rows = 0, self._writer.total_changes

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _checkpoint(self) -> None:
        if self._connection is None:
            self._connection = connect(self._place)
        self._writer.execute("begin immediate")
        try:
            self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("rollback")
