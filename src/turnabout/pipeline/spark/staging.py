"""Staging and publishing: a batch of rows becomes messages at once, and only once. No Spark here.

Rows are checked (`outgoing`) and put aside under a fresh name; what counts of it is then published
in one transaction, with the note of the batch.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turnabout.pipeline.gathered import gathered
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.outgoing import Invalid, dead_letter, staged
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

CHUNK_MESSAGES: Final = 5_000
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""A chunk is staged in one transaction; on SQLite others wait for it."""

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
            for chunk in gathered(self._messages(batches, partition), CHUNK_BYTES, _size):
                self.access.run(Stage(name, tuple(chunk)))
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


def _size(one: StagedMessage) -> int:
    """The payload's, but a chunk has at most `CHUNK_MESSAGES`."""
    return max(len(one.message.payload), -(-CHUNK_BYTES // CHUNK_MESSAGES))


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
