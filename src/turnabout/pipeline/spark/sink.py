"""`format("turnabout")` as a sink: rows become messages, a whole batch at once and only once.

Executors check rows (`outgoing`) and stage them, each task under a fresh name; the driver publishes
what the tasks staged that Spark counts, in one transaction with the note of the batch. So what a
failed or doubled task staged is never sent, and a batch that Spark repeats sends nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from turnabout.pipeline.spark import options as opt
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.options import Options, options_of
from turnabout.pipeline.spark.sink_schema import check_schema
from turnabout.pipeline.spark.staging import DEADLETTER, FAIL, RUN, Attempt, Sink
from turnabout.pipeline.spark.versions import DataSourceStreamArrowWriter, arrow_batches
from turnabout.words import limits
from turnabout.words.errors import UsageError

_arrow: Any = pa  # it has no types

_QUERY_DIGITS: Final = 12
"""Prefix of a query's id, after a `sinkId`."""
_NAME_CHARS: Final = 50
_QUERY_ID: Final = "sql.streaming.queryId"
"""A local property that Spark sets for the tasks of a stream, without documenting it."""


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """A task's message to the driver."""

    attempt: Attempt


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one batch, with the name of its run."""

    def __init__(self, sink: Sink, run: str, *, may_be_sent: bool = False) -> None:
        self._sink = sink
        self._run = run
        self._may_be_sent = may_be_sent

    def write(self, iterator: Iterator[Any]) -> TaskCommit:
        """On an executor. Rows of a run that was sent are only counted: they are to be as many."""
        if self._may_be_sent and self._sink.was_sent(self._run):
            return TaskCommit(Attempt(uuid.uuid4().hex, sum(batch.num_rows for batch in iterator)))
        return TaskCommit(self._sink.stage(iterator, None, _partition()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have succeeded."""
        self._sink.publish(self._sink.access.stored(self._run), 0, _attempts(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when one has failed for good, or the commit has."""
        self._sink.forget(_attempts(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: Spark numbers the batches."""

    def __init__(self, sink: Sink, sink_id: str | None, schema: StructType | None = None) -> None:
        self._sink = sink
        self._schema = schema
        self._sink_id = sink_id

    def write(self, iterator: Iterator[Any]) -> TaskCommit:
        """On an executor."""
        query = _query()
        self._name(query)  # fails here rather than after all the work
        batches = arrow_batches(iterator, self._schema)
        return TaskCommit(self._sink.stage(batches, query, _partition()))

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """On the driver, when all tasks have succeeded; repeated with the batch."""
        attempts = _attempts(messages)
        if attempts:
            name = self._name(attempts[0].query)
            self._sink.publish(self._sink.access.stored(name), batchId, attempts)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """On the driver, when one has failed for good, or the commit has."""
        self._sink.forget(_attempts(messages))

    def _name(self, query: str | None) -> str:
        """The sink's. Each checkpoint has a query id of its own, and begins with batch 0: its
        batches must not be taken for those of an older one that had the same `sinkId`.
        """
        if query is None:
            if self._sink_id is None:
                raise UsageError(
                    "this Spark does not show its tasks the id of the streaming query: give "
                    '.option("sinkId", …), a new one for each new checkpoint'
                )
            return self._sink_id
        if self._sink_id is None:
            return query
        return f"{self._sink_id}.{query.replace('-', '')[:_QUERY_DIGITS]}"


def batch_writer(texts: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """The writer of a `df.write`. Raises: UsageError for what is wrong with options and columns."""
    options = Options(texts, options_of(opt.SINK))
    if overwrite:
        raise UsageError('messages are added, never overwritten: use .mode("append")')
    if "sinkId" in options:
        raise UsageError("sinkId is for writeStream; a batch write is known by its runId")
    run = RUN + _checked(options.text("runId") or uuid.uuid4().hex, "runId")
    return BatchWriter(_sink(options, schema), run, may_be_sent="runId" in options)


def stream_writer(texts: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """The writer of a `df.writeStream`. Raises: UsageError, likewise."""
    options = Options(texts, options_of(opt.SINK))
    if overwrite:
        raise UsageError(
            'messages are added, never overwritten: use .outputMode("append") or ("update")'
        )
    if "runId" in options:
        raise UsageError("runId is for df.write; a stream's batches are known by its checkpoint")
    sink_id = options.text("sinkId")
    if sink_id is not None:
        if sink_id.startswith(RUN):
            raise UsageError(f"a sinkId does not begin with {RUN!r}: that is for batch writes")
        _checked(sink_id, "sinkId")
    return StreamWriter(_sink(options, schema), sink_id, schema)


def _sink(options: Options, schema: StructType) -> Sink:
    queue = options.text("queue")
    check_schema(schema, has_queue=queue is not None)
    on_invalid = options.choice("onInvalidRow", (FAIL, DEADLETTER))
    max_bytes = options.whole("maxPayloadBytes", 1, limits.PAYLOAD_BYTES_HARD_MAX)
    access = Access.of(options).need_postgresql("the sink")
    sink = Sink(access, queue, on_invalid, max_bytes)
    if queue is not None:
        sink.check(queue)
    return sink


def _checked(name: str, what: str) -> str:
    """A name with room for what is added to it: the database keeps 80 characters."""
    try:
        limits.plain_name(name)
        fits = len(name) <= _NAME_CHARS
    except UsageError:
        fits = False
    if not fits:
        raise UsageError(
            f"{limits.shown(name)} is not a valid {what}: use up to {_NAME_CHARS} letters, "
            "digits, '_', '.', '-'"
        )
    return name


def _attempts(messages: Iterable[WriterCommitMessage | None]) -> list[Attempt]:
    """Spark says None for a task without a message."""
    return [message.attempt for message in messages if isinstance(message, TaskCommit)]


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _query() -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)
