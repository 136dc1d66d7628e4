"""The schema of the SQLite store: numbered steps. Opening a file runs what is missing by itself;
this module is for those who want to look first, or to do it by hand.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import files

from penstock.sqlite._connection import APPLICATION_ID, open_writer, schema
from penstock.sqlite._errors import our_errors
from penstock.sqlite._url import place
from penstock.words.migration import Migration, SchemaStatus


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps, in order."""
    inside = (files("penstock.sqlite") / "migrations").iterdir()
    found = sorted((f for f in inside if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(
        Migration(int(f.name[:4]), f.name.removesuffix(".sql"), f.read_text(encoding="utf-8"))
        for f in found
    )


def script() -> str:
    """Everything, to run with any tool on an empty file."""
    steps = [f"-- {step.name}\n{step.sql}" for step in migrations()]
    marks = [
        f"pragma user_version = {migrations()[-1].number};",
        f"pragma application_id = {APPLICATION_ID};",
    ]
    return "\n".join(["begin immediate;", *steps, *marks, "commit;", ""])


def up(url: str) -> tuple[str, ...]:
    """Bring a file to this library's schema, and make it if it is missing.

    Answers with the names of the steps that ran, nothing if all had.
    Raises: WrongVersion if the file is newer than this library; Forbidden; UsageError.
    """
    before = status(url)
    with our_errors(), closing(open_writer(place(url))):
        return before.pending


def status(url: str) -> SchemaStatus:
    """How far a file has come. Makes no file, changes nothing."""
    path = place(url).path
    wanted = migrations()[-1].number
    current = 0
    if path is not None and path.exists():
        with our_errors(), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            current = schema(file)
    return SchemaStatus(
        current, wanted, tuple(step.name for step in migrations() if step.number > current)
    )
