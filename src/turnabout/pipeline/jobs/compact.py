"""`compact`: a day's many files become few, with the same rows; readers of the old ones go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING

from turnabout.pipeline.jobs._failures import told
from turnabout.pipeline.jobs.archive import ORDER
from turnabout.pipeline.lake import CommitLog, File, Lake, hold
from turnabout.pipeline.results import Compacted
from turnabout.pipeline.spark.schema import LOG, ddl
from turnabout.words import limits
from turnabout.words.value import replace

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

TARGET_BYTES = 128 * 1024 * 1024
"""Size of a file: large enough to read quickly, small enough to be a task's work."""


def compact(
    spark: SparkSession,
    lake: str | PathLike[str],
    *,
    archive: str | None = None,
    older_than_days: float = 1.0,
    keep_hours: float = 24.0,
    target_bytes: int = TARGET_BYTES,
    progress: Callable[[Compacted], object] | None = None,
    stop: threading.Event | None = None,
    now: float | None = None,
) -> Compacted:
    """Merge the files of each day that ended more than `older_than_days` ago.

    A commit for each day; what it replaced is removed by a run that comes `keep_hours` later. An
    archiver may go on meanwhile.

    archive  only this one; else all of the lake
    now      seconds since 1970; the clock's unless it is given
    Raises: UsageError: no lake, no such archive; LakeDamaged: an old file is not what it was;
            Taken, Overtaken: another compaction is at work; JobFailed, StorageFull, Forbidden.
    """
    limits.whole(target_bytes, "target_bytes", 1, limits.ID_MAX)
    at = time.time() if now is None else now
    ends = datetime.fromtimestamp(at, UTC) - timedelta(days=older_than_days)
    began = time.monotonic()
    stop = stop or threading.Event()
    place = Lake(lake)
    names = place.archives() if archive is None else (archive,)
    done: Compacted = Compacted()
    for name in names:
        with hold(place, name, "compact") as log:
            for files in _days(place.files(name), f"{ends:%Y-%m-%d}", target_bytes):
                if stop.is_set():
                    break
                place.check_files(files, deep=True)  # else a broken row is copied for good
                added = _merge(spark, log, files, target_bytes)
                done = _added(done, files, added, time.monotonic() - began)
                if progress is not None:
                    progress(done)
            removed = place.tidy(name, round((at - keep_hours * 3600) * 1000))
            done = replace(done, removed=done.removed + removed)
    return replace(done, seconds=time.monotonic() - began)


def _days(files: Sequence[File], before: str, target_bytes: int) -> list[list[File]]:
    """The files of each day that would become fewer, oldest first."""
    day_of = attrgetter("day")
    found: list[list[File]] = []
    for day, group in groupby(sorted(files, key=day_of), key=day_of):
        small = [file for file in group if file.bytes < target_bytes]
        if day < before and len(small) > _count(small, target_bytes):
            found.append(small)
    return found


def _count(files: Sequence[File], target_bytes: int) -> int:
    return max(1, ceil(sum(file.bytes for file in files) / target_bytes))


def _merge(
    spark: SparkSession, log: CommitLog, files: Sequence[File], target_bytes: int
) -> Sequence[File]:
    from turnabout.pipeline.spark.sessions import beside

    folder = log.staging / "rows"
    paths = [str(log.lake.folder / file.path) for file in files]
    parts = _count(files, target_bytes)
    with told(None, "while it merged files"):
        frame = beside(spark).read.schema(ddl(LOG)).parquet(*paths)
        frame = frame.coalesce(1) if parts == 1 else frame.repartitionByRange(parts, *ORDER)
        frame = frame.sortWithinPartitions(*ORDER)
        frame.write.mode("overwrite").parquet(str(folder / f"day={files[0].day}"))
    rows = sum(file.rows for file in files)
    return log.append(folder, rows=rows, taken=files).added


def _added(
    done: Compacted, files: Sequence[File], added: Sequence[File], seconds: float
) -> Compacted:
    return replace(
        done,
        days=done.days + 1,
        rows=done.rows + sum(file.rows for file in added),
        before=done.before + len(files),
        after=done.after + len(added),
        bytes=done.bytes + sum(file.bytes for file in added),
        seconds=seconds,
    )
