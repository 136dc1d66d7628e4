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
from turnabout.pipeline.reports import engines, units
from turnabout.pipeline.reports.engines import COLUMNS, ReportEngine, sql
from turnabout.pipeline.reports.facts import Progress, ReportScope, gather, keep
from turnabout.pipeline.results import QueueReport, Reported, Times
from turnabout.pipeline.spark.access import Access
from turnabout.words.errors import UsageError

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

    from turnabout.pipeline.reports.facts import ReportFacts, Row

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
    if any(weight <= 0 for weight in (weights or {}).values()):
        raise UsageError("weights have to be above 0")
    began = time.monotonic()
    folder = Path(os.path.abspath(out))  # noqa: PTH100  # not resolved: it is shown as it was named
    # A lake has no secrets to hide: then nothing is opened there.
    access = Access(url or "postgresql:", token=token, namespace=namespace)
    scope = ReportScope(lake, archive, since, until, tuple(queues), namespace, storage_options)
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
        about = f"{_source(access, lake)} · {_period(since, until)} · counted by {engine.name}"
        sentences = _page(facts, about, folder / "report.html")
    return Reported(
        sentences=sentences,
        files=(str(folder / "report.html"), *map(str, files)),
        seconds=time.monotonic() - began,
        engine=engine.name,
        **_known(facts),
    )


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
    since, until = scope.bounds
    narrow = sql("narrow", since=since, until=until)
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
    since, until = scope.bounds
    where = [Condition("finished_at", ">=", since), Condition("finished_at", "<", until)]
    names = Names(access.namespace, queues, None, access.globs("history"))
    return rows.read(access, "log_rows", COLUMNS, where, names=names)


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


def _period(since: int | None, until: int | None) -> str:
    """The time that was asked for."""
    if since is None and until is None:
        return "all there is"
    begun = "the beginning" if since is None else f"{units.instant(since)} UTC"
    return f"{begun} to {'the end' if until is None else f'{units.instant(until)} UTC'}"


def _page(facts: ReportFacts | None, about: str, path: Path) -> tuple[str, ...]:
    """Write the page, and return its sentences. It comes last: where it is new, the tables are."""
    from turnabout.pipeline.reports import page, summary

    sentences = tuple(summary.sentences(facts))
    staged = path.with_name(f".{path.name}.new")
    staged.write_bytes(page.html(facts, sentences, about).encode("utf-8", "replace"))
    staged.replace(path)
    return sentences


def _known(facts: ReportFacts | None) -> dict[str, Any]:
    if facts is None:
        return {"messages": 0, "first": None, "until": None, "queues": ()}
    return {
        "messages": facts.total["messages"],
        "first": facts.first_ms,
        "until": facts.until_ms,
        "queues": tuple(map(_queue, facts.queues)),
    }


def _queue(row: Row) -> QueueReport:
    copied: dict[str, Any] = {
        name: row[name] for name in QueueReport.__struct_fields__ if name in row
    }
    return QueueReport(**copied, wait=_times(row, "wait"), handling=_times(row, "handle"))


def _times(row: Row, time: str) -> Times:
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
