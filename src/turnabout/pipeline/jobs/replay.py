"""`replay`: rows of the lake as messages again, each batch once, however often the run is started.

The rows are chosen once, and written in order as files of a batch each; each file is then sent as
by the sink, as run `<run>-<when>-<n>`, which the database remembers. So a run that was killed goes
on with the same rows, whatever has become of the lake, and one that is over sends nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from turnabout.pipeline.jobs._failures import told
from turnabout.pipeline.jobs._plan import JobRun, Plan
from turnabout.pipeline.lake import Lake
from turnabout.pipeline.results import Chosen, Replayed
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.lakes import Filter, matching, read_lake
from turnabout.pipeline.spark.schema import LOG, ddl
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.value import replace

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import Column, DataFrame, SparkSession

BATCH_ROWS = 20_000
_RATED_SECONDS = 10
_RATED_ROWS_MIN = 100
HEADERS = ("replayed-from", "replay-run")
"""Headers of a replayed message: its former id, and the run."""


class WithoutValue(TurnaboutError):
    """The payload of some rows was not kept, so they cannot be sent."""

    code = "without_value"


def replay(
    spark: SparkSession,
    url: str,
    lake: str | PathLike[str],
    *,
    run_id: str,
    to: str | None = None,
    archive: str | None = None,
    since: int | None = None,
    until: int | None = None,
    queues: Sequence[str] | None = None,
    channels: Sequence[str] | None = None,
    outcomes: Sequence[str] | None = None,
    ids: Sequence[int] | None = None,
    per_second: int | None = None,
    skip_without_value: bool = False,
    dry_run: bool = False,
    namespace: str | None = None,
    token: str | None = None,
    progress: Callable[[Replayed], object] | None = None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Send rows of the lake to the queue `to`, or each to the queue that it was in.

    run_id   names the run: started again with it, it goes on, and sends nothing twice. The rows
             are those that were chosen at its first start
    since, until  milliseconds: finished from then, and before then
    per_second    at most this many: batches are spread, and the messages of each by delays
    skip_without_value  leave out rows whose payload was not kept, instead of refusing
    dry_run  only count
    Raises: WithoutValue; UsageError: a run of that id has another target or other filters; Taken:
            it is running; SinkFull and others of the sink; LakeDamaged, JobFailed, StorageFull.
    """
    asked = Filter(
        since=since,
        until=until,
        queues=_tuple(queues),
        channels=_tuple(channels),
        outcomes=_tuple(outcomes),
        ids=_tuple(ids),
    )
    if per_second is not None:
        limits.whole(per_second, "per_second", 1, limits.INTEGER_MAX)
    began = time.monotonic()
    place = Lake(lake)
    with closing(Access(url, token=token, namespace=namespace)) as access:
        _check_names(access, to, queues or ())
        asked = replace(asked, namespace=access.namespace)
        chooser = _Chooser(spark, access, place, archive, asked)
        if dry_run:
            done = _counted(run_id, chooser.count())
        else:
            with JobRun.held(place, run_id) as run:
                plan = run.plan()
                if plan is None:
                    plan = chooser.plan(run, to, per_second, skip_without_value=skip_without_value)
                _check_same(plan, to, asked)
                sender = _Sender(spark, access, run, plan)
                done = sender.run(per_second, progress, stop or threading.Event())
    return replace(done, seconds=time.monotonic() - began)


def _check_names(access: Access, to: str | None, queues: Sequence[str]) -> None:
    for queue in queues:
        access.stored(queue)
    if to is not None:
        access.stored(to)
        access.allow("send", to)


def _counted(run: str, chosen: tuple[Chosen, ...]) -> Replayed:
    total, missing = _totals(chosen)
    return Replayed(run, total - missing, 0, missing, done=False, chosen=chosen)


class _Chooser:
    """Which rows of the lake."""

    def __init__(
        self, spark: SparkSession, access: Access, lake: Lake, archive: str | None, asked: Filter
    ) -> None:
        from turnabout.pipeline.spark.sessions import beside

        self._spark, self._access, self._lake = beside(spark), access, lake
        self._archive, self._asked = archive, asked

    def count(self) -> tuple[Chosen, ...]:
        """Counts by queue and outcome."""
        from pyspark.sql import functions as f

        with told(self._access, "while it counted rows of the lake"):
            found = (
                self._rows()
                .groupBy("namespace", "queue", "outcome")
                .agg(f.count("*").alias("n"), f.count_if(f.col("value").isNull()).alias("missing"))
                .orderBy("namespace", "queue", "outcome")
                .collect()
            )
        return tuple(
            Chosen(row["namespace"], row["queue"], row["outcome"], row["n"], row["missing"])
            for row in found
        )

    def plan(
        self, run: JobRun, to: str | None, per_second: int | None, *, skip_without_value: bool
    ) -> Plan:
        """Choose, write the rows, and begin the run. Raises: WithoutValue, UsageError."""
        chosen = self.count()
        total, missing = _totals(chosen)
        if missing and not skip_without_value:
            raise WithoutValue(
                f"the payload of {missing:,} of {total:,} rows was not kept, so they cannot be "
                "sent: queues keep it with history_payload, archives with their values. "
                "--skip-without-value sends the others"
            )
        if to is None and any(one.queue is None for one in chosen):
            raise UsageError("some rows are of a queue that is gone: name one for all with --to")
        with run.staged() as folder:
            batches = self._write(folder / "rows", per_second) if total > missing else ()
            plan = Plan(
                run=run.name,
                to=to,
                filter=self._asked,
                per_second=per_second,
                rows=sum(rows for _, rows in batches),
                left_out=missing,
                batches=batches,
                made_at=round(time.time() * 1000),
            )
            folder.mkdir(exist_ok=True)
            run.begin(folder, plan)
        return plan

    def _write(self, folder: Any, per_second: int | None) -> tuple[tuple[str, int], ...]:
        from pyspark.sql import functions as f

        from turnabout.pipeline.lake._footer import rows_of

        size = BATCH_ROWS
        if per_second is not None:
            size = min(size, max(_RATED_ROWS_MIN, per_second * _RATED_SECONDS))
        with told(self._access, "while it chose rows of the lake"):
            rows = self._rows().where(f.col("value").isNotNull())
            rows = rows.orderBy("sent_at", "message_id", "finished_at")
            rows.write.option("maxRecordsPerFile", size).parquet(str(folder))
        # Spark numbers files by partition and then by file: their names are the order.
        files = sorted(folder.glob("*.parquet"))
        return tuple((file.name, count) for file in files if (count := rows_of(file)))

    def _rows(self) -> DataFrame:
        asked = self._asked
        frame = read_lake(
            self._spark,
            self._lake.folder,
            archive=self._archive,
            since=asked.since,
            until=asked.until,
        )
        return matching(frame, asked)


class _Sender:
    """Sends the files of a plan, one after the other."""

    def __init__(self, spark: SparkSession, access: Access, run: JobRun, plan: Plan) -> None:
        from turnabout.pipeline.spark.sessions import beside
        from turnabout.pipeline.spark.sink import Sink

        self._spark, self._access = beside(spark), access
        self._sink = Sink(access, plan.to)
        self._run, self._plan = run, plan

    def run(
        self,
        per_second: int | None,
        progress: Callable[[Replayed], object] | None,
        stop: threading.Event,
    ) -> Replayed:
        """Send from the first batch that is not known to be sent, until `stop`."""
        plan, batches = self._plan, self._plan.batches
        first = self._run.sent()
        before = sum(rows for _, rows in batches[:first])
        done = Replayed(plan.run, plan.rows, before, plan.left_out, done=first == len(batches))
        began = time.monotonic()
        for number in range(first, len(batches)):
            due = 0.0 if per_second is None else (done.sent - before) / per_second
            if stop.wait(max(0.0, began + due - time.monotonic())):
                break
            self._send(number, per_second)
            last = number + 1 == len(batches)
            self._run.note(number + 1, last=last)
            seconds = time.monotonic() - began
            done = replace(done, sent=done.sent + batches[number][1], done=last, seconds=seconds)
            if progress is not None:
                progress(done)
        return done

    def _send(self, number: int, per_second: int | None) -> None:
        from turnabout.pipeline.spark.sink import send_once

        file = self._run.folder / "rows" / self._plan.batches[number][0]
        with told(self._access, f"while it sent batch {number}"):
            frame = self._spark.read.schema(ddl(LOG)).parquet(str(file))
            messages = frame.select(*self._columns(per_second))
            send_once(messages, self._sink, self._plan.sink_run(number))

    def _columns(self, per_second: int | None) -> list[Column]:
        from pyspark.sql import functions as f

        kept = f.map_filter(
            f.coalesce(f.col("headers"), f.expr("map()").cast("map<string,string>")),
            lambda name, _: ~name.isin(*HEADERS),
        )
        run = f.lit(self._plan.run)
        own = f.create_map(
            f.lit(HEADERS[0]), f.col("message_id").cast("string"), f.lit(HEADERS[1]), run
        )
        columns = [
            f.col("value"),
            f.col("channel"),
            f.col("content_type"),
            f.map_concat(kept, own).alias("headers"),
        ]
        if self._plan.to is None:
            plain = f.col("queue")
            if self._access.namespace is None:
                whole = f.concat_ws("/", f.nullif(f.col("namespace"), f.lit("")), plain)
                plain = whole.alias("queue")
            columns.append(plain)
        if per_second is not None:
            index = f.col("_metadata.row_index").cast("double")
            columns.append((index / per_second).alias("delay_seconds"))
        return columns


def _check_same(plan: Plan, to: str | None, asked: Filter) -> None:
    """A run goes on as it began; instants may differ, as `2h` is another one each time."""
    began = replace(plan.filter, since=None, until=None)
    if plan.to != to or began != replace(asked, since=None, until=None):
        raise UsageError(
            f"the run {plan.run} was begun with another target or other filters: give the same to "
            "go on with it, or another run id to send more"
        )


def _totals(chosen: Sequence[Chosen]) -> tuple[int, int]:
    return sum(one.rows for one in chosen), sum(one.without_value for one in chosen)


def _tuple(given: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if given is None else tuple(sorted(set(given)))
