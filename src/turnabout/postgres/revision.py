"""The sets of functions that this library calls.

Each revision of the functions has a schema of its own, so two versions of the library can work on
one database. The functions' files say `turnabout.`, where the latest set stands for people who
write SQL, and those of a slice `turnabout_<slice>.` for their own; `rendered` makes a text speak of
this library's own sets instead. Tables and types are shared.
"""

from __future__ import annotations

import re
from functools import cache

from turnabout import slices

REVISION = 1
"""Rises with the first change of a function after each release."""

DIGEST = "bd01649dfc94fb9a"
"""Digest of today's functions. A test compares, so that nobody forgets to raise `REVISION`."""

SCHEMA = "turnabout"

_CALL = re.compile(r"\bturnabout(?:_([a-z]+))?\.(\w+)\(")
"""A function: its name is followed by a parenthesis at once, that of a table never is."""


@cache
def schema(slice_: str = "", revision: int = REVISION) -> str:
    """The schema of this library's functions: the core's, or those of a slice, which are made for
    that revision of the core's.
    """
    core = f"{SCHEMA}_r{revision}"
    if not slice_:
        return core
    (number,) = [s.revision for s in slices.found() if s.name == slice_]
    return f"{core}_{slice_}_r{number}"


def rendered(sql: str, revision: int = REVISION) -> str:
    """The text with every function of Turnabout's taken from the schema of its set."""
    return _CALL.sub(lambda call: f"{schema(call[1] or '', revision)}.{call[2]}(", sql)
