"""Messages into batches, in order: what was sent, what was refused, and where to go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from turnabout.cli import _show
from turnabout.cli._interrupt import unbroken
from turnabout.cli._lines import Record
from turnabout.words.outcomes import ChannelFull, QueueFull, Sent

if TYPE_CHECKING:
    from turnabout import Queue

BATCH_BYTES_MAX = 4 * 1024 * 1024
WAIT_SECONDS = 0.25
WhenFull = Literal["stop", "skip", "wait"]


class SendReport(Struct):
    """The counts of a send; printed by --json."""

    queue: str
    sent: int
    refused: int
    duplicates: int
    """Not sent: an earlier message with the same key stands for each, and its id is named."""
    replaced: int
    """Messages that replaced a waiting one."""
    blank: int
    first_id: int | None
    last_id: int | None
    next_line: int | None
    """The first that was not sent, if it stopped early."""


def begun(queue: str) -> SendReport:
    """The report before anything was sent."""
    return SendReport(queue, 0, 0, 0, 0, 0, None, None, None)


class Full(Exception):
    """The queue or a channel is full, and the user said to stop."""

    def __init__(self, queue: str, outcome: ChannelFull | QueueFull) -> None:
        super().__init__()
        if isinstance(outcome, ChannelFull):
            self.code, self.where = "channel_full", f"channel {_show.channel(outcome.channel)}"
            most = f"its policy allows {outcome.max_size:,}"
        else:
            self.code, self.where = "queue_full", f"queue {queue}"
            most = f"its max_messages is {outcome.max_messages:,}"
        holds = f"it holds {outcome.size:,} unfinished messages"
        self.text = f"{self.where} is full: {holds} and {most}"


@dataclass
class RecordSender:
    """Sends batches, and keeps the report."""

    queue: Queue
    batch_size: int
    when_full: WhenFull
    report: SendReport
    on_sent: Callable[[], None] = lambda: None
    pending: list[Record] = field(default_factory=list[Record])
    _waiting_for: str | None = None
    _bytes: int = 0

    def add(self, record: Record) -> None:
        """Take one more; a batch that is large enough is sent."""
        self.pending.append(record)
        self._bytes += len(record.message.payload)
        if len(self.pending) >= self.batch_size or self._bytes >= BATCH_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what is pending, in order.

        A batch is all or nothing, so when a channel is full half of it is tried, down to the one
        message that does not fit: then nothing after it was sent, and its line is where to go on.
        """
        part = len(self.pending)
        while self.pending:
            part = min(part, len(self.pending))
            with unbroken():
                outcome = self.queue.send_many(r.message for r in self.pending[:part])
                if isinstance(outcome, Sent):
                    self._count(outcome, part)
            if isinstance(outcome, Sent):
                part *= 2
            elif part > 1:
                part //= 2
            elif self.when_full == "skip":
                self.report.refused += 1
                del self.pending[0]
            else:
                self._stop_or_wait(Full(self.queue.name, outcome))
        self._bytes = 0

    def _count(self, outcome: Sent, part: int) -> None:
        report = self.report
        report.duplicates += len(outcome.duplicates)
        report.replaced += len(outcome.replaced)
        report.sent += len(outcome.ids) - len(outcome.duplicates) - len(outcome.replaced)
        report.first_id = report.first_id or outcome.ids[0]
        report.last_id = outcome.ids[-1]
        self._waiting_for = None
        del self.pending[:part]
        self.on_sent()

    def _stop_or_wait(self, full: Full) -> None:
        if self.when_full == "stop":
            raise full
        if self._waiting_for != full.where:
            self._waiting_for = full.where
            _show.note(f"Waiting for room in {full.where} …")
        time.sleep(WAIT_SECONDS)
