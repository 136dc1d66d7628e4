"""Values of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def value_of(kind: type[T], row: sqlite3.Row, **others: Any) -> T:
    """A value whose fields are the row's columns of these names, but for those that are given."""
    made: Any = kind
    columns = [name for name in made.__struct_fields__ if name not in others]
    return made(**{name: row[name] for name in columns}, **others)


def in_room(rows: Iterable[sqlite3.Row], room_bytes: int | None, *sized: str) -> list[sqlite3.Row]:
    """The rows up to the one with which these columns fill the room; None: all."""
    if room_bytes is None:
        return list(rows)
    taken: list[sqlite3.Row] = []
    for row in rows:
        taken.append(row)
        room_bytes -= sum(len(row[column] or b"") for column in sized)
        if room_bytes <= 0:
            break
    return taken
