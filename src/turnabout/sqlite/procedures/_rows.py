"""From rows to values."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeVar

T = TypeVar("T")


def value_of(kind: type[T], row: sqlite3.Row, **others: Any) -> T:
    """A value whose fields are the row's columns of these names, but for those that are given."""
    made: Any = kind
    columns = [name for name in made.__dataclass_fields__ if name not in others]
    return made(**{name: row[name] for name in columns}, **others)
