"""`archive`: the log into the lake, each row once, wherever it is killed.

One batch: `LogNext` after the archive's position → that very range as Parquet files → their rows
are counted against the range → commit → watermark. The table's transaction has the number of rows
archived so far, the watermark the same number with the position; a commit whose watermark is
missing has its position itself.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from turnabout.pipeline.jobs._failures import spark_errors
from turnabout.pipeline.lake import ArchiveTable, Commit, Lake, Storage, WrittenFile, write
from turnabout.pipeline.results import Archived
from turnabout.pipeline.schema import LOG
from turnabout.pipeline.spark import rows
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.filters import Names
from turnabout.pipeline.verbs import (
    START,
    LogAhead,
    LogCut,
    LogLost,
    LogNext,
    LogRange,
    Watermark,
    WatermarkList,
    WatermarkSet,
)
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.value import Value, replace

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

_ROWS_EACH = 50_000
"""Fewer rows than that are one task, and one file a day."""


class RowsLost(TurnaboutError):
    """Rows of the log were removed before they were archived."""

    code = "rows_lost"


Progress = Callable[[Archived], object]


ArchiveStage = Callable[[LogRange], Sequence[WrittenFile]]
"""Writes the rows of a range as Parquet files of the archive's table. Raises: whatever stops it;
then nothing is committed.
"""


def archive(
    url: str,
    lake: str | PathLike[str],
    *,
    spark: SparkSession | None = None,
    archive: str = "archive",
    once: bool = True,
    every_seconds: float = 30.0,
    max_rows: int = 1_000_000,
    include_value: bool = True,
    skip_lost: bool = False,
    adopt: bool = False,
    namespace: str | None = None,
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Archived:
    """Bring the log into a lake: what finished since the last commit, in batches of `max_rows`.

    `once` ends when nothing is left; else it looks every `every_seconds` until `stop` is set,
    and ends after the batch that runs. Killed anywhere, the next run goes on at the last commit.

    lake       a folder, or a URL such as s3://bucket/lake; the archive is a Delta table in it
    spark      a session whose executors read and write; without one this process does
    archive    its name: in the lake, and as a watermark in the database
    include_value  False leaves payloads out (`replay` needs them)
    skip_lost  go on where rows were removed before they were archived; the commit notes it
    adopt      go on with an archive that this database has no watermark of
    namespace, token  archive only what they cover; such an archive holds no purge back
    storage_options  of an object store: what delta-rs takes, beside the environment
    Raises: RowsLost; UsageError: the lake and the database are not of one archive; Overtaken:
            another archiver is at work; JobFailed, StorageFull, Forbidden, Disconnected.
    """
    limits.whole(max_rows, "max_rows", 1, limits.INTEGER_MAX)
    with closing(Access(url, token=token, namespace=namespace)) as access:
        access.allow("history", None)
        place = Lake(lake, storage_options=storage_options).place(archive)
        table = ArchiveTable(place, archive, access.namespace)
        part = RangePart(access, place, archive, include_value)
        stage = LocalStage(part) if spark is None else SparkStage(part, spark)
        archiver = Archiver(access, table, stage, max_rows=max_rows, skip_lost=skip_lost)
        return archiver.run(
            adopt=adopt, progress=progress, stop=stop, every_seconds=None if once else every_seconds
        )


class Archiver:
    """The loop, whoever writes: what it does next, it reads from the table and the database."""

    def __init__(
        self,
        access: Access,
        table: ArchiveTable,
        stage: ArchiveStage,
        *,
        max_rows: int = 1_000_000,
        skip_lost: bool = False,
    ) -> None:
        self._access, self._table, self._stage = access, table, stage
        self._max_rows, self._skip_lost = max_rows, skip_lost
        self.position = START

    def agree(self, *, adopt: bool = False) -> None:
        """Check that table and database are of one archive, and set a watermark that a killed run
        did not come to. Raises: UsageError.
        """
        table = self._table
        mark = may_begin(self._access, table)
        if table.total is None:
            table.create()
            return
        if mark is not None and mark.messages == table.total:
            self.position = mark.position
            return
        if mark is not None and mark.messages > table.total:
            raise UsageError(
                f"the archive {table.archive} in {table.storage.uri} has {table.total:,} rows, and "
                f"this database has seen {mark.messages:,}: it is an older copy. Name the right one"
            )
        last = table.last()
        if last is None:
            raise UsageError(
                f"the last batch of the archive {table.archive} is gone from its table's log, so "
                "its position is unknown: begin another archive (--archive NAME)"
            )
        before = START if mark is None else mark.position
        if table.namespace is None and last.after != before and not adopt:
            raise UsageError(_another_database(table, mark))
        self._note(last)

    def run(
        self,
        *,
        adopt: bool = False,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
        every_seconds: float | None = None,
    ) -> Archived:
        """Batches until nothing is left, or with `every_seconds` until `stop` is set."""
        began = time.monotonic()
        stop = stop or threading.Event()
        self.agree(adopt=adopt)
        done = Archived(self._table.archive, total=self._table.total or 0, position=self.position)
        more = True
        while (more or every_seconds is not None) and not stop.is_set():
            step = self.step()
            if step is None:
                more = False
                if every_seconds is not None:
                    stop.wait(max(every_seconds, 0.1))  # `0` must not spin
                continue
            commit, files, more = step
            done = _added(done, commit, files, time.monotonic() - began)
            if progress is not None:
                progress(done)
        return replace(done, seconds=time.monotonic() - began)

    def step(self) -> tuple[Commit, Sequence[WrittenFile], bool] | None:
        """One batch: its commit, its files, and whether there is more. None: there was nothing."""
        after = self.position
        found, lost = self._next(after)
        if found.messages == 0:
            return None
        files = self._stage(found)
        rows = found.messages
        if self._table.namespace is not None:  # the range has all namespaces' rows
            rows = sum(file.rows for file in files)
        commit = self._table.commit(files, rows=rows, position=found.until, after=after, lost=lost)
        self._note(commit)
        return commit, files, found.more

    def _next(self, after: str) -> tuple[LogRange, str | None]:
        found = self._access.run(LogNext(after, self._max_rows))
        lost = None
        if isinstance(found, LogLost):
            lost = found.floor
            if not self._skip_lost:
                raise RowsLost(self._loss_message(after, lost))
            found = self._access.run(LogNext(after, self._max_rows, ignore_loss=True))
        if isinstance(found, LogAhead):
            raise UsageError(
                f"the lake or the history is ahead of this database's log, which ends at "
                f"{found.end!r}: it was restored from a backup, or is another one. See Backup in "
                "docs/operations.md, then begin another archive (--archive NAME)"
            )
        assert isinstance(found, LogRange)
        return found, lost

    def _loss_message(self, after: str, floor: str) -> str:
        last = self._table.last()
        when = None if last is None else datetime.fromtimestamp(last.at / 1000, UTC)
        at = "" if when is None else f"; its last batch is of {when:%F %T} UTC"
        return (
            f"rows after position {after!r} and up to {floor!r} were removed (retention, clear, a "
            f"deleted queue) before they were archived{at}. --skip-lost goes on without them and "
            "notes it; keep history for longer than the time between two runs"
        )

    def _note(self, commit: Commit) -> None:
        if self._table.namespace is None:
            self._access.run(WatermarkSet(self._table.archive, commit.position, commit.total))
        self.position = commit.position


def may_begin(access: Access, table: ArchiveTable) -> Watermark | None:
    """Find the archive's watermark. Refuse to begin an archive that has been written elsewhere, as
    a slip in a path would archive everything again, and one in a table that holds something else.

    Raises: UsageError.
    """
    if table.total is None and table.holds is not None:
        raise UsageError(
            f"the archive {table.archive} holds {table.holds}: archive something else under "
            "another name"
        )
    if table.namespace is not None:
        return None
    marks = access.run(WatermarkList())
    mark = next((mark for mark in marks if mark.archive == table.archive), None)
    if table.total is None and mark is not None:
        count = "1 row" if mark.messages == 1 else f"{mark.messages:,} rows"
        raise UsageError(
            f"the archive {table.archive!r} of this database has {count} in another lake: name "
            "that lake, or give this one another name (--archive NAME); "
            f"`turnabout pipeline forget {table.archive}` ends the old one"
        )
    return mark


class RangePart(Value):
    """A task: rows of a range, as files of a table. Picklable; executors carry it out, too."""

    access: Any
    table: Storage
    archive: str
    include_value: bool

    def write(self, span: LogRange) -> list[WrittenFile]:
        """Read the rows and write them. Raises: as `rows.read` and `lake.write`."""
        prefix = f"part-{self.archive}-{secrets.token_hex(4)}"
        namespace = self.access.namespace
        columns = tuple(name for name in LOG if self.include_value or name != "value")
        found = rows.read(
            self.access,
            "log_rows",
            columns,
            of=rows.Span(span.after, span.until),
            names=None if namespace is None else Names(namespace=namespace),
        )
        return write(found, self.table, prefix)

    def cut(self, found: LogRange, most: int) -> Sequence[LogRange]:
        """Divide a range into tasks, at most `most`."""
        parts = min(most, ceil(found.messages / _ROWS_EACH))
        if parts < 2:
            return (found,)
        return tuple(self.access.run(LogCut(found.after, found.until, parts, exact=False)))


class LocalStage:
    """Writes a range in this process, in as many threads as there are processors."""

    def __init__(self, part: RangePart) -> None:
        self._part = part

    def __call__(self, found: LogRange) -> Sequence[WrittenFile]:
        """Write a range, see `ArchiveStage`."""
        parts = self._part.cut(found, os.cpu_count() or 1)
        with ThreadPoolExecutor(len(parts)) as pool:
            return [file for files in pool.map(self._part.write, parts) for file in files]


class SparkStage:
    """Writes a range by Spark's executors: each reads the database and writes to the table's place.
    Rows don't pass through Java.
    """

    def __init__(self, part: RangePart, spark: SparkSession) -> None:
        from turnabout.pipeline.spark.sessions import beside

        self._part, self._spark = part, beside(spark)
        self._cores = max(spark.sparkContext.defaultParallelism, 1)

    def __call__(self, found: LogRange) -> Sequence[WrittenFile]:
        """Write a range, see `ArchiveStage`. Raises: JobFailed, StorageFull, and what reading
        raises.
        """
        part = self._part
        spans = part.cut(found, self._cores)

        def task(batches: Iterable[Any]) -> Iterator[Any]:
            arrow: Any = pa
            for batch in batches:
                numbers: Sequence[int] = batch.column(0).to_pylist()
                for number in numbers:
                    written = part.write(spans[number])
                    yield arrow.RecordBatch.from_pydict(
                        {"file": [msgspec.json.encode(file).decode() for file in written]},
                        schema=arrow.schema([("file", arrow.string())]),
                    )

        with spark_errors(part.access, "while it wrote to the lake"):
            tasks: Any = self._spark.range(0, len(spans), 1, len(spans))
            found_files = tasks.mapInArrow(task, "file string").collect()
        return [msgspec.json.decode(row[0], type=WrittenFile) for row in found_files]


def _another_database(table: ArchiveTable, mark: Watermark | None) -> str:
    if mark is None:
        return (
            f"this database knows no archive {table.archive}, and the lake has {table.total:,} "
            "rows of one: it is another database's (use another --archive name), or was forgotten "
            "(--adopt goes on with it)"
        )
    return (
        f"the archive {table.archive} in the lake has {table.total:,} rows, and this database has "
        f"seen {mark.messages:,}, more than a batch less: the database was restored from a backup, "
        "or this is another one. See Backup in docs/operations.md, then begin another archive "
        "(--archive NAME), or go on with this one (--adopt)"
    )


def _added(
    done: Archived, commit: Commit, files: Sequence[WrittenFile], seconds: float
) -> Archived:
    return replace(
        done,
        rows=done.rows + commit.rows,
        files=done.files + len(files),
        bytes=done.bytes + sum(file.bytes for file in files),
        batches=done.batches + 1,
        total=commit.total,
        position=commit.position,
        lost=done.lost + (commit.lost is not None),
        seconds=seconds,
    )
