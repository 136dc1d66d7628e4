"""The named statements of `sqlite.sql` and `postgres.sql`, read once, in the stores' own form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_MARK = "-- name: "


@cache
def statements(file: str) -> Mapping[str, str]:
    """The statements of `<file>.sql` by their names, without comments and final semicolon."""
    text = (Path(__file__).parent / f"{file}.sql").read_text(encoding="utf-8")
    _, *steps = text.split(_MARK)
    found: dict[str, str] = {}
    for step in steps:
        name, *lines = step.splitlines()
        body = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
        assert name not in found, f"{file}.sql has two steps {name}"
        found[name] = body.strip().removesuffix(";")
    return MappingProxyType(found)
