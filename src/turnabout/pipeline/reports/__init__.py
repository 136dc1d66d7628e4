"""`report`: how long messages waited and were worked on, what failed, and who got how much.

`engines` counts, by the statements in `sql`; `facts` gathers what a page says, `summary` says it in
sentences, `page` makes HTML of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from turnabout.pipeline.lake import Lake, matched
from turnabout.pipeline.lake._storage import disk_errors
from turnabout.pipeline.reports import engines
from turnabout.pipeline.reports.engines import COLUMNS, ReportEngine, sql
from turnabout.pipeline.reports.facts import Progress, ReportScope, gather, keep
from turnabout.pipeline.results import QueueReport, Reported, Times
from turnabout.pipeline.spark.access import Access
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

    from turnabout.pipeline.reports.facts import ReportFacts

TOP: Final = 25


def report(
    url: str | None = None,
    *,
    lake: str | PathLike[str] | None = None,
    spark: SparkSession | None = None,
    archive: str | None = None,
    since: int | None = None,
    until: int | None = None,
    queues: Sequence[str] = (),
    namespace: str | None = None,
    token: str | None = None,
    weights: Mapping[str, float] | None = None,
    storage_options: Mapping[str, str] | None = None,
    out: str | PathLike[str] = "report",
    top: int = TOP,
    progress: Progress | None = None,
) -> Reported:
    """Report on what finished, from the history of a database or from a lake, into a folder:
    `report.html`, `hours.parquet`, `failures.parquet`, `fairness.parquet`.

    spark         count there; without it DuckDB counts, on this machine
    archive       needed if the lake has several
    since, until  finished from then, and before then; milliseconds
    queues        as they are stored (`acme/emails`), or plain when confined to a namespace; all
    weights       of channels, for their fair shares; 1 where not given
    storage_options  of a lake in an object store: what delta-rs takes, beside the environment
    top           how many channels and errors the page lists
    Raises: UsageError; Forbidden, StorageFull: the folder cannot be written; JobFailed,
            LakeDamaged, Disconnected.
    """
    if (url is None) == (lake is None):
        raise UsageError("a report is about a database (url) or a lake (lake=…): name one of them")
    if lake is not None and token is not None:
        raise UsageError("a token belongs to a database: read a lake with namespace=…, or without")
    if since is not None and until is not None and since >= until:
        raise UsageError("since has to be before until")
    if any(weight <= 0 for weight in (weights or {}).values()):
        raise UsageError("weights have to be above 0")
    began = time.monotonic()
    folder = Path(os.path.abspath(out))  # noqa: PTH100  # not resolved: it is shown as it was named
    # A lake has no secrets to hide: then nothing is opened there.
    access = Access(url or "postgresql:", token=token, namespace=namespace)
    storage = None if storage_options is None else dict(storage_options)
    scope = ReportScope(lake, archive, since, until, tuple(queues), namespace, storage)
    with (
        closing(access),
        disk_errors(f"the folder {folder}"),
        _opened(spark, access, scope) as engine,
    ):
        engine.weigh(weights or {})
        folder.mkdir(parents=True, exist_ok=True)
        found = keep(engine, scope, progress or (lambda _n, _part: 0))
        files = [_write(engine, name, order, folder) for name, order in _TABLES]
        facts = gather(engine, found, top=top)
        source = _source(access, lake)
        return _page(facts, engine, source=source, scope=scope, files=files, began=began)


_CHANNEL = ("namespace", "queue", "channel")
_TABLES: Final = (
    ("hours", (*_CHANNEL, "hour")),
    ("failures", ("namespace", "queue", "error")),
    ("fairness", (*_CHANNEL, "begun")),
)


@contextmanager
def _opened(
    spark: SparkSession | None, access: Access, scope: ReportScope
) -> Generator[ReportEngine]:
    """The engine, with the table `narrow`."""
    narrow = sql("narrow", within=_within(scope))
    if spark is None:
        with engines.duckdb() as local:
            if scope.lake is None:
                local.load(_history(access, scope), narrow)
            else:
                local.connection.register("log", _lake_rows(local.connection, scope))
                local.keep("narrow", [narrow])
            yield local
        return
    from turnabout.pipeline.jobs._failures import spark_errors
    from turnabout.pipeline.spark.lakes import matching, read_lake

    with spark_errors(access, "while it made the report"):
        remote = engines.OnSpark(spark)
        with closing(remote):
            if scope.lake is None:
                options = access.options()
                if scope.queues:
                    options["subscribe"] = ",".join(scope.queues)
                log = engines.history(remote.spark, options)
            else:
                found = read_lake(
                    remote.spark,
                    scope.lake,
                    archive=scope.archive,
                    since=scope.since,
                    until=scope.until,
                    storage_options=scope.storage,
                )
                log = matching(found, scope.filter)
            remote.load(log, narrow)
            yield remote


def _lake_rows(connection: Any, scope: ReportScope) -> Any:
    """The archive's rows as a relation of DuckDB, with the columns of the log at least."""
    assert scope.lake is not None
    place = Lake(scope.lake, storage_options=scope.storage)
    name = place.only(scope.archive)
    files = place.files(name, since=scope.since, until=scope.until)
    return matched(connection, place.place(name), [file.path for file in files], scope.filter)


def _history(access: Access, scope: ReportScope) -> Any:
    from turnabout.pipeline.spark import rows
    from turnabout.pipeline.spark.filters import Condition, Names

    queues = tuple(access.stored(queue) for queue in scope.queues) or None
    for queue in scope.queues:
        access.allow("history", queue)
    where: list[Condition] = []
    if scope.since is not None:
        where.append(Condition("finished_at", ">=", scope.since))
    if scope.until is not None:
        where.append(Condition("finished_at", "<", scope.until))
    names = Names(access.namespace, queues, None, access.globs("history"))
    return rows.read(access, "log_rows", COLUMNS, where, names=names)


def _within(scope: ReportScope) -> str:
    conditions = ["ended_ms is not null"]
    if scope.since is not None:
        conditions.append(f"ended_ms >= {int(scope.since)}")
    if scope.until is not None:
        conditions.append(f"ended_ms < {int(scope.until)}")
    return " and ".join(conditions)


def _source(access: Access, lake: str | PathLike[str] | None) -> str:
    """The database or lake as a page may show it: nothing that is secret."""
    if lake is not None:
        return f"the lake {Lake(lake)}"
    kind, place = access.place()
    if kind == "sqlite":
        return f"the file {place}"
    if "://" not in place:
        return "a PostgreSQL database"
    parts = urlsplit(place)
    return f"PostgreSQL, {parts.hostname or 'local'}{parts.path}"


def _page(
    facts: ReportFacts | None,
    engine: ReportEngine,
    *,
    source: str,
    scope: ReportScope,
    files: Sequence[Path],
    began: float,
) -> Reported:
    """Write the page. It comes last: where it is new, the tables are too."""
    from turnabout.pipeline.reports import page, summary

    sentences = tuple(summary.sentences(facts))
    about = f"{source} · {page.period(scope.since, scope.until)} · counted by {engine.name}"
    path = files[0].with_name("report.html")
    staged = path.with_name(f".{path.name}.new")
    staged.write_bytes(page.html(facts, sentences, about).encode("utf-8", "replace"))
    staged.replace(path)
    return Reported(
        messages=0 if facts is None else facts.total["messages"],
        first=None if facts is None else facts.first_ms,
        until=None if facts is None else facts.until_ms,
        queues=() if facts is None else tuple(_queue(row) for row in facts.queues),
        sentences=sentences,
        files=(str(path), *map(str, files)),
        seconds=time.monotonic() - began,
        engine=engine.name,
    )


_COPIED: Final = (
    *("namespace", "queue", "messages", "done", "dead", "cancelled", "expired", "retried"),
    *("attempts", "failures", "crashes", "channels", "fairness", "starved", "slowest"),
)


def _queue(row: Mapping[str, Any]) -> QueueReport:
    copied: dict[str, Any] = {name: row[name] for name in _COPIED}
    return QueueReport(**copied, wait=_times(row, "wait"), handling=_times(row, "handle"))


def _times(row: Mapping[str, Any], time: str) -> Times:
    return Times(*(row[f"{time}_{name}_ms"] for name in ("p50", "p90", "p99", "max", "mean")))


def _write(engine: ReportEngine, name: str, order: Sequence[str], folder: Path) -> Path:
    """A table as one Parquet file, in order; whole under its name, or not at all."""
    from pyarrow import parquet

    library: Any = parquet
    path = folder / f"{name}.parquet"
    staged = path.with_name(f".{path.name}.new")
    text = f"select * from {name} order by {', '.join(order)}"  # noqa: S608
    batches = iter(engine.batches(text))
    first = next(batches)
    with library.ParquetWriter(staged, first.schema, compression="zstd") as writer:
        writer.write(first)
        for batch in batches:
            writer.write(batch)
    staged.replace(path)
    return path


__all__ = ["Progress", "report"]
