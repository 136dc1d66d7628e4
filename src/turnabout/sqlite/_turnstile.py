"""The write lock of a file that many processes want: nobody starves.

SQLite's own waiting backs off to 100 ms a try, so a process that writes all the time gets its lock
back before anybody looks: 18 s were seen with eight writers. So there is a place for one before the
lock, the turnstile, and nobody who comes later passes the one in it. Those behind it look from time
to time, and the more often the longer they wait.

Each change of hands is dear: SQLite reads anew what another process has written. So the process
that got the lock has a *turn* of a few milliseconds. Until it is over, that process goes for the
lock directly, as often as it likes, and the one in the turnstile rarely tries; afterwards it tries
every 0.1 ms.

The turnstile is a `flock` on the log file. (Not on the database: closing it would drop SQLite's own
locks.) It is courtesy only: without it, or where nobody comes through it, the lock still holds.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time

from turnabout.sqlite._descriptor import LOOKS_ONLY, Descriptor
from turnabout.sqlite._errors import being_moved, is_busy
from turnabout.sqlite._moving import target_of
from turnabout.sqlite._url import Place
from turnabout.words.errors import Busy, Unavailable

if sys.platform != "win32":
    import fcntl

_TURN_SECONDS = 0.004
_PATIENCE_SECONDS = 0.003
"""First pause of the process in the turnstile, while another one may have its turn. (It may also
be gone: nobody can tell.) The waiter came a moment after that turn began."""
_INSIDE_SECONDS = 0.000_1
"""Later pauses of the process in the turnstile."""
_COURTESY_SECONDS = 1.0
"""Longest wait for the turnstile; then a process goes for the lock without it."""
_OUTSIDE_SECONDS = 0.002
"""First pause of processes behind the turnstile."""
_HASTE = 50
"""Rate at which polls get more frequent: after 1/50 s twice as frequent, after 1 s 51 times."""


class Turnstile:
    """The way to the write lock, for the one writer of a process."""

    def __init__(self, place: Place) -> None:
        self._path = place.path
        self._busy_seconds = place.busy_seconds
        self._file: Descriptor | None = None
        self._turn_ends = 0.0
        self._identity = self._identity_now()
        self._database: Descriptor | None = None
        if place.path is not None and LOOKS_ONLY is not None:
            self._database = Descriptor(place.path, LOOKS_ONLY)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction that holds the write lock, waiting up to `busy_seconds` for it.

        Raises: Busy; Unavailable once a turn, if the file is no longer the one that was opened.
        """
        if time.monotonic() < self._turn_ends and _try_begin(connection):
            return
        if self._identity_now() != self._identity:
            raise self._gone()
        self._begin_in_line(connection)
        self._turn_ends = time.monotonic() + _TURN_SECONDS

    def committed(self) -> None:
        """Raises: Unavailable if the file was removed or replaced: what it was given is lost."""
        if self._database is None:
            is_gone = self._identity_now() != self._identity
        else:
            is_gone = not os.fstat(self._database.number).st_nlink
        if is_gone:
            self._turn_ends = 0.0
            raise self._gone()

    def close(self) -> None:
        for one in filter(None, (self._file, self._database)):
            one.close()
        self._file = None

    def _gone(self) -> Unavailable:
        return Unavailable(
            f"{self._path} was removed or replaced while it was open: what is sent would be lost. "
            "Put it back, or start this program again to use what is there now"
        )

    def _identity_now(self) -> tuple[int, int] | None:
        """Identity of the file with the path's name; None: there is none."""
        try:
            found = None if self._path is None else self._path.stat()
        except FileNotFoundError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    def _begin_in_line(self, connection: sqlite3.Connection) -> None:
        begun = inside_since = time.monotonic()
        inside = self._enter()
        try:
            while not (inside and _try_begin(connection)):
                now = time.monotonic()
                waited = now - begun
                if waited >= self._busy_seconds:
                    if (target := target_of(self._path)) is not None:
                        raise being_moved(target)
                    raise Busy(
                        f"other processes held the write lock of {self._path} for "
                        f"{self._busy_seconds:g} s: repeat, or set ?busy_seconds= in the URL"
                    )
                if not inside:
                    pause = _OUTSIDE_SECONDS / (1 + _HASTE * waited)
                elif now - inside_since < _PATIENCE_SECONDS / 2:
                    pause = _PATIENCE_SECONDS
                else:
                    pause = _INSIDE_SECONDS
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311
                if not inside and (waited > _COURTESY_SECONDS or self._enter()):
                    inside, inside_since = True, time.monotonic()
        finally:
            self._leave()

    def _enter(self) -> bool:
        """Whether nobody else stands there; we do from now on."""
        if self._path is None or sys.platform == "win32":
            return True
        try:
            if self._file is None:
                self._file = Descriptor(f"{self._path}-wal", os.O_RDONLY)
            fcntl.flock(self._file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # no log yet, or a file system without flock
        return True

    def _leave(self) -> None:
        if self._file is not None and sys.platform != "win32":
            fcntl.flock(self._file.number, fcntl.LOCK_UN)


def _try_begin(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("begin immediate")
    except sqlite3.OperationalError as error:
        if is_busy(error):
            return False
        raise
    return True
