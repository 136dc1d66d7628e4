"""Named statements: a file of SQL holds steps, each headed by `-- name: step` and its purpose."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_MARK = "-- name: "


@cache
def statements_in(file: Path) -> Mapping[str, str]:
    """The statements in a file by their names, without comments and final semicolon."""
    _, *steps = file.read_text(encoding="utf-8").split(_MARK)
    found: dict[str, str] = {}
    for step in steps:
        name, *lines = step.splitlines()
        body = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
        assert name not in found, f"{file.name} has two steps {name}"
        found[name] = body.strip().removesuffix(";")
    return MappingProxyType(found)
