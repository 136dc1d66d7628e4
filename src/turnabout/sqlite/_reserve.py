"""Room for acks on a full disk: a file beside the queue's, as large as the log, given up first.

What ends a message needs room, too: for its commit in the log, and for the log's pages in the file.
So as much as the log has is kept aside. When the disk is full, sends are refused; whatever else
meets that gives the reserve up, and then there is room to move the log into the file and to write
it from its start again. Sends go on once the reserve could be made again.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from turnabout.sqlite._descriptor import Descriptor
from turnabout.words.errors import StorageFull

STEP_BYTES = 256 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """The reserve of one file, which all its processes share. Used under the writer's lock only."""

    def __init__(self, path: Path | None) -> None:
        """`path`: the queue's file; None: memory, or one that is only read."""
        is_possible = path is not None and hasattr(os, "posix_fallocate")
        self._path = Path(f"{path}-reserve") if is_possible else None
        self._file: Descriptor | None = None
        self._bytes = 0
        """The last size of the reserve."""

    def keep(self, log_bytes: int) -> None:
        """Make it as large as the log, in steps, if it has not been given up."""
        if log_bytes <= self._bytes or self._path is None:
            return
        if self._file is None:
            self._file = Descriptor(self._path, os.O_RDWR | os.O_CREAT)
        elif self._is_given_up():
            return
        self._make(-(-log_bytes // STEP_BYTES) * STEP_BYTES)

    def need(self) -> None:
        """Raises: StorageFull to a send, if it was given up and there is no room for it yet."""
        if self._is_given_up() and not self._make(max(self._bytes, STEP_BYTES)):
            raise StorageFull(
                "the disk is full, and what room was kept aside is for acks: nothing was written. "
                "Free some space, then repeat"
            )

    def give_up(self) -> bool:
        """Give its room to what is written next. Whether there was any."""
        if self._file is None and self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                self._file = Descriptor(self._path, os.O_RDWR)
        if self._file is None or self._is_given_up():
            return False
        os.ftruncate(self._file.number, 0)
        return True

    def close(self, *, remove: bool) -> None:
        """Let go of it; `remove` it where nobody has the queue's file open any more."""
        if self._file is not None and self._path is not None:
            self._file.close()
            self._file = None
            if remove:
                with contextlib.suppress(OSError):
                    self._path.unlink()

    def _is_given_up(self) -> bool:
        """Whether a process has given it up."""
        return self._file is not None and not os.fstat(self._file.number).st_size

    def _make(self, size: int) -> bool:
        """Whether there was room for it. Where that can't be done, there is none any more."""
        assert self._file is not None
        before = os.fstat(self._file.number).st_size
        try:
            os.posix_fallocate(self._file.number, 0, size)
        except OSError as error:
            os.ftruncate(self._file.number, before)
            if error.errno not in _FULL:
                self.close(remove=True)
                self._path = None
                return True
            return False
        self._bytes = size
        return True
