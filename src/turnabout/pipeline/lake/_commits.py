"""One commit as a value and as JSON.

Every commit tells what it adds and takes away. Every so often one tells the whole list as well, so
that a reader begins there and not at the first; older ones may then be removed.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Literal, cast

from turnabout.pipeline.lake._disk import LakeDamaged
from turnabout.words.errors import WrongVersion
from turnabout.words.value import value

FORMAT = 1
"""Of commits. A reader refuses a newer one."""

Kind = Literal["archive", "compact"]

WHOLE_EVERY = 64
"""At most this many commits are read to know all files."""


@value
class File:
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


@value
class Lost:
    """Rows that were removed from the log before they were archived: those after `after`, up to
    `floor`. Only with `--skip-lost`.
    """

    after: str
    floor: str


@value
class Commit:
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


def encode(commit: Commit) -> bytes:
    """A commit as its file holds it."""
    return (json.dumps({"format": FORMAT, **_plain(commit)}, indent=1) + "\n").encode()


def decode(data: bytes, name: str) -> Commit:
    """The commit of a file. Raises: LakeDamaged, WrongVersion."""
    try:
        found: Any = json.loads(data)
        form = found.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LakeDamaged(f"{name} is not a commit: restore it from a copy of the lake") from error
    if form != FORMAT:
        raise WrongVersion(
            f"{name} is of format {form}, and this version of Turnabout reads format {FORMAT}: "
            "upgrade Turnabout"
        )
    try:
        return _commit(found)
    except (KeyError, TypeError) as error:
        raise LakeDamaged(f"{name} is not a commit: restore it from a copy of the lake") from error


def _commit(found: dict[str, Any]) -> Commit:
    lost = found.pop("lost", None)
    files = found.pop("files", None)
    added = _files(found.pop("added"))
    removed = tuple(found.pop("removed", ()))
    return Commit(
        added=added,
        removed=removed,
        lost=None if lost is None else Lost(**lost),
        files=None if files is None else _files(files),
        **found,
    )


def _files(found: list[dict[str, Any]]) -> tuple[File, ...]:
    return tuple(File(**one) for one in found)


def _plain(thing: object) -> Any:
    """Values as dictionaries; what is absent is left out."""
    if isinstance(thing, (Commit, File, Lost)):
        named = {field.name: getattr(thing, field.name) for field in fields(thing)}
        return {name: _plain(part) for name, part in named.items() if part is not None}
    if isinstance(thing, tuple):
        return [_plain(part) for part in cast("tuple[object, ...]", thing)]
    return thing
