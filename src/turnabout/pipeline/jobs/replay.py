"""`replay`: rows of the lake as messages again, each batch once, however often the run is started.

The rows are chosen once, and written in order as files of a batch each; each file is then sent as
by the sink, as run `<run>-<when>-<n>`, which the database remembers. So a run that was killed goes
on with the same rows, whatever has become of the lake, and one that is over sends nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from turnabout.pipeline.jobs._plan import ORDER, JobRun, Plan
from turnabout.pipeline.lake import Filter, Lake, WrittenFile
from turnabout.pipeline.lake._files import in_files
from turnabout.pipeline.lake._filter import matched
from turnabout.pipeline.results import Chosen, LeftBehind, Replayed
from turnabout.pipeline.schema import LOG
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.outgoing import Invalid
from turnabout.pipeline.spark.staging import RUN, Sink
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.value import replace

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import SparkSession

    from turnabout.pipeline.jobs._chooser import SparkChooser

_arrow: Any = pa

BATCH_ROWS = 20_000
_RATED_SECONDS = 10
_RATED_ROWS_MIN = 100
HEADERS = ("replayed-from", "replay-run")
"""Headers of a replayed message: its former id, and the run."""


class WithoutValue(TurnaboutError):
    """The payload of some rows was not kept, so they cannot be sent."""

    code = "without_value"


def replay(
    url: str,
    lake: str | PathLike[str],
    *,
    run_id: str,
    spark: SparkSession | None = None,
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
    skip_invalid: bool = False,
    dry_run: bool = False,
    namespace: str | None = None,
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[Replayed], object] | None = None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Send rows of the lake to the queue `to`, or each to the queue that it was in.

    run_id   names the run: started again with it, it goes on, and sends nothing twice. The rows
             are those that were chosen at its first start
    spark    a session whose executors choose the rows; without one this process does
    archive  needed if the lake has several      dry_run  only count
    since, until  milliseconds: finished from then, and before then
    per_second    at most this many: batches are spread, and the messages of each by delays
    skip_without_value, skip_invalid  leave out rows whose payload was not kept, and messages that
             can't be sent, instead of refusing
    storage_options  of an object store: what delta-rs takes, beside the environment
    Raises: WithoutValue; UsageError: a run of that id has another target or other filters;
            SinkFull and others of the sink; LakeDamaged, JobFailed, StorageFull.
    """
    if per_second is not None:
        limits.whole(per_second, "per_second", 1, limits.INTEGER_MAX)
    began = time.monotonic()
    place = Lake(lake, storage_options=storage_options)
    with closing(Access(url, token=token, namespace=namespace)) as access:
        _check_names(access, to, queues or ())
        lists = map(_tuple, (queues, channels, outcomes, ids))
        filter_ = Filter(since, until, access.namespace, *lists)
        run = JobRun(place, run_id)
        chooser = _chooser(spark, access, place, archive, filter_)
        if dry_run:
            done = _counted(run_id, chooser.count())
        else:
            plan = run.plan()
            if plan is None:
                plan = choose(
                    run, chooser, filter_, to, per_second, skip_without_value=skip_without_value
                )
            _check_same(plan, to, filter_)
            sender = Sender(access, run, plan, skip_invalid=skip_invalid)
            done = sender.run(per_second, progress, stop)
    return replace(done, seconds=time.monotonic() - began)


def _chooser(
    spark: SparkSession | None, access: Access, lake: Lake, archive: str | None, filter_: Filter
) -> LocalChooser | SparkChooser:
    if spark is None:
        return LocalChooser(lake, archive, filter_)
    from turnabout.pipeline.jobs._chooser import SparkChooser

    return SparkChooser(spark, access, lake, archive, filter_)


def _check_names(access: Access, to: str | None, queues: Sequence[str]) -> None:
    for queue in queues:
        access.stored(queue)
    if to is not None:
        access.stored(to)
        access.allow("send", to)


def _counted(run: str, chosen: tuple[Chosen, ...]) -> Replayed:
    total, missing = _totals(chosen)
    return Replayed(run, total - missing, 0, missing, done=False, chosen=chosen)


class LocalChooser:
    """Finds rows in this process: DuckDB sorts what does not fit into memory."""

    def __init__(self, lake: Lake, archive: str | None, filter_: Filter) -> None:
        name = lake.only(archive)
        paths = [file.path for file in lake.files(name, since=filter_.since, until=filter_.until)]
        self._table, self._paths, self._filter = lake.place(name), paths, filter_

    def count(self) -> tuple[Chosen, ...]:
        """Count rows by queue and outcome."""
        with self._chosen() as connection:
            found = connection.sql(
                "select namespace, queue, outcome, count(*), "
                "count(*) filter (where value is null) from chosen group by all order by all"
            )
            return tuple(Chosen(*row) for row in found.fetchall())

    def write(self, run: JobRun, size: int) -> Sequence[WrittenFile]:
        """Write those with a payload, in `ORDER`, as files of at most `size` rows each."""
        with self._chosen() as connection:
            found = connection.sql(
                f"select {', '.join(LOG)} from chosen where value is not null "  # noqa: S608 - ours
                f"order by {', '.join(ORDER)}"
            )
            return [
                run.write(rows, number)
                for number, rows in enumerate(in_files(found.to_arrow_reader(size), size))
            ]

    @contextmanager
    def _chosen(self) -> Generator[Any]:
        import duckdb

        connection: Any = duckdb.connect()
        with closing(connection):
            rows = matched(connection, self._table, self._paths, self._filter)
            connection.register("chosen", rows)
            yield connection


def choose(
    run: JobRun,
    chooser: LocalChooser | SparkChooser,
    filter_: Filter,
    to: str | None,
    per_second: int | None,
    *,
    skip_without_value: bool,
) -> Plan:
    """Choose, write the rows, and begin the run. Raises: WithoutValue, UsageError."""
    chosen = chooser.count()
    total, missing = _totals(chosen)
    if missing and not skip_without_value:
        raise WithoutValue(
            f"the payload of {missing:,} of {total:,} rows was not kept, so they cannot be "
            "sent: queues keep it with history_payload, archives with their values. "
            "--skip-without-value sends the others"
        )
    if to is None and any(one.queue is None for one in chosen):
        raise UsageError("some rows are of a queue that is gone: name one for all with --to")
    size = BATCH_ROWS
    if per_second is not None:
        size = min(size, max(_RATED_ROWS_MIN, per_second * _RATED_SECONDS))
    files = chooser.write(run, size) if total > missing else ()
    plan = Plan(
        run=run.name,
        to=to,
        filter=filter_,
        per_second=per_second,
        rows=sum(file.rows for file in files),
        left_out=missing,
        batches=tuple((file.path, file.rows) for file in files),
        made_at=round(time.time() * 1000),
    )
    return run.begin(files, plan)


@dataclass
class SinkAgain(Sink):
    """The sink of a replay, which knows a row by the id that its message had.

    What was sent once is sent again, whatever this program may send by itself.
    """

    max_bytes: int = limits.PAYLOAD_BYTES_HARD_MAX
    skip: bool = False
    ids: list[int] = field(default_factory=list[int])
    """The rows of the batch that is staged."""
    found: list[LeftBehind] = field(default_factory=list[LeftBehind])

    def refused(self, invalid: Invalid, partition: int) -> None:
        """Note the message, or raise a UsageError that names it."""
        one = LeftBehind(self.ids[invalid.at - 1], invalid.reason)
        if not self.skip:
            raise UsageError(
                f"message {one.message_id} can't be sent again: {one.reason}. Nothing of its batch "
                "was sent; --skip-invalid goes on without such messages"
            )
        self.found.append(one)


class Sender:
    """Sends the files of a plan, one after the other."""

    def __init__(
        self, access: Access, run: JobRun, plan: Plan, *, skip_invalid: bool = False
    ) -> None:
        self._access, self._run, self._plan = access, run, plan
        self._sink = SinkAgain(access, plan.to, skip=skip_invalid)

    def run(
        self,
        per_second: int | None,
        progress: Callable[[Replayed], object] | None,
        stop: threading.Event | None,
    ) -> Replayed:
        """Send from the first batch that is not known to be sent, until `stop`."""
        stop = stop or threading.Event()
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
            self._run.note(number + 1, plan)
            last = number + 1 == len(batches)
            done = replace(
                done,
                sent=done.sent + batches[number][1] - len(self._sink.found),
                done=last,
                seconds=time.monotonic() - began,
                refused=(*done.refused, *self._sink.found),
            )
            if progress is not None:
                progress(done)
        return done

    def _send(self, number: int, per_second: int | None) -> None:
        path, _ = self._plan.batches[number]
        self._sink.ids.clear()
        self._sink.found.clear()
        attempt = self._sink.stage(self._messages(path, per_second), None, 0)
        name = self._access.stored(RUN + self._plan.sink_run(number))
        try:
            self._sink.publish(name, 0, [attempt])
        except BaseException:
            self._sink.forget([attempt])
            raise

    def _messages(self, path: str, per_second: int | None) -> Iterator[Any]:
        """Rows of the log as rows that the sink takes."""
        first = 0
        for batch in self._run.rows(path):
            self._sink.ids.extend(batch.column("message_id").to_pylist())
            columns: dict[str, Any] = {
                "value": batch.column("value"),
                "channel": batch.column("channel"),
                "content_type": batch.column("content_type"),
                "headers": _arrow.array(self._headers(batch), LOG["headers"][0]),
            }
            if self._plan.to is None:
                columns["queue"] = _arrow.array(self._queues(batch), _arrow.string())
            if per_second is not None:
                delays = [(first + row) / per_second for row in range(batch.num_rows)]
                columns["delay_seconds"] = _arrow.array(delays, _arrow.float64())
            first += batch.num_rows
            yield _arrow.RecordBatch.from_pydict(columns)

    def _headers(self, batch: Any) -> Iterator[list[tuple[str, str]]]:
        ids = batch.column("message_id").to_pylist()
        for number, pairs in zip(ids, batch.column("headers").to_pylist(), strict=True):
            kept = [(name, text) for name, text in pairs or () if name not in HEADERS]
            ours = [(HEADERS[0], str(number)), (HEADERS[1], self._plan.run)]
            try:  # a message may have had as many headers as there can be
                limits.headers(dict([*kept, *ours]))
            except UsageError:
                ours = []
            yield [*kept, *ours]

    def _queues(self, batch: Any) -> Iterator[str]:
        names = batch.column("namespace").to_pylist(), batch.column("queue").to_pylist()
        confined = self._access.namespace is not None
        for namespace, queue in zip(*names, strict=True):
            yield queue if confined or not namespace else f"{namespace}/{queue}"


def _check_same(plan: Plan, to: str | None, filter_: Filter) -> None:
    """A run goes on as it began; instants may differ, as `2h` is another one each time."""
    began = replace(plan.filter, since=None, until=None)
    if plan.to != to or began != replace(filter_, since=None, until=None):
        raise UsageError(
            f"the run {plan.run} was begun with another target or other filters: give the same to "
            "go on with it, or another run id to send more"
        )


def _totals(chosen: Sequence[Chosen]) -> tuple[int, int]:
    return sum(one.rows for one in chosen), sum(one.without_value for one in chosen)


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(sorted(set(values)))
