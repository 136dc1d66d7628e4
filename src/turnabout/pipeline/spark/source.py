"""`format("turnabout")`: what Spark asks for a schema, for readers and for writers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from turnabout.pipeline import schema
from turnabout.pipeline.spark import lease, lease_settings, log, rows
from turnabout.pipeline.spark import options as opt
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.filters import Condition, Names, pushed
from turnabout.pipeline.spark.options import PARTITIONS_MAX, Options, options_of
from turnabout.pipeline.spark.streams import in_task
from turnabout.pipeline.spark.versions import Filter, need_limits, push_filters
from turnabout.pipeline.verbs import (
    START,
    LogAt,
    LogCut,
    LogFile,
    LogFiles,
    LogLook,
    LogNext,
    LogRange,
)
from turnabout.words.errors import Forbidden, UsageError
from turnabout.words.limits import DEAD_SUFFIX


class TurnaboutSource(DataSource):
    """The data source. Made anew by Spark in each process; it opens nothing by itself.

    Raises: UsageError for an option or column that is not known, and what to write instead.
    """

    parallelism: ClassVar[int] = 2
    """Tasks of a batch, unless `numPartitions` says it: as many as the cluster runs at once, where
    `register` has found that out."""

    @classmethod
    def name(cls) -> str:
        """`turnabout`, as in `format("turnabout")`."""
        return "turnabout"

    def schema(self) -> str:
        """The columns of the mode, unless a schema asks for others."""
        options, mode = self._reading()
        names = schema.column_names(
            mode, headers=options.flag("includeHeaders"), payload=options.flag("includeValue")
        )
        return schema.ddl(names, schema.BY_MODE[mode])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader for `spark.read`: modes `log`, `history` and `dead`."""
        options, mode = self._reading()
        if mode == opt.LEASE:
            raise UsageError(
                "mode=lease is for spark.readStream: a batch that leases could never acknowledge. "
                "spark.read has mode log, history or dead"
            )
        return BatchReader(Access.of(options), mode, options, _columns(schema, mode))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Reader for `spark.readStream`: modes `lease` and `log`."""
        options, mode = self._reading()
        columns = _columns(schema, mode)
        if mode == opt.LEASE:
            settings = lease_settings.LeaseSettings.of(options)
            access = Access.of(options).need_postgresql("mode=lease")
            return lease.LeaseReader(access, settings, columns)
        if mode == opt.LOG:
            return log.LogReader(Access.of(options), log.LogSettings.of(options), columns)
        raise UsageError(f"mode={mode} is for spark.read: a stream has mode lease or log")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Writer for `df.write`."""
        from turnabout.pipeline.spark import sink

        return sink.batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        """Writer for `df.writeStream`."""
        from turnabout.pipeline.spark import sink

        return sink.stream_writer(self.options, schema, overwrite=overwrite)

    def _reading(self) -> tuple[Options, str]:
        """The options and the mode: which there are depends on that one."""
        texts = {str(name).lower(): text for name, text in self.options.items()}
        if "provider" in texts:
            raise UsageError(
                "Spark keeps the options of a table in its catalogue to itself: make a TEMPORARY "
                "VIEW … USING turnabout OPTIONS (…), which can be read and inserted into; or name "
                "the table's columns, and the options in each statement: … WITH (url = '…')"
            )
        mode = (texts.get("mode") or opt.LOG).lower()
        if mode not in opt.MODES:
            raise UsageError(f"mode is one of {', '.join(opt.MODES)}, not {texts['mode']!r}")
        parts = {"numPartitions": str(self.parallelism)}
        options = Options({**parts, **self.options}, options_of(mode))
        if mode == opt.LEASE:
            need_limits("mode=lease")
        for name in opt.LIMITS:
            if name in options:
                need_limits(name)
        return options, mode


def _columns(struct: StructType, mode: str) -> tuple[str, ...]:
    """The columns that are read: those of the schema, which may be the user's."""
    fields: list[Any] = list(struct.fields)
    for one in fields:
        if not one.nullable:
            raise UsageError(f"the column {one.name} may be null: leave NOT NULL out of the schema")
    return schema.checked_columns({f.name: f.dataType.simpleString() for f in fields}, mode)


# --- reading in batches ---------------------------------------------------------------------------


class _Push:
    """`pushFilters` of a reader, which Spark's check takes for the one that does nothing.

    Where `spark.sql.python.filterPushdown.enabled` is off, Spark refuses every reader that has a
    `pushFilters` of its own, and no reader can see the setting. So reading works there, too; where
    it is on, this is what Spark calls.
    """

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self.__func__ = push_filters
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


@dataclass
class ViewPartition(InputPartition):
    """The input of one task in mode `dead`, or in `history` without a beginning in time: rows of a
    view, by blocks or by a condition.
    """

    view: str
    names: Names
    of: rows.Blocks | None = None
    where: tuple[Condition, ...] = ()


class BatchReader(DataSourceReader):
    """The reader of `spark.read.format("turnabout")`: changes nothing."""

    def __init__(self, access: Access, mode: str, options: Options, columns: Sequence[str]) -> None:
        self._access = access
        self._mode = mode
        self._columns = tuple(columns)
        self._where: list[Condition] = []
        self._subscribe, self._pattern = lease_settings.subscribed(options)
        self._parts = options.whole("numPartitions", 1, PARTITIONS_MAX)
        self._from: int | None = None
        self._to: int | None = None
        self._starting, self._ending = log.EARLIEST, log.LATEST
        self._fail_on_data_loss = mode == opt.LOG and options.flag("failOnDataLoss")
        if mode != opt.DEAD:
            self._from = options.instant("startingTimestamp")
            self._to = options.instant("endingTimestamp")
        if mode == opt.LOG:
            self._starting = log.offset(options, "startingOffsets", (log.EARLIEST,))
            self._ending = log.offset(options, "endingOffsets", (log.LATEST,))
        self.pushFilters = _Push(self._push)

    def _push(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what the database can decide itself; what is answered stays with Spark."""
        taken, left = pushed(filters, schema.BY_MODE[self._mode])
        self._where += taken
        return left

    def partitions(self) -> list[InputPartition]:
        """The input of each task."""
        try:
            if self._mode == opt.DEAD:
                names, parts = self._names_of_dead(), range(self._parts)
                each = [Condition("message_id", "mod", (self._parts, n)) for n in parts]
                return [ViewPartition("dead_rows", names, where=(one,)) for one in each]
            if self._subscribe is not None:
                self._access.queues(self._subscribe, None, ("history",))  # a name that is wrong
            names = log.names_for(self._access, "history", self._subscribe, self._pattern)
            return self._of_log(names) if self._mode == opt.LOG else self._of_history(names)
        finally:
            self._access.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition."""
        where = [*self._where, *self._between()] if self._mode != opt.LOG else self._where
        if isinstance(partition, ViewPartition):
            where, of, names = [*where, *partition.where], partition.of, partition.names
            view, keep = partition.view, in_task()
            return rows.read(
                self._access, view, self._columns, where, of=of, names=names, keep=keep
            )
        if not isinstance(partition, log.LogPartition):
            return iter(())  # where there is none, Spark makes one of its own
        strict = self._fail_on_data_loss
        return log.read_range(
            self._access, self._columns, partition, where=where, fail_on_data_loss=strict
        )

    def _of_log(self, names: Names) -> list[InputPartition]:
        after, until = START, None
        if self._from is not None:
            after = self._access.run(LogAt(self._from))
        elif self._starting != log.EARLIEST:
            after = log.position_of(self._starting)
        if self._to is not None:
            until = self._access.run(LogAt(self._to))
        elif self._ending != log.LATEST:
            until = log.position_of(self._ending)
        for position in filter(None, (after, until)):
            # A position that lies too far back is an error, unless it was made of a timestamp.
            ignore_loss = position != after or self._from is not None or not self._fail_on_data_loss
            found = self._access.run(LogNext(position, 1, ignore_loss=ignore_loss))
            if not isinstance(found, LogRange):
                raise log.lost(found, position)
        if until is None:
            until = self._access.run(LogLook()).end
        cut = self._access.run(LogCut(after, until, self._parts))
        return [log.LogPartition(one.after, one.until, one.messages, names, after) for one in cut]

    def _of_history(self, names: Names) -> list[InputPartition]:
        """The log in pieces; the last has what running transactions still hold out of it, too.

        Without a beginning in time, PostgreSQL's is read block by block, in no order.
        """
        since, files = START, self._access.run(LogFiles())
        bounds = [
            one.operand
            for one in [*self._where, *self._between()]
            if one.column == "finished_at" and one.op in (">", ">=", "=")
        ]
        if bounds:
            since = self._access.run(LogAt(max(0, *bounds)))  # nothing before it is meant
        elif files:
            found = _blocks(files, self._parts)
            return [ViewPartition("log_rows", names, of) for of in found]
        end = self._access.run(LogLook()).end
        cut = self._access.run(LogCut(since, end, self._parts, exact=False))
        pieces: list[tuple[str, str | None]] = [(one.after, one.until) for one in cut]
        if files:
            pieces[-1:] = [(pieces[-1][0] if pieces else end, None)]
        return [log.LogPartition(after, until, None, names) for after, until in pieces]

    def _between(self) -> list[Condition]:
        """`startingTimestamp` and `endingTimestamp`, which is not included, as conditions."""
        found: list[Condition] = []
        if self._from is not None:
            found.append(Condition("finished_at", ">=", self._from))
        if self._to is not None:
            found.append(Condition("finished_at", "<", self._to))
        return found

    def _names_of_dead(self) -> Names:
        """Resolve a queue's name to its dead messages: its own, or those of a dead-letter queue."""
        access, queues = self._access, None
        if self._subscribe is not None:
            access.queues(self._subscribe, None, ())  # a name that is wrong
            for queue in self._subscribe:
                try:
                    access.allow("peek", queue)
                except Forbidden:
                    access.allow("peek", queue + DEAD_SUFFIX)
            queues = tuple(access.stored(queue) for queue in self._subscribe)
        return Names(access.namespace, queues, self._pattern, access.globs("peek"))


def _blocks(files: Sequence[LogFile], parts: int) -> list[rows.Blocks]:
    """Up to `parts` ranges of about as many blocks, each the same range of every file."""

    def before(block: int) -> int:
        return sum(min(block, file.blocks) for file in files)

    until = range(max(file.blocks for file in files) + 1)
    shares = [nr * before(until[-1]) // parts for nr in range(parts)]
    bounds = sorted({bisect_left(until, share, key=before) for share in shares})
    numbers = {file.table: file.number for file in files}
    return [rows.Blocks(*pair, numbers) for pair in zip(bounds, [*bounds[1:], None], strict=True)]
