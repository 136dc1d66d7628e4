"""Checkpoints on SQLite versions where they are dangerous.

SQLite 3.7.0 to 3.51.2 can damage a file when a checkpoint and a commit of two connections meet at
the wrong moment (the WAL-reset bug). There automatic checkpoints are off, and the holder of the
write lock checkpoints through a second connection, as nobody else can commit meanwhile. Later
versions look after themselves.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from turnabout.sqlite._connection import SQLITE_SAFE, Connection, connect
from turnabout.sqlite._url import Place

LOG_BYTES = 4 * 1024 * 1024
LOG_FRAMES = 4_000
"""Frames of the log, a page each, between two checkpoints: 16 MB. The fewer checkpoints, the fewer
pages are written twice; the longer the log, the longer a checkpoint holds everybody up."""


class Checkpoints:
    """Moves the log into the file now and then. Used under the writer's lock only.

    A log never shrinks, so its size does not say how much of it is new. But a checkpoint tells
    how many frames there were, so the number of commits to the next one can be guessed.
    """

    def __init__(self, place: Place, writer: Connection) -> None:
        self._place = place
        self._writer = writer
        self._log = None if place.path is None else f"{place.path}-wal"
        if sqlite3.sqlite_version_info >= SQLITE_SAFE:
            self._log = None
        self._file: int | None = None
        self._connection: Connection | None = None
        self._commits = 0
        self._commits_between = 64
        self._size = LOG_BYTES

    def after_commit(self) -> None:
        """A look at the log, 1 µs; and a checkpoint when it is due."""
        if self._log is None:
            return
        self._commits += 1
        if self._file is None:
            self._file = os.open(self._log, os.O_RDONLY)
        size = os.fstat(self._file).st_size  # by its name it takes four times as long
        is_due = size > LOG_BYTES and self._commits >= self._commits_between
        if is_due or size > self._size + 4 * LOG_BYTES:
            frames = self._checkpoint()
            guess = self._commits * LOG_FRAMES // max(frames, 1)
            self._commits_between = min(max(guess, 16), 4 * self._commits_between, 4_096)
            self._commits = 0
            self._size = size

    def close(self) -> None:
        """Close the log, and the second connection."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._connection is not None:
            self._connection.close()

    def _checkpoint(self) -> int:
        """Move what can be moved. How many frames the log had."""
        if self._connection is None:
            self._connection = connect(self._place)
        self._writer.execute("begin immediate")
        try:
            moved = self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("rollback")
        return moved[1]
