"""Metadata of a Parquet file: the one place of the lake that needs pyarrow."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from turnabout.pipeline.lake import _disk
from turnabout.pipeline.lake._commits import File
from turnabout.pipeline.lake._disk import LakeDamaged

_DAY = re.compile(r"day=([0-9]{4}-[0-9]{2}-[0-9]{2})")


def measured(path: Path, root: Path) -> File:
    """A file of the lake: its footer, size and digest. Raises: LakeDamaged."""
    day = _DAY.fullmatch(path.parent.name)
    if day is None:
        raise LakeDamaged(f"{path} is not in the folder of a day: a row has no finished_at")
    rows, first, last = _footer(path)
    name = path.relative_to(root).as_posix()
    return File(name, rows, path.stat().st_size, _disk.sha256(path), day[1], first, last)


def rows_of(path: Path) -> int:
    """Count a Parquet file's rows. Raises: LakeDamaged."""
    return int(_metadata(path).num_rows)


def _metadata(path: Path) -> Any:
    parquet: Any = import_module("pyarrow.parquet")  # it has no types
    broken: Any = import_module("pyarrow").ArrowInvalid
    try:
        return parquet.read_metadata(path)
    except broken as error:
        raise LakeDamaged(f"{path} is not a Parquet file: {error}") from error


def _footer(path: Path) -> tuple[int, int, int]:
    """Rows, and the first and last finished_at in milliseconds."""
    metadata = _metadata(path)
    leaves = range(metadata.num_columns)
    leaf = next(i for i in leaves if metadata.schema.column(i).path == "finished_at")
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    found = [group.column(leaf).statistics for group in groups if group.num_rows]
    firsts = [round(one.min.timestamp() * 1000) for one in found]
    lasts = [round(one.max.timestamp() * 1000) for one in found]
    return int(metadata.num_rows), min(firsts, default=0), max(lasts, default=0)
