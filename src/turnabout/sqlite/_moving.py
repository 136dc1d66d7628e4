"""The reason of a long write lock on a file: `turnabout move` copies it to another database.

The file itself cannot say so, as readers see nothing uncommitted. So the URL it goes to stands in a
file beside it, and counts while that one is locked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from turnabout.sqlite._descriptor import Descriptor

if sys.platform != "win32":
    import fcntl

PLACE_BYTES_MAX = 4096


def sign_of(path: Path) -> Path:
    """The file that says where another one is being moved to."""
    return path.with_name(f"{path.name}-moving")


def target_of(path: Path | None) -> str | None:
    """Return the target of a running move. None: there is none, whatever a killed one has left."""
    if path is None or sys.platform == "win32":
        return None
    try:
        sign = Descriptor(sign_of(path), os.O_RDONLY)
        try:
            fcntl.flock(sign.number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.read(sign.number, PLACE_BYTES_MAX).decode(errors="replace") or None
    except OSError:
        pass  # there is none, or no flock
    return None
