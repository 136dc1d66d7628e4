"""The named statements in `sql/`, read once. A file holds steps: `-- name: step`, purpose, SQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_FOLDER = Path(__file__).parent / "sql"
_MARK = "-- name: "


@cache
def statements(file: str) -> Mapping[str, str]:
    """The statements of `sql/<file>.sql` by their names, without comments and final semicolon."""
    text = (_FOLDER / f"{file}.sql").read_text(encoding="utf-8")
    _, *steps = text.split(_MARK)
    found: dict[str, str] = {}
    for step in steps:
        name, *lines = step.splitlines()
        body = "\n".join(line for line in lines if not line.startswith("--"))
        assert name not in found, f"{file}.sql has two steps {name}"
        found[name] = body.strip().removesuffix(";")
    return MappingProxyType(found)
