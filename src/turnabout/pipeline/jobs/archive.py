"""`archive`: the log into the lake, each row once, wherever it is killed.

One batch: `LogNext` after the last commit's position → that very range as Parquet, staged → its
files get names, footers are counted against the range → commit → watermark. The lake's last commit
is all that it goes by; the watermark tells the database, for `purge` and for people.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turnabout.pipeline.jobs._failures import told
from turnabout.pipeline.lake import Commit, CommitLog, Lake, Lost, hold
from turnabout.pipeline.results import Archived
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.schema import LOG
from turnabout.pipeline.verbs import (
    START,
    LogAhead,
    LogLost,
    LogNext,
    LogRange,
    WatermarkList,
    WatermarkSet,
)
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.value import replace

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

ORDER = ("namespace", "queue", "channel", "message_id")
"""Order of rows in a file: a reader of one queue, or one channel, skips most of it."""

_ROWS_EACH = 50_000
"""Fewer rows than that are one task, and one file a day."""


class RowsLost(TurnaboutError):
    """Rows of the log were removed before they were archived."""

    code = "rows_lost"


Progress = Callable[[Archived], object]


class ArchiveStage(Protocol):
    """Puts the rows of a range below `folder/day=…/` as Parquet; answers with how many there have
    to be.
    """

    def __call__(self, found: LogRange, folder: Path, *, lost: bool) -> int:
        """Raises: whatever stops it; then nothing is committed."""
        ...


def archive(
    spark: SparkSession,
    url: str,
    lake: str | PathLike[str],
    *,
    archive: str = "archive",
    once: bool = True,
    every_seconds: float = 30.0,
    max_rows: int = 1_000_000,
    include_value: bool = True,
    skip_lost: bool = False,
    adopt: bool = False,
    namespace: str | None = None,
    token: str | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> Archived:
    """Bring the log into a lake: what finished since the last commit, in batches of `max_rows`.

    `once` ends when nothing is left; else it looks every `every_seconds` until `stop` is set,
    and ends after the batch that runs. Killed anywhere, the next run goes on at the last commit.

    archive    its name: in the lake, and as a watermark in the database
    include_value  False leaves payloads out (`replay` needs them)
    skip_lost  go on where rows were removed before they were archived; the commit notes it
    adopt      go on with an archive that this database has no watermark of
    namespace, token  archive only what they cover; such an archive holds no purge back
    Raises: RowsLost; UsageError: the lake and the database are not of one archive; Taken,
            Overtaken: another archiver is at work; JobFailed, StorageFull, Forbidden, Disconnected.
    """
    limits.whole(max_rows, "max_rows", 1, limits.INTEGER_MAX)
    access = Access(url, token=token, namespace=namespace)
    with closing(access):
        access.allow("history", None)
        place = Lake(lake, create=may_begin(access, lake, archive))
        with hold(place, archive, "archive") as log:
            staged = SparkStage(spark, access, include_value=include_value)
            archiver = Archiver(access, log, staged, max_rows=max_rows, skip_lost=skip_lost)
            archiver.agree(adopt=adopt)
            return archiver.run(
                progress=progress, stop=stop, every_seconds=None if once else every_seconds
            )


class Archiver:
    """The loop without Spark: what it does next, it reads from the lake and asks the database."""

    def __init__(
        self,
        access: Access,
        log: CommitLog,
        stage: ArchiveStage,
        *,
        max_rows: int = 1_000_000,
        skip_lost: bool = False,
    ) -> None:
        self._access, self._log, self._stage = access, log, stage
        self._max_rows, self._skip_lost = max_rows, skip_lost
        self._namespace = access.namespace

    def agree(self, *, adopt: bool = False) -> None:
        """Check that lake and database are of one archive, and set a watermark that a killed run
        did not come to. Raises: UsageError.
        """
        head, name = self._log.head, self._log.archive
        if head is not None and head.namespace != self._namespace:
            held = "all namespaces" if head.namespace is None else f"{head.namespace!r} alone"
            raise UsageError(
                f"the archive {name} holds {held}: archive something else under another name"
            )
        if head is None or self._namespace is not None:
            return
        marks = {mark.archive: mark for mark in self._access.run(WatermarkList())}
        last = self._log.last("archive")
        is_first = last is not None and last.after == START
        if name not in marks and not is_first and not adopt:
            raise UsageError(
                f"this database knows no archive {name}, and the lake has {head.total:,} rows of "
                "one: it is another database's (use another --archive name), or was forgotten "
                "(--adopt goes on with it)"
            )
        if name not in marks or marks[name].position != head.position:
            self._note(head)

    def run(
        self,
        *,
        progress: Progress | None = None,
        stop: threading.Event | None = None,
        every_seconds: float | None = None,
    ) -> Archived:
        """Batches until nothing is left, or with `every_seconds` until `stop` is set."""
        began = time.monotonic()
        stop = stop or threading.Event()
        head = self._log.head
        done = Archived(self._log.archive)
        if head is not None:
            done = replace(done, total=head.total, position=head.position)
        more = True
        while (more or every_seconds is not None) and not stop.is_set():
            commit, more = self.step()
            if commit is not None:
                done = _added(done, commit, time.monotonic() - began)
                if progress is not None:
                    progress(done)
            elif every_seconds is not None:
                stop.wait(max(every_seconds, 0.1))  # `0` must not spin
        return replace(done, seconds=time.monotonic() - began)

    def step(self) -> tuple[Commit | None, bool]:
        """One batch: its commit, and whether there is more. None: there was nothing new."""
        head = self._log.head
        after = START if head is None else head.position
        found, lost = self._next(after)
        if found.messages == 0:
            return None, False
        folder = self._log.staging / f"rows-{0 if head is None else head.version}"
        rows = self._stage(found, folder, lost=lost is not None)
        commit = self._log.append(
            folder,
            rows=rows,
            position=found.until,
            after=after,
            namespace=self._namespace,
            lost=lost,
        )
        self._note(commit)
        return commit, found.more

    def _next(self, after: str) -> tuple[LogRange, Lost | None]:
        found = self._access.run(LogNext(after, self._max_rows))
        lost = None
        if isinstance(found, LogLost):
            lost = Lost(after, found.floor)
            if not self._skip_lost:
                raise RowsLost(self._told(lost))
            found = self._access.run(LogNext(after, self._max_rows, ignore_loss=True))
        if isinstance(found, LogAhead):
            raise UsageError(
                f"the lake or the history is ahead of this database's log, which ends at "
                f"{found.end!r}: it was restored from a backup, or is another one. See Backup in "
                "docs/operations.md, then begin another archive (--archive NAME)"
            )
        assert isinstance(found, LogRange)
        return found, lost

    def _told(self, lost: Lost) -> str:
        head = self._log.head
        assert head is not None  # nothing is lost before the first row
        files = self._log.lake.listed(head.archive, head.version)
        last = max((file.last for file in files), default=head.at)
        until = datetime.fromtimestamp(last / 1000, UTC)
        return (
            f"rows after position {lost.after!r} and up to {lost.floor!r} were removed (retention, "
            f"clear, a deleted queue) before they were archived; the archive ends at {until:%F %T} "
            "UTC. --skip-lost goes on without them and notes it; keep history for longer than the "
            "time between two runs"
        )

    def _note(self, commit: Commit) -> None:
        if self._namespace is None:
            self._access.run(WatermarkSet(commit.archive, commit.position, commit.total))


class SparkStage:
    """Stages a range by Spark: executors read the database and write to the lake's folder."""

    def __init__(self, spark: SparkSession, access: Access, *, include_value: bool) -> None:
        from turnabout.pipeline.spark.sessions import beside

        self._spark, self._access = beside(spark), access
        self._include_value = include_value
        self._cores = max(spark.sparkContext.defaultParallelism, 1)

    def __call__(self, found: LogRange, folder: Path, *, lost: bool) -> int:
        """Write a range, see `Stage`. Raises: JobFailed, StorageFull, and the source's errors."""
        from pyspark.sql import functions as f

        with told(self._access, "while it wrote to the lake"):
            rows = found.messages
            if self._access.namespace is not None:
                rows = self._read(found, lost=lost).select("queue").count()
            frame = self._read(found, lost=lost)
            if not self._include_value:
                frame = frame.withColumn("value", f.lit(None).cast("binary"))
            frame = frame.select(*LOG).withColumn("day", f.to_date("finished_at"))
            frame = frame.sortWithinPartitions("day", *ORDER)
            frame.write.partitionBy("day").mode("overwrite").parquet(str(folder))
        return rows

    def _read(self, found: LogRange, *, lost: bool) -> DataFrame:
        parts = min(self._cores, ceil(found.messages / _ROWS_EACH))
        start = "earliest" if found.after == START else json.dumps({"position": found.after})
        return (
            self._spark.read.format("turnabout")
            .options(**self._access.options())
            .options(
                mode="log",
                includeHeaders="true",
                includeValue=str(self._include_value).lower(),
                startingOffsets=start,
                endingOffsets=json.dumps({"position": found.until}),
                failOnDataLoss=str(not lost).lower(),
                numPartitions=str(parts),
            )
            .load()
        )


def may_begin(access: Access, lake: str | PathLike[str], archive: str) -> bool:
    """Whether a lake may be made. Not if this archive has been written elsewhere: a slip in a path
    would archive everything again. Raises: UsageError.
    """
    try:
        begun = Lake(lake).head(archive) is not None
    except UsageError:
        begun = False
    if begun or access.namespace is not None:
        return True
    for mark in access.run(WatermarkList()):
        if mark.archive == archive:
            rows = "1 row" if mark.messages == 1 else f"{mark.messages:,} rows"
            raise UsageError(
                f"the archive {archive!r} of this database has {rows} in another lake: name that "
                "lake, or give this one another name (--archive NAME); "
                f"`turnabout pipeline forget {archive}` ends the old one"
            )
    return True


def _added(done: Archived, commit: Commit, seconds: float) -> Archived:
    return replace(
        done,
        rows=done.rows + commit.rows,
        files=done.files + len(commit.added),
        bytes=done.bytes + sum(file.bytes for file in commit.added),
        batches=done.batches + 1,
        total=commit.total,
        position=commit.position,
        lost=done.lost + (commit.lost is not None),
        seconds=seconds,
    )
