"""SQLite files that are there already: a test process makes one, and the others are copies of it.

Making one takes twenty milliseconds and waits for the disk a dozen times; a copy does neither.
"""

import contextlib
import functools
import sqlite3
import tempfile
from pathlib import Path

import turnabout


@functools.cache
def _made(also: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.db"
        turnabout.connect(f"sqlite:///{path}").close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(also)
        return path.read_bytes()


def put_file(path: Path, also: str = "") -> str:
    """Put a file with our tables there, and what the script `also` makes; its URL."""
    path.write_bytes(_made(also))
    return f"sqlite:///{path}"
