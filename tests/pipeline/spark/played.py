"""A streaming query, played in the order in which Spark calls: without a JVM, and killed at will.

The checkpoint outlives `Query.start`, as a restart finds it. Where Spark has executors, a pickled
copy of the reader reads.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.types import MapType, StringType, StructType

from turnabout.pipeline import schema as columns
from turnabout.pipeline.spark.source import TurnaboutSource

KILLS = ("after the lease", "after the offset log", "after the sink", "after the commit log")


class Killed(Exception):
    """The driver died."""


def source(url: str, **options: Any) -> TurnaboutSource:
    given = {"url": url, **{k: str(v) for k, v in options.items()}}
    return pickle.loads(pickle.dumps(TurnaboutSource(given)))  # type: ignore[arg-type]


def struct(ddl: str) -> StructType:
    """Spark's schema; Spark itself parses DDL in the JVM."""
    names = {"bigint": "long", "int": "integer"}
    made = StructType()
    for column in ddl.split(", "):
        name, kind = column.split(" ")
        typed = MapType(StringType(), StringType()) if kind.startswith("map") else None
        made = made.add(name, typed or names.get(kind, kind))
    return made


class Query:
    """A query with a checkpoint and a sink that keeps batches by their number."""

    def __init__(self, url: str, ddl: str | None = None, **options: Any) -> None:
        self.url, self.options = url, {"numPartitions": 2, **options}
        self.ddl = ddl
        self.offsets: list[str] = []
        self.committed = -1
        self.sink: dict[int, list[dict[str, Any]]] = {}
        self.reader: Any = None
        self.fails: Callable[[list[dict[str, Any]]], bool] = lambda _: False

    def start(self, *, available_now: bool = False) -> "Query":
        """The driver, anew; what an earlier one held is gone, as after a kill."""
        self.kill()
        made = source(self.url, **self.options)
        self.reader = made.streamReader(struct(self.ddl or made.schema()))
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        if not self.offsets:
            self.offsets.append(json.dumps(self.reader.initialOffset()))
        self._is_replay = len(self.offsets) - 2 > self.committed
        return self

    def kill(self) -> None:
        if self.reader is not None:
            self.reader.stop()  # frees the connection, as the end of the process would
            self.reader = None

    def trigger(self, kill: str = "") -> list[dict[str, Any]] | None:
        """One batch; None if there is nothing to do."""
        try:
            return self._trigger(kill)
        except BaseException:
            self.kill()
            raise

    def _trigger(self, kill: str) -> list[dict[str, Any]] | None:
        if self._is_replay:
            self._is_replay = False
        else:
            start = json.loads(self.offsets[-1])
            end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
            if json.dumps(end) == self.offsets[-1]:
                return None
            self._die(kill, KILLS[0])
            self.offsets.append(json.dumps(end))
            if len(self.offsets) > 2:
                self.reader.commit(start)
        self._die(kill, KILLS[1])
        batch = len(self.offsets) - 2
        found = self.read(*map(json.loads, self.offsets[-2:]))
        if self.fails(found):
            raise Killed
        self.sink[batch] = found
        self._die(kill, KILLS[2])
        self.committed = batch
        self._die(kill, KILLS[3])
        return found

    def read(self, start: Any, end: Any) -> list[dict[str, Any]]:
        executor = pickle.loads(pickle.dumps(self.reader))
        planned = self.reader.partitions(start, end)
        assert isinstance(planned, list)
        return [row for part in planned for row in rows_of(executor, part)]

    def run(self) -> int:
        """As AvailableNow does: batches until there are no more; how many."""
        batches = 0
        while self.trigger() is not None:
            batches += 1
        return batches

    def seen(self) -> list[str]:
        """Payloads in the sink, in the order of batches."""
        return [row["value"].decode() for batch in sorted(self.sink) for row in self.sink[batch]]

    @staticmethod
    def _die(kill: str, here: str) -> None:
        if kill == here:
            raise Killed


def rows_of(reader: Any, partition: Any) -> Iterator[dict[str, Any]]:
    """The rows of a partition, after it was sent to an executor, too."""
    wanted = None
    for batch in reader.read(pickle.loads(pickle.dumps(partition))):
        wanted = wanted or columns.arrow_schema(reader._columns, all_columns())
        assert batch.schema.equals(wanted), (batch.schema, wanted)
        yield from batch.to_pylist()


def all_columns() -> dict[str, Any]:
    return {**columns.DEAD, **columns.LOG, **columns.LEASE}


def read(url: str, ddl: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """A batch read, as `spark.read` does it."""
    made = source(url, **options)
    reader: Any = made.reader(struct(ddl or made.schema()))
    planned = reader.partitions()
    executor = pickle.loads(pickle.dumps(reader))
    return [row for part in planned for row in rows_of(executor, part)]
