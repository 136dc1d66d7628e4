"""`format("turnabout")` as a sink: rows become messages, a whole batch at once and only once.

Executors check rows (`outgoing`) and stage them, each task under a fresh name; the driver publishes
what the tasks staged that Spark counts, in one transaction with the note of the batch. So what a
failed or doubled task staged is never sent, and a batch that Spark repeats sends nothing.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from turnabout.pipeline.spark import options as opt
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.options import Options, options_of
from turnabout.pipeline.spark.outgoing import Invalid, dead_letter, staged
from turnabout.pipeline.spark.sink_schema import check_schema
from turnabout.pipeline.verbs import (
    AlreadyPublished,
    Publish,
    Published,
    PublishedLater,
    Stage,
    StagedMessage,
    StageIncomplete,
    Unstage,
)
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, Unavailable, Uncertain, UsageError
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.verbs import QueueList

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_arrow: Any = pa  # it has no types

CHUNK_MESSAGES: Final = 5_000
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A chunk is staged in one transaction; on SQLite others wait for it."""

FAIL: Final = "fail"
DEADLETTER: Final = "deadletter"

_RUN: Final = "run."
"""Before a `runId`, so that no batch write is taken for a stream's."""
_QUERY_DIGITS: Final = 12
"""Prefix of a query's id, after a `sinkId`."""
_NAME_CHARS: Final = 50
_PAUSES: Final = (0.2, 1.0, 5.0)
"""Seconds before a publishing is tried again whose answer was lost, or that did not happen."""
_ANEW: Final = "Begin with a new, empty checkpoint (or another runId), which is a sink of its own"
_QUERY_ID: Final = "sql.streaming.queryId"
"""A local property that Spark sets for the tasks of a stream, without documenting it."""


PublishOutcome = (
    Published | AlreadyPublished | PublishedLater | StageIncomplete | ChannelFull | QueueFull
)


class SinkFull(Unavailable):
    """A channel or a queue holds as many messages as its policy lets it. Nothing of the batch was
    sent; repeat it when there is room.
    """

    code = "sink_full"


@dataclass(frozen=True)
class Attempt(WriterCommitMessage):
    """A task's message to the driver: the name that it staged under, how many, for which query
    and which queues (a few of them, for an error's text).
    """

    name: str
    messages: int
    query: str | None = None
    queues: tuple[str, ...] = ()


@dataclass
class Sink:
    """Staging and publishing, without Spark. Travels to the executors; opens nothing before."""

    access: Access
    queue: str | None = None
    on_invalid: str = FAIL
    max_bytes: int = limits.PAYLOAD_BYTES_MAX
    pauses: Sequence[float] = _PAUSES
    _dead_letters: dict[str, str] = field(default_factory=dict[str, str])

    def check(self, queue: str) -> None:
        """Raises: UsageError for what is no queue's name; Forbidden if the token does not let the
        sink send to it.
        """
        try:
            self._stored(queue)
        finally:
            self.access.close()

    def stage(self, batches: Iterable[Any], query: str | None, partition: int) -> Attempt:
        """Put the rows aside under a fresh name. Raises: UsageError for an invalid row,
        unless those go to dead-letter queues; Forbidden, Unavailable, Uncertain.
        """
        name = uuid.uuid4().hex
        count = 0
        queues: dict[str, None] = {}
        try:
            for chunk in _chunks(self._messages(batches, partition)):
                self.access.run(Stage(name, chunk))
                count += len(chunk)
                if len(queues) < 4:
                    queues.update(dict.fromkeys(m.queue for m in chunk))
        except BaseException:
            self._forget((name,))
            raise
        finally:
            self.access.close()
        return Attempt(name, count, query, tuple(queues)[:4])

    def publish(self, sink: str, batch: int, attempts: Sequence[Attempt]) -> int:
        """Send what was staged, unless the batch was sent before. How many are sent now.

        Raises: SinkFull; Unavailable if something of it is gone; Forbidden, Uncertain.
        """
        attempts = [attempt for attempt in attempts if attempt.messages]
        if not attempts:
            return 0
        count = sum(attempt.messages for attempt in attempts)
        verb = Publish(sink, batch, tuple(attempt.name for attempt in attempts), count)
        try:
            outcome = self._patiently(verb)
        finally:
            self.access.close()
        match outcome:
            case Published():
                return outcome.messages
            case AlreadyPublished():
                if outcome.messages < count:
                    raise UsageError(_another(batch, outcome.messages, count))
                return 0
            case PublishedLater():
                raise UsageError(_older(batch, outcome.newest))
            case StageIncomplete():
                raise Unavailable(
                    f"nothing of batch {batch} was sent: of {outcome.expected:,} staged messages "
                    f"there are {outcome.found:,}, since the database has crashed or a day went "
                    "by; run it again"
                )
            case ChannelFull() | QueueFull():
                raise SinkFull(_full(outcome, batch, attempts))

    def forget(self, attempts: Iterable[Attempt | None]) -> None:
        """Remove what was staged and will not be published, as far as possible: a failure here
        would hide the one that it is about, and a day later all of it is gone anyway.
        """
        names = tuple(attempt.name for attempt in attempts if attempt is not None)
        try:
            self._forget(names)
        finally:
            self.access.close()

    def _messages(self, batches: Iterable[Any], partition: int) -> Iterator[StagedMessage]:
        first = 1
        for batch in batches:
            for one in staged(batch, self._stored, self.max_bytes, first):
                yield one if isinstance(one, StagedMessage) else self._invalid(one, partition)
            first += batch.num_rows

    def _stored(self, queue: Any) -> str:
        name = self.queue if queue is None else queue
        if name is None:
            raise UsageError('it has no queue: fill the column, or give .option("queue", …)')
        stored = self.access.stored(name)
        self.access.allow("send", name)
        return stored

    def _invalid(self, invalid: Invalid, partition: int) -> StagedMessage:
        if self.on_invalid == FAIL:
            raise UsageError(
                _refusal(invalid, partition, 'or .option("onInvalidRow", "deadletter")')
            )
        try:
            stored = self._stored(invalid.row.queue)
        except UsageError:
            stored = None if self.queue is None else self._stored(None)
        if stored is None:
            hint = 'and without .option("queue", …) nobody knows whose dead-letter queue it is for'
            raise UsageError(_refusal(invalid, partition, hint))
        named = str(self.queue if invalid.row.queue is None else invalid.row.queue)
        return dead_letter(invalid, named, self._dead_letter(stored), self.max_bytes)

    def _dead_letter(self, stored: str) -> str:
        """The queue that its dead messages go to, asked for once."""
        if stored not in self._dead_letters:
            namespace, _, _ = stored.rpartition("/")
            entries = self.access.run(QueueList(namespace or None))
            known = {entry.name: entry.dead_letter for entry in entries}
            self._dead_letters[stored] = known.get(stored) or stored + limits.DEAD_SUFFIX
        return self._dead_letters[stored]

    def _patiently(self, verb: Publish) -> PublishOutcome:
        """The note of the batch makes it safe to publish again whatever happened."""
        for pause in self.pauses:
            try:
                return self.access.run(verb)
            except (Unavailable, Uncertain):
                time.sleep(pause)
        return self.access.run(verb)

    def _forget(self, names: tuple[str, ...]) -> None:
        with contextlib.suppress(TurnaboutError):
            self.access.run(Unstage(names))


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one batch, with the name of its run."""

    def __init__(self, sink: Sink, run: str) -> None:
        self._sink = sink
        self._run = run

    def write(self, iterator: Iterator[Any]) -> Attempt:
        """On an executor."""
        return self._sink.stage(iterator, None, _partition())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have succeeded."""
        self._sink.publish(self._sink.access.stored(self._run), 0, _attempts(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when one has failed for good, or the commit has."""
        self._sink.forget(_attempts(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: Spark numbers the batches."""

    def __init__(self, sink: Sink, sink_id: str | None) -> None:
        self._sink = sink
        self._sink_id = sink_id

    def write(self, iterator: Iterator[Any]) -> Attempt:
        """On an executor."""
        query = _query()
        self._name(query)  # fails here rather than after all the work
        return self._sink.stage(iterator, query, _partition())

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


def send_once(frame: DataFrame, sink: Sink, run: str) -> None:
    """Write like `df.write` with this `runId`; for `replay`, into a local SQLite file as well."""
    writer = BatchWriter(sink, _RUN + _checked(run, "runId"))

    def stage(batches: Iterator[Any]) -> Iterator[Any]:
        told = writer.write(batches)
        yield _arrow.RecordBatch.from_pylist(
            [{"name": told.name, "messages": told.messages, "queues": list(told.queues)}]
        )

    untyped: Any = frame
    rows = untyped.mapInArrow(stage, "name string, messages bigint, queues array<string>").collect()
    attempts: list[WriterCommitMessage | None] = [
        Attempt(row["name"], row["messages"], None, tuple(row["queues"])) for row in rows
    ]
    try:
        writer.commit(attempts)
    except BaseException:
        writer.abort(attempts)
        raise


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """The writer of a `df.write`. Raises: UsageError for what is wrong with options and columns."""
    options = Options(given, options_of(opt.SINK))
    if overwrite:
        raise UsageError('messages are added, never overwritten: use .mode("append")')
    if "sinkId" in options:
        raise UsageError("sinkId is for writeStream; a batch write is known by its runId")
    run = _checked(options.text("runId") or uuid.uuid4().hex, "runId")
    return BatchWriter(_sink(options, schema), _RUN + run)


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamWriter:
    """The writer of a `df.writeStream`. Raises: UsageError, likewise."""
    options = Options(given, options_of(opt.SINK))
    if overwrite:
        raise UsageError(
            'messages are added, never overwritten: use .outputMode("append") or ("update")'
        )
    if "runId" in options:
        raise UsageError("runId is for df.write; a stream's batches are known by its checkpoint")
    sink_id = options.text("sinkId")
    if sink_id is not None:
        if sink_id.startswith(_RUN):
            raise UsageError(f"a sinkId does not begin with {_RUN!r}: that is for batch writes")
        _checked(sink_id, "sinkId")
    return StreamWriter(_sink(options, schema), sink_id)


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
    """A name with room for what is added to it: the database keeps 64 characters."""
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


def _chunks(messages: Iterator[StagedMessage]) -> Iterator[tuple[StagedMessage, ...]]:
    chunk: list[StagedMessage] = []
    size = 0
    for one in messages:
        chunk.append(one)
        size += len(one.message.payload)
        if size >= CHUNK_BYTES or len(chunk) == CHUNK_MESSAGES:
            yield tuple(chunk)
            chunk, size = [], 0
    if chunk:
        yield tuple(chunk)


def _attempts(messages: Iterable[WriterCommitMessage | None]) -> list[Attempt]:
    """Spark says None for a task without a message."""
    return [message for message in messages if isinstance(message, Attempt)]


def _refusal(invalid: Invalid, partition: int, hint: str) -> str:
    return (
        f"row {invalid.at:,} of partition {partition} is not a valid message: {invalid.reason}. "
        f"Nothing of the batch was sent: fix the row, {hint}"
    )


def _older(batch: int, newest: int) -> str:
    return (
        f"nothing of batch {batch} was sent: batch {newest} of this sink was sent before, so the "
        f"checkpoint is an older copy. {_ANEW}"
    )


def _another(batch: int, before: int, now: int) -> str:
    return (
        f"nothing was sent: batch {batch} of this sink was sent before, with {before:,} messages, "
        f"and has {now:,} now, so it is another one: the checkpoint is an older copy, or the runId "
        f"was used before. {_ANEW}"
    )


def _full(full: ChannelFull | QueueFull, batch: int, attempts: Sequence[Attempt]) -> str:
    queues = dict.fromkeys(queue for attempt in attempts for queue in attempt.queues)
    where = "queue " + " or ".join(queues)
    if isinstance(full, ChannelFull):
        where = f"channel {limits.shown(full.channel)} of {where}"
    most = full.max_size if isinstance(full, ChannelFull) else full.max_messages
    return (
        f"nothing of batch {batch} was sent: {where} holds {full.size:,} messages of at most "
        f"{most:,}; run it again when there is room, or with smaller batches"
    )


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _query() -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)
