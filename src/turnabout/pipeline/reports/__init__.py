"""`report`: how long messages waited and were worked on, what failed, and who got how much.

`tables` counts (DataFrames in and out), `facts` brings to this process what a page says, `summary`
says it in sentences, `page` makes HTML of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from turnabout.pipeline.jobs._failures import told
from turnabout.pipeline.lake import Filter, Storage
from turnabout.pipeline.results import QueueReport, Reported, Times
from turnabout.pipeline.schema import ddl
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.lakes import matching, read_lake
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from turnabout.pipeline.reports.facts import ReportFacts

TOP: Final = 25
GROUPS: Final = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
GROUPS_MAX: Final = "4096"
"""Spark gives up hashing quantiles at 128 groups unless it is told otherwise."""

Progress = Callable[[int, float], object]
"""Called with the number of messages, as soon as that is known, and the share done, 0 to 1."""


def report(
    spark: SparkSession,
    url: str | None = None,
    *,
    lake: str | PathLike[str] | None = None,
    archive: str | None = None,
    since: int | None = None,
    until: int | None = None,
    queues: Sequence[str] = (),
    namespace: str | None = None,
    token: str | None = None,
    out: str | PathLike[str] = "report",
    top: int = TOP,
    progress: Progress | None = None,
) -> Reported:
    """Report on what finished, from the history of a database or from a lake, into a folder:
    `report.html`, `hours.parquet`, `failures.parquet`, `fairness.parquet`.

    archive       of a lake: this one alone; else all that are in it
    since, until  finished from then, and before then; milliseconds
    queues        as they are stored (`acme/emails`), or plain when confined to a namespace; all
    top           how many channels and errors the page lists, the rest in one line
    Raises: UsageError; Forbidden, StorageFull: the folder cannot be written; JobFailed,
            LakeDamaged, Disconnected.
    """
    if (url is None) == (lake is None):
        raise UsageError("a report is about a database (url) or a lake (lake=…): name one of them")
    if lake is not None and token is not None:
        raise UsageError("a token belongs to a database: read a lake with namespace=…, or without")
    if since is not None and until is not None and since >= until:
        raise UsageError("since has to be before until")
    folder = Path(os.path.abspath(out))  # noqa: PTH100  # not resolved: it is shown as it was named
    # A lake has no secrets to hide: then nothing is opened there.
    access = Access(url or "postgresql:", token=token, namespace=namespace)
    from turnabout.pipeline.spark.sessions import beside

    began = time.monotonic()
    with closing(access), told(access, "while it made the report"):
        own = beside(spark)
        own.conf.set(GROUPS, GROUPS_MAX)
        if url is not None:
            rows = _history(own, access, queues)
            source = _place(access)
        else:
            assert lake is not None
            found = read_lake(own, lake, archive=archive, since=since, until=until)
            rows = matching(found, Filter(namespace=namespace, queues=tuple(queues) or None))
            source = f"the lake {Path(lake).absolute()}"
        rows = matching(rows, Filter(since, until))
        work = _Work(rows, since, until, progress or (lambda _n, _part: 0))
        with Storage.of(folder).told():
            folder.mkdir(parents=True, exist_ok=True)
            return work.into(folder, source, top=top, began=began)


def _history(spark: SparkSession, access: Access, queues: Sequence[str]) -> DataFrame:
    from turnabout.pipeline.reports.tables import COLUMNS

    options = {**access.options(), "mode": "history", "includeValue": "false"}
    options["numPartitions"] = str(max(spark.sparkContext.defaultParallelism, 2))
    if queues:
        options["subscribe"] = ",".join(queues)
    return spark.read.schema(ddl(COLUMNS)).format("turnabout").options(**options).load()


def _place(access: Access) -> str:
    """The database as a page may show it: nothing that is secret."""
    kind, place = access.place()
    if kind == "sqlite":
        return f"the file {place}"
    if "://" not in place:
        return "a PostgreSQL database"
    parts = urlsplit(place)
    return f"PostgreSQL, {parts.hostname or 'local'}{parts.path}"


class _Work:
    """One report, part by part."""

    def __init__(
        self, rows: DataFrame, since: int | None, until: int | None, progress: Progress
    ) -> None:
        self._rows, self._since, self._until = rows, since, until
        self._progress = progress
        self._messages = 0
        self._parts = 0

    def into(self, folder: Path, source: str, *, top: int, began: float) -> Reported:
        """Make all files. The page comes last: where it is new, the tables are too."""
        from pyspark.sql import functions as f

        from turnabout.pipeline.reports import facts, page, summary, tables

        self._all = 5 + facts.PARTS
        with tables.cached(tables.narrow(self._rows)) as narrowed:
            bounds = narrowed.agg(f.count(f.lit(1)), f.min("ended_ms"), f.max("ended_ms")).first()
            assert bounds is not None
            self._messages = bounds[0]
            self._done()
            first = bounds[1] if self._since is None else self._since
            until = self._until or (None if bounds[2] is None else bounds[2] + 1)
            with (
                tables.cached(tables.hours(narrowed, first or 0, until or 0)) as by_hour,
                tables.cached(tables.failures(narrowed)) as kinds,
            ):
                files = [_write(by_hour, folder / "hours.parquet", (*tables.CHANNEL, "hour"))]
                for table, name, order in (
                    (kinds, "failures", (*tables.QUEUE, "error")),
                    (tables.fairness(by_hour), "fairness", (*tables.QUEUE, "hour")),
                ):
                    files.append(_write(table, folder / f"{name}.parquet", order))
                    self._done()
                found = None
                if self._messages:
                    found = facts.gather(
                        narrowed,
                        by_hour,
                        kinds,
                        bounds[1] if first is None else max(first, bounds[1]),
                        min(until or bounds[2] + 1, bounds[2] + 1),
                        top=top,
                        done=self._done,
                    )
        sentences = tuple(summary.sentences(found))
        html = page.html(found, sentences, source, self._since, self._until)
        _replace(folder / "report.html", html.encode("utf-8", "replace"))
        self._progress(self._messages, 1.0)
        return Reported(
            messages=self._messages,
            first=None if found is None else found.first_ms,
            until=None if found is None else found.until_ms,
            queues=() if found is None else tuple(_queues(found)),
            sentences=sentences,
            files=(str(folder / "report.html"), *map(str, files)),
            seconds=time.monotonic() - began,
        )

    def _done(self) -> None:
        """One more part is done."""
        self._parts += 1
        self._progress(self._messages, min(self._parts / self._all, 1.0))


def _queues(found: ReportFacts) -> list[QueueReport]:
    return [
        QueueReport(
            **{name: row[name] for name in _COPIED},
            wait=_times(row, "wait"),
            handling=_times(row, "handle"),
            **{
                name: found.fair[row["namespace"], row["queue"]][name]
                for name in ("channels", "jain_done", "jain_wait", "slowest")
            },
        )
        for row in found.queues
    ]


_COPIED: Final = (
    *("namespace", "queue", "messages", "done", "dead", "cancelled", "expired"),
    *("attempts", "failures", "crashes"),
)


def _times(row: Any, time: str) -> Times:
    return Times(*(row[f"{time}_{name}_ms"] for name in ("p50", "p90", "p99", "max", "mean")))


def _write(table: DataFrame, path: Path, order: Sequence[str]) -> Path:
    """A table as one Parquet file, in order; whole under its name, or not at all."""
    from pyarrow import parquet

    untyped: Any = table, parquet
    arrow = untyped[0].toArrow().sort_by([(name, "ascending") for name in order])
    staged = path.with_name(f".{path.name}.new")
    untyped[1].write_table(arrow, staged, compression="zstd")
    staged.replace(path)
    return path


def _replace(path: Path, data: bytes) -> None:
    staged = path.with_name(f".{path.name}.new")
    staged.write_bytes(data)
    staged.replace(path)


__all__ = ["Progress", "report"]
