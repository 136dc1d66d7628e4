"""One commit as a value and as JSON.

Every commit tells what it adds and takes away. Every so often one tells the whole list as well, so
that a reader begins there and not at the first; older ones may then be removed.
"""

from __future__ import annotations

import json
from typing import Literal, TypeVar

import msgspec

from turnabout.pipeline.lake._disk import LakeDamaged
from turnabout.words.errors import WrongVersion
from turnabout.words.value import Value

T = TypeVar("T")

FORMAT = 1
"""Version of commits and plans. A reader refuses a newer one."""

Kind = Literal["archive", "compact"]

WHOLE_EVERY = 64
"""At most this many commits are read to know all files."""


class File(Value):
    """A Parquet file of the lake. path: from the lake's folder; first, last: the earliest and the
    latest finished_at in it, in milliseconds.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    day: str
    first: int
    last: int


class Lost(Value):
    """Rows that were removed from the log before they were archived: those after `after`, up to
    `floor`. Only with `--skip-lost`.
    """

    after: str
    floor: str


class Commit(Value):
    """A step of an archive.

    at         when it was made, in milliseconds       position  up to where the log is in the lake
    after      where its range began; a compaction has none (None)
    rows       rows in `added`                         total     rows of the archive up to here
    namespace  of an archive of one namespace; such an archive holds no purge back
    files      all that count after it, at every 64th commit and at each compaction; else None
    """

    archive: str
    version: int
    kind: Kind
    at: int
    position: str
    rows: int
    total: int
    added: tuple[File, ...]
    after: str | None = None
    removed: tuple[str, ...] = ()
    namespace: str | None = None
    lost: Lost | None = None
    files: tuple[File, ...] | None = None


def encode(thing: object) -> bytes:
    """A value as a file of the lake holds it."""
    return (json.dumps({"format": FORMAT, **msgspec.to_builtins(thing)}, indent=1) + "\n").encode()


def decode(data: bytes, name: str, kind: type[T]) -> T:
    """The value of the file of that name. Raises: LakeDamaged, WrongVersion."""
    try:
        form = msgspec.json.decode(data, type=_CommitForm).format
        if form == FORMAT:
            return msgspec.json.decode(data, type=kind)
    except ValueError as error:
        what = f"{name} is not a {kind.__name__.lower()}"
        raise LakeDamaged(f"{what} ({error}): restore it from a copy of the lake") from error
    raise WrongVersion(
        f"{name} is of format {form}, and this version of Turnabout reads format {FORMAT}: "
        "upgrade Turnabout"
    )


class _CommitForm(msgspec.Struct):
    format: int
