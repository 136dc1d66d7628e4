"""Files beside the database, and a look at the database itself, that are open as long as somebody
has them: a handle that is dropped without `close()` leaves none behind.
"""

from __future__ import annotations

import os
from pathlib import Path

LOOKS_ONLY = getattr(os, "O_PATH", None)
"""Opening the database beside SQLite: closing it any other way drops SQLite's own locks."""


class Descriptor:
    """The number of an open file."""

    __slots__ = ("number",)

    def __init__(self, path: Path | str, flags: int) -> None:
        """Raises: OSError."""
        self.number = -1
        self.number = os.open(path, flags, 0o666)

    def close(self) -> None:
        """Close it; nothing where it was closed."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    __del__ = close
