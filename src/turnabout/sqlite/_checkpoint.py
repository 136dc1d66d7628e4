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

from turnabout.sqlite._connection import LOG_BYTES_KEPT, SQLITE_SAFE, Connection, connect
from turnabout.sqlite._descriptor import Descriptor
from turnabout.sqlite._reserve import Reserve
from turnabout.sqlite._url import Place

LOG_BYTES = LOG_BYTES_KEPT + 1024 * 1024
"""Size of the log that triggers a checkpoint, whichever process writes. Fewer checkpoints write
fewer pages twice; a longer log makes a checkpoint block everybody for longer."""
AGAIN_BYTES = 1024 * 1024
"""Growth of the log before the next checkpoint, after a reader kept one from completing."""


class Checkpoints:
    """Moves the log into the file when it is long. Used under the writer's lock only.

    The commit that begins the log anew cuts it to `LOG_BYTES_KEPT` (`pragma journal_size_limit`):
    so its size says to every process alike when it is long, however many write to it.
    """

    def __init__(self, place: Place, writer: Connection) -> None:
        self._place = place
        self._writer = writer
        self._log = None if place.path is None or writer.read_only else f"{place.path}-wal"
        self._is_ours = sqlite3.sqlite_version_info < SQLITE_SAFE
        self._file: Descriptor | None = None
        self._connection: Connection | None = None
        self._due = LOG_BYTES
        self.reserve = Reserve(None if self._log is None else place.path)

    def after_commit(self) -> None:
        """A look at the log, 1 µs; and a checkpoint when it is due."""
        if self._log is None:
            return
        if self._file is None:
            self._file = Descriptor(self._log, os.O_RDONLY)
        size = os.fstat(self._file.number).st_size  # by its name it takes four times as long
        self.reserve.keep(size)
        if size <= LOG_BYTES:
            self._due = LOG_BYTES
        elif self._is_ours and size >= self._due:
            self._due = LOG_BYTES if self._checkpoint() else size + AGAIN_BYTES

    def make_room(self) -> bool:
        """Make room on a full disk: give up the reserve, then move the log into the file, so that
        it is written from its start again. Returns whether another try may succeed.
        """
        if self._log is None:
            return False
        freed = self.reserve.give_up()
        try:
            return self._checkpoint() or freed
        except sqlite3.Error:
            return freed

    def close(self) -> None:
        """Close the log, and the second connection, after all others. Where no process has the file
        open any more, SQLite has removed the log then, and the reserve goes with it.
        """
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._connection is not None:
            self._connection.close()
        if self._log is not None:
            self.reserve.close(remove=not os.path.exists(self._log))  # noqa: PTH110 - it is text

    def _checkpoint(self) -> bool:
        """Move what can be moved. Whether that was all."""
        if self._connection is None:
            self._connection = connect(self._place)
        self._writer.execute("begin immediate")
        try:
            _, frames, moved = self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._writer.execute("rollback")
        return frames == moved
