"""`compact`: a day's many files become few, with the same rows; readers of the old ones go on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from turnabout.pipeline.lake import Lake
from turnabout.pipeline.results import Compacted
from turnabout.words import limits
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from os import PathLike

TARGET_BYTES = 128 * 1024 * 1024
"""Size of a file: large enough to read quickly, small enough to be a task's work."""
KEEP_HOURS_MIN = 1.0
"""A batch that is being written has no commit yet: its files must not be taken for leftovers."""


def compact(
    lake: str | PathLike[str],
    *,
    archive: str | None = None,
    older_than_days: float = 1.0,
    keep_hours: float = 168.0,
    target_bytes: int = TARGET_BYTES,
    storage_options: Mapping[str, str] | None = None,
    now: float | None = None,
) -> Compacted:
    """Merge the files of days that ended more than `older_than_days` ago, and remove files that
    were replaced, or left by a killed run, more than `keep_hours` ago. An archiver may go on.

    archive  needed if the lake has several
    now      seconds since 1970; the clock's unless it is given
    Raises: UsageError: no lake, no such archive; LakeDamaged: an old file is not what it was;
            StorageFull, Forbidden, Unavailable.
    """
    limits.whole(target_bytes, "target_bytes", 1, limits.ID_MAX)
    if keep_hours < KEEP_HOURS_MIN:
        raise UsageError("keep files for an hour at least: a batch that is written has no commit")
    at = time.time() if now is None else now
    ends = datetime.fromtimestamp(at, UTC) - timedelta(days=older_than_days)
    began = time.monotonic()
    place = Lake(lake, storage_options=storage_options)
    name = place.only(archive)
    table = place.table(name)
    place.check(name, deep=True, before=f"{ends:%Y-%m-%d}")  # a broken row would stay for good
    with place.storage.disk_errors():
        merged = table.optimize.compact(
            partition_filters=[("day", "<", f"{ends:%Y-%m-%d}")], target_size=target_bytes
        )
        removed = table.vacuum(
            retention_hours=round(keep_hours),
            enforce_retention_duration=False,
            dry_run=False,
            full=True,
        )
    return Compacted(
        before=merged["numFilesRemoved"],
        after=merged["numFilesAdded"],
        removed=len(removed),
        seconds=time.monotonic() - began,
    )
