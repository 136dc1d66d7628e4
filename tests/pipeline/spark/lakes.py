"""Staged files for tests of the lake, without Spark: what a batch of an archive leaves behind."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from turnabout.pipeline.lake import Commit, CommitLog, Lake, hold
from turnabout.pipeline.spark import rows
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.schema import LOG
from turnabout.pipeline.verbs import LogRange

DAY_MS = 86_400_000
NOON = 1_800_014_400_000
"""An instant: 2027-01-15, 12:00 UTC."""


def stage(folder: Path, ids: list[int], at: int = NOON) -> None:
    """Rows of one day, in a file of their own."""
    instant = datetime.fromtimestamp(at / 1000, UTC)
    into = folder / f"day={instant:%Y-%m-%d}"
    into.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "message_id": pa.array(ids, pa.int64()),
            "finished_at": pa.array([instant] * len(ids), pa.timestamp("us", "UTC")),
        }
    )
    write: Any = pq.write_table
    write(table, into / f"{len(list(into.iterdir()))}.parquet")


def batch(log: CommitLog, ids: list[int], at: int = NOON) -> Commit:
    """One commit of an archive: the position is the number of rows."""
    head = log.head
    after = "" if head is None else head.position
    staged = log.staging / "rows"
    stage(staged, ids, at)
    total = len(ids) + (0 if head is None else head.total)
    return log.append(staged, rows=len(ids), position=str(total), after=after)


def archived(lake: Lake, ids: list[int], at: int = NOON, archive: str = "a") -> Commit:
    """One commit by a process of its own."""
    with hold(lake, archive, "archive") as log:
        return batch(log, ids, at)


def merged(lake: Lake, archive: str = "a") -> Commit:
    """All files of an archive as one."""
    with hold(lake, archive, "compact") as log:
        taken = lake.files(archive)
        stage(log.staging / "rows", ids_of(lake, archive))
        return log.append(log.staging / "rows", rows=sum(f.rows for f in taken), taken=taken)


def ids_of(lake: Lake, archive: str | None = None, version: int | None = None) -> list[int]:
    """What is in the lake, in order."""
    read: Any = pq.read_table
    found: list[int] = []
    for path in lake.paths(archive, version=version):
        found += read(path, columns=["message_id"], partitioning=None)["message_id"].to_pylist()
    return sorted(found)


class PlainStage:
    """`archive.ArchiveStage` without Spark: the rows of a range as Parquet, in a file a day."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def __call__(self, found: LogRange, folder: Path, *, lost: bool) -> int:
        span = rows.Span(found.after, found.until)
        days: dict[str, list[dict[str, Any]]] = {}
        for part in rows.read(self.access, "log_rows", tuple(LOG), of=span):
            for row in part.to_pylist():
                days.setdefault(f"{row['finished_at']:%Y-%m-%d}", []).append(row)
        schema = pa.schema([(name, kind) for name, (kind, _) in LOG.items()])
        for day, its in days.items():
            into = folder / f"day={day}"
            into.mkdir(parents=True)
            write: Any = pq.write_table
            write(pa.Table.from_pylist(its, schema), into / "0.parquet")
        return found.messages
