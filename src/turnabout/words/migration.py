"""A step of a store's schema, and how far a database has come."""

from __future__ import annotations

import re
from collections.abc import Mapping

from turnabout.words.value import Value

_OLDEST = re.compile(r"^-- oldest: (\d+)$", re.MULTILINE)


class Migration(Value):
    """One numbered step; steps run in order, each in a transaction, each once.

    slice: which slice numbers it, '' for the core.
    oldest: the oldest library that can use the database from this step on. On PostgreSQL it is a
    revision of the functions, on SQLite the number of steps that a library knows. 1: any.
    """

    number: int
    name: str
    sql: str
    oldest: int = 1
    slice: str = ""


def step_of(file: str, sql: str, slice_: str = "") -> Migration:
    """The step in a file `0001_name.sql`. `-- oldest: 2`, on a line of its own, says which."""
    oldest = _OLDEST.search(sql)
    name = "/".join(part for part in (slice_, file.removesuffix(".sql")) if part)
    return Migration(int(file[:4]), name, sql, 1 if oldest is None else int(oldest[1]), slice_)


class SchemaStatus(Value):
    """A database's migration state.

    current    the core's last step that ran; 0: none
    wanted     the library's last one; current may be above it, after a newer library
    pending    what `up` would apply, of the core and of each slice that is here
    slices     the last step of each slice that the database has, here or not
    revisions  the sets of functions that are installed; empty on SQLite, which has none
    too_new    whether the library is too old for this database: upgrade it
    """

    current: int
    wanted: int
    pending: tuple[str, ...]
    slices: Mapping[str, int]
    revisions: tuple[int, ...] = ()
    too_new: bool = False
