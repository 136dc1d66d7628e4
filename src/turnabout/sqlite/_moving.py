"""Why a file's write lock is held for long: `turnabout move` copies it to another database.

That cannot be said in the file itself, where nothing is seen before it is committed. So the place
it goes to stands in a file beside it, and counts while that one is locked.
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
