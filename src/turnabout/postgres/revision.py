"""Which set of functions this library calls.

Each revision of the functions has a schema of its own, so two versions of the library can work on
one database. The functions' files say `turnabout.`, where the latest set stands for people who
write SQL; `rendered` makes a text speak of this library's own set instead. Tables and types are
shared.
"""

from __future__ import annotations

import re

REVISION = 1
"""Rises with the first change of a function after each release."""

DIGEST = "a1ee9ed1fd36e70a"
"""Of the functions as they are now. A test compares, so that nobody forgets to raise `REVISION`."""

SCHEMA = "turnabout"

_CALL = re.compile(r"\bturnabout\.(\w+)\(")
"""A function: its name is followed by a parenthesis at once, that of a table never is."""


def schema(revision: int = REVISION) -> str:
    """The schema of a revision's functions."""
    return f"{SCHEMA}_r{revision}"


def rendered(sql: str, revision: int = REVISION) -> str:
    """The text with every function of Turnabout's taken from that revision's schema."""
    return _CALL.sub(rf"{schema(revision)}.\1(", sql)
