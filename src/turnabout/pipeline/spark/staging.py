"""Staging and publishing: a batch of rows becomes messages at once, and only once. No Spark here.

Rows are checked (`outgoing`) and put aside under a fresh name; what counts of it is then published
in one transaction, with the note of the batch.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from turnabout.pipeline.gathered import gathered
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.outgoing import CheckedRows, Invalid, checked, dead_letter
from turnabout.pipeline.verbs import (
    AlreadyPublished,
    Publish,
    Published,
    PublishedLater,
    Stage,
    StagedMessages,
    StageIncomplete,
    Unstage,
)
from turnabout.words import limits
from turnabout.words.errors import TurnaboutError, Unavailable, Uncertain, UsageError
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.verbs import QueueList

CHUNK_MESSAGES: Final = 5_000
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A chunk is staged in one transaction; on SQLite others wait for it."""
HELD_BYTES: Final = 4 * CHUNK_BYTES
"""Most that a task holds before it is staged."""

FAIL: Final = "fail"
DEADLETTER: Final = "deadletter"

RUN: Final = "run."
"""Prefix of a `runId`, so that no batch write is taken for a stream's."""
_PAUSES: Final = (0.2, 1.0, 5.0)
"""Seconds before a publishing is tried again whose answer was lost, or that did not happen."""
_ANEW: Final = "Begin with a new, empty checkpoint (or another runId), which is a sink of its own"


PublishOutcome = (
    Published | AlreadyPublished | PublishedLater | StageIncomplete | ChannelFull | QueueFull
)


class SinkFull(Unavailable):
    """A channel or a queue holds as many messages as its policy lets it. Nothing of the batch was
    sent; repeat it when there is room.
    """

    code = "sink_full"


@dataclass(frozen=True)
class Attempt:
    """The messages that a task has staged: their name, number, query and queues (a few of them, for
    an error's text).
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
            for parts in self._parts(batches, partition):
                self.access.run(Stage(name, parts))
                count += sum(len(part.payloads) for part in parts)
                if len(queues) < 4:
                    queues.update(dict.fromkeys(part.queue for part in parts))
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
                    raise UsageError(
                        f"nothing was sent: batch {batch} of this sink was sent before, with "
                        f"{outcome.messages:,} messages, and has {count:,} now, so it is another "
                        "one: the checkpoint is an older copy, or the runId was used before. "
                        f"{_ANEW}"
                    )
                return 0
            case PublishedLater():
                raise UsageError(
                    f"nothing of batch {batch} was sent: batch {outcome.newest} of this sink was "
                    f"sent before, so the checkpoint is an older copy. {_ANEW}"
                )
            case StageIncomplete():
                raise Unavailable(
                    f"nothing of batch {batch} was sent: of {outcome.expected:,} staged messages "
                    f"there are {outcome.found:,}, since the database has crashed or a day went "
                    "by; run it again"
                )
            case ChannelFull() | QueueFull():
                raise SinkFull(_full(outcome, batch, attempts))

    def was_sent(self, run: str) -> bool:
        """Whether a run was sent. Waits for a transaction that is sending it at the moment."""
        try:
            # Nothing was staged for it: a message that is missing keeps it from being sent.
            answer = self._patiently(Publish(self.access.stored(run), 0, (), 1))
        finally:
            self.access.close()
        return isinstance(answer, AlreadyPublished)

    def forget(self, attempts: Iterable[Attempt | None]) -> None:
        """Remove what was staged and will not be published, as far as possible: a failure here
        would hide the one that it is about, and a day later all of it is gone anyway.
        """
        names = tuple(attempt.name for attempt in attempts if attempt is not None)
        try:
            self._forget(names)
        finally:
            self.access.close()

    def _parts(
        self, batches: Iterable[Any], partition: int
    ) -> Iterator[tuple[StagedMessages, ...]]:
        """The rows by queue, as much at once as one call stages. Rows of many queues are held until
        there is a good part of each: it takes about as long to publish one row as a hundred.
        """
        held: dict[str, _Held] = {}
        first = 1
        for batch in batches:
            rows = checked(batch, self._stored, self.max_bytes, first)
            first += batch.num_rows
            letters = (self.refused(one, partition) for one in rows.invalid)
            pieces = [*_together(rows), *filter(None, letters)]
            for piece in pieces:
                if piece.queue not in held:
                    held[piece.queue] = _Held(StagedMessages(piece.queue, [], rows.content_type))
                part = held[piece.queue]
                part.add(piece)
                if part.size >= CHUNK_BYTES:
                    yield (held.pop(piece.queue).messages,)
            if sum(part.size for part in held.values()) >= HELD_BYTES:
                yield from _calls(held)
        yield from _calls(held)

    def _stored(self, queue: Any) -> str:
        name = self.queue if queue is None else queue
        if name is None:
            raise UsageError('it has no queue: fill the column, or give .option("queue", …)')
        stored = self.access.stored(name)
        self.access.allow("send", name)
        return stored

    def refused(self, invalid: Invalid, partition: int) -> StagedMessages | None:
        """Make a dead letter of a row that can't be a message, or None to leave the row out.

        Raises: UsageError, which fails the batch.
        """
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


@dataclass
class _Held:
    """Messages of a queue that are not staged yet."""

    messages: StagedMessages
    size: int = 0

    def add(self, more: StagedMessages) -> None:
        """Put messages behind those that are there."""
        self.messages.add(more.payloads, more.columns)
        self.size += sum(_sizes(more.payloads))


def _together(rows: CheckedRows) -> Iterator[StagedMessages]:
    """The rows by queue, in their order, never more than are staged at once."""
    by_queue: dict[str, list[int]] = {}
    if len(set(rows.queues)) > 1:
        for number, queue in enumerate(rows.queues):
            by_queue.setdefault(queue, []).append(number)
    for queue in dict.fromkeys(rows.queues):
        payloads, columns = rows.payloads, rows.columns
        if by_queue:
            its = by_queue[queue]
            payloads = [payloads[number] for number in its]
            columns = {name: [c[number] for number in its] for name, c in columns.items()}
        sizes = list(accumulate(_sizes(payloads)))
        since = before = 0
        while since < len(sizes):
            until = bisect_left(sizes, before + CHUNK_BYTES) + 1
            some = {name: column[since:until] for name, column in columns.items()}
            yield StagedMessages(queue, payloads[since:until], rows.content_type, some)
            since, before = until, sizes[min(until, len(sizes)) - 1]


def _calls(held: dict[str, _Held]) -> Iterator[tuple[StagedMessages, ...]]:
    """Hand out what is held, for one call after the other."""
    for parts in gathered(held.values(), CHUNK_BYTES, lambda part: part.size):
        yield tuple(part.messages for part in parts)
    held.clear()


def _sizes(payloads: Iterable[bytes]) -> list[int]:
    """Each payload's, but at most `CHUNK_MESSAGES` are staged at once."""
    least = -(-CHUNK_BYTES // CHUNK_MESSAGES)
    sizes = list(map(len, payloads))
    are_small = max(sizes, default=0) <= least
    return [least] * len(sizes) if are_small else [max(least, size) for size in sizes]


def _refusal(invalid: Invalid, partition: int, hint: str) -> str:
    return (
        f"row {invalid.at:,} of partition {partition} is not a valid message: {invalid.reason}. "
        f"Nothing of the batch was sent: fix the row, {hint}"
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
