"""Temporary files are kept in memory where the machine has room for them: PostgreSQL copies a
database there ten times as fast, and a run writes hundreds.
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

PLACE: Final = Path("/dev/shm")
FREE_BYTES: Final = 4 << 30
"""More than a run takes, beside which a machine has other things to do."""


def pytest_configure() -> None:
    """Before anybody has asked where they are; what is started from here follows."""
    with contextlib.suppress(OSError):
        found = os.statvfs(PLACE)
        roomy = found.f_bavail * found.f_frsize >= FREE_BYTES
        # A container's refuses programs, of which some tests write a few.
        if roomy and not found.f_flag & os.ST_NOEXEC and os.access(PLACE, os.W_OK):
            os.environ.setdefault("TMPDIR", str(PLACE))
            tempfile.tempdir = None
