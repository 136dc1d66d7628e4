"""Turnabout's exceptions for SQLite's errors. The only file that knows its result codes."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager

from turnabout.words.errors import (
    BrokenInvariant,
    Busy,
    Forbidden,
    StorageFull,
    TurnaboutError,
    Unavailable,
    UsageError,
    WrongVersion,
)

BEING_MOVED, MOVED = "turnabout: being moved to ", "turnabout: moved to "
"""Mark in a file that `turnabout move` has closed; the new place's name follows."""

_WRITE_FAILED = (778, 4874)  # SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE
_BUSY = (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED

_KNOWN: dict[int, tuple[type[TurnaboutError], str]] = {
    3: (Forbidden, "the file mode does not allow it: check the owner and mode of file and folder"),
    5: (Busy, "another process held the write lock for too long: repeat, or set ?busy_seconds="),
    6: (Busy, "another connection holds a lock: repeat"),
    7: (Unavailable, "out of memory: repeat when there is some"),
    8: (Forbidden, "the file or its folder is read-only: check their owner and mode"),
    9: (Unavailable, "the call was interrupted: repeat it"),
    10: (Unavailable, "reading or writing the disk failed: check it, then repeat"),
    11: (BrokenInvariant, "the file is damaged: save a copy, then restore a backup"),
    13: (StorageFull, "nothing was written: free some space, then repeat"),
    14: (Forbidden, "the file cannot be opened: check that it exists, and its owner and mode"),
    18: (UsageError, "a value is too big for SQLite"),
    23: (Forbidden, "SQLite was told not to allow it"),
    26: (UsageError, "give the path of another one, or of none yet"),
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether a lock was not free: worth another try."""
    return _code(error) in _BUSY


def translated(error: sqlite3.Error) -> TurnaboutError:
    """The error to raise instead. Nothing happened: SQLite has rolled back, or will."""
    if (elsewhere := _moved(str(error))) is not None:
        return elsewhere
    if getattr(error, "sqlite_errorcode", 0) in _WRITE_FAILED and _files_are_limited():
        return StorageFull(f"SQLite: {error}: a limit on the size of files, `ulimit -f`, was met")
    kind, advice = _KNOWN.get(_code(error), (None, ""))
    if kind is not None:
        return kind(f"SQLite: {error}: {advice}")
    if "no such table" in str(error) or "no such column" in str(error):
        return WrongVersion(f"SQLite: {error}: the schema was changed by hand; restore a backup")
    if str(error).endswith("already exists"):
        return UsageError(
            f"SQLite: {error}, but not as Turnabout made it: the file was changed by hand; restore "
            "a backup, or give the path of another file"
        )
    return BrokenInvariant(f"SQLite: {error} ({type(error).__name__}): please report this")


def being_moved(place: str) -> Busy:
    """Error while `turnabout move` copies the file, or has closed it."""
    return Busy(
        f"the queues of this file are being moved to {place}: repeat the call in a moment; "
        "if `turnabout move` was stopped, run it again"
    )


@contextmanager
def our_errors() -> Generator[None]:
    """Raise what SQLite reports as a TurnaboutError, the cause attached."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error) from error


def _moved(text: str) -> TurnaboutError | None:
    """The error if the queues of the file are somewhere else, or about to be."""
    _, found, place = text.partition(BEING_MOVED)
    if found:
        return being_moved(place)
    _, found, place = text.partition(MOVED)
    if found:
        return WrongVersion(f"the queues of this file were moved to {place}: connect to that URL")
    return None


def _files_are_limited() -> bool:
    """Whether this process may write no more than so much into a file; SQLite hides EFBIG."""
    if sys.platform == "win32":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def _code(error: sqlite3.Error) -> int:
    """The primary result code; 0 if the error is Python's own, such as a closed connection."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
