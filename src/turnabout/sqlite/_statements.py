"""The named statements in `sql/`, and what is put into them: how many ids there are."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from turnabout.statements import statements_in

_FOLDER = Path(__file__).parent / "sql"
_SIZES = (1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1_000)
"""Ids a statement: the numbers that people choose, and some more. Few, as they stay prepared."""


def statements(file: str, folder: Path = _FOLDER) -> Mapping[str, str]:
    """The statements of `sql/<file>.sql` by their names. A slice gives its own folder."""
    return statements_in(folder / f"{file}.sql")


def among(
    statement: str, before: Sequence[Any], ids: Sequence[int], after: Sequence[Any] = ()
) -> tuple[str, list[Any]]:
    """The statement with room for the ids in its `id in (?)`, and its values: those before the ids,
    the ids, those after. One by one they take half the time that a list in JSON does; ids that
    follow one another, as in a queue without channels, less still as a range.
    """
    count = len(ids)
    if count == 1:
        return _with_marks(statement, 1), [*before, *ids, *after]
    first, last = min(ids), max(ids)
    if last - first + 1 == count == len(set(ids)):
        return statement.replace("id in (?)", "id between ? and ?"), [*before, first, last, *after]
    if count > _SIZES[-1]:
        listed = statement.replace("in (?)", "in (select value from json_each(?))")
        return listed, [*before, json.dumps(ids), *after]
    size = _SIZES[bisect_left(_SIZES, count)]
    again = [ids[0]] * (size - count)
    return _with_marks(statement, size), [*before, *ids, *again, *after]


@lru_cache
def _with_marks(statement: str, count: int) -> str:
    """An id that is there twice counts once."""
    return statement.replace("in (?)", f"in ({', '.join('?' * count)})")
