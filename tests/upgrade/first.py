"""Databases as the first version left them."""

import sqlite3
from pathlib import Path

HERE = Path(__file__).parent


def first_sqlite(path: Path) -> None:
    """A file of the first version."""
    connection = sqlite3.connect(path)
    connection.executescript((HERE / "first_sqlite.sql").read_text())
    connection.close()
