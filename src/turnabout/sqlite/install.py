"""The schema of the SQLite store: numbered steps. Opening a file runs what is missing by itself;
this module is for those who want to look first, or to do it by hand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType

from turnabout.sqlite import _schema
from turnabout.sqlite._connection import address, may_only_read, open_writer
from turnabout.sqlite._errors import our_errors
from turnabout.sqlite._url import place
from turnabout.words.migration import Migration, SchemaStatus


def migrations() -> tuple[Migration, ...]:
    """The steps, in order."""
    return _schema.migrations()


def steps(since: Mapping[str, int] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the statements that a file lacks whose core (`""`) and slices are at these versions.
    Parts without a version are missing: without any, the file has nothing yet.

    To run in this order, in one transaction: nothing in it begins or ends one.
    """
    return tuple(_schema.statements(_schema.beyond(since)))


def up(url: str) -> tuple[str, ...]:
    """Bring a file to this library's schema, and make it if it is missing.

    Answers with the names of the steps that ran here: none if all had, or others were faster.
    Raises: WrongVersion if the file is beyond this library; Forbidden; UsageError.
    """
    with our_errors(), closing(open_writer(place(url))) as connection:
        return connection.applied


def prune(url: str) -> tuple[str, ...]:
    """Nothing: a file has no functions, so no older ones are kept."""
    place(url)
    return ()


def status(url: str) -> SchemaStatus:
    """Return a file's migration state. Makes no file, changes nothing."""
    path = place(url).path
    found: dict[str, _schema.Reached] = {}
    if path is not None and path.exists():
        # Not mode=ro: what a killed process has left in the log could not be read then.
        where = address(path) if may_only_read(path) else f"{path.as_uri()}?mode=rw"
        with our_errors(), closing(sqlite3.connect(where, uri=True)) as file:
            found = _schema.reached(file)
    return SchemaStatus(
        found[""].step if found else 0,
        _schema.wanted(),
        tuple(step.name for step in _schema.missing(found)),
        {name: there.step for name, there in found.items() if name},
        too_new=_schema.is_too_new(found),
    )
