"""Named statements: a file of SQL holds steps, each headed by `-- name: step` and its purpose."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_MARK, _ONLY = "-- name: ", "  -- only: "


@cache
def statements_in(file: Path) -> Mapping[str, str]:
    """The statements in a file by their names, without comments and final semicolon. Those that are
    alike are one text under all their names; `-- only: a, b` ends a line that others don't have.
    """
    _, *steps = file.read_text(encoding="utf-8").split(_MARK)
    found: dict[str, str] = {}
    for step in steps:
        names, *lines = step.splitlines()
        parts = [line.partition(_ONLY) for line in lines if not line.lstrip().startswith("--")]
        for name in names.split(", "):
            body = "\n".join(line for line, _, of in parts if not of or name in of.split(", "))
            assert name not in found, f"{file.name} has two steps {name}"
            found[name] = body.strip().removesuffix(";")
    return MappingProxyType(found)
