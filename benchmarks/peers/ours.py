"""Turnabout itself, through its public library, on both stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import turnabout
from benchmarks.library import QUEUE, Consuming, Library, channel_name
from benchmarks.on_sqlite import PART
from benchmarks.peers.peer import BATCHES, Peer, PeerJob, Shape, Skill
from benchmarks.plan import AnyBase
from turnabout import __version__

SKILLS: tuple[Skill, ...] = ("send", "receive", "channels", "leased", "flow", "wait", "bytes")


class Client(Consuming):
    """Our library as its pages show it, with payloads of any size, and waiting."""

    def __init__(self, job: PeerJob) -> None:
        super().__init__(job.url, job.channels, b"x" * job.size)

    def tell(self, payload: bytes) -> None:
        """Send this."""
        self._queue.send(payload)

    def wait(self, seconds: float) -> Sequence[bytes]:
        """Receive, waiting for the first; ack."""
        found = self._queue.receive(10, wait_seconds=seconds)
        if found:
            self._queue.ack([message.receipt for message in found])
        return [message.payload for message in found]


class Turnabout(Peer):
    """As it comes out of the box: a row of history for each message that ended, for a week."""

    name = "turnabout"
    store = "PostgreSQL"
    about = (
        "Through the public library, as it comes out of the box: history is kept for a week, and"
        " the next messages are received with the acks of those before. At least once, fair"
        " between channels."
    )
    skills = SKILLS
    batches = BATCHES
    waiting = "select count(*) from turnabout.ready"
    history: ClassVar[bool] = True

    def version(self) -> str:
        """Of the checkout."""
        return __version__

    def install(self, base: AnyBase) -> None:
        """The schema is there; this makes the queue."""
        base.make_queue(history=self.history)

    def fill(self, base: AnyBase, count: int, shape: Shape) -> None:
        """Send them."""
        if shape.size == 100:
            base.fill(count, shape.channels)
            return
        missing = count - base.ready()
        with turnabout.connect(base.url) as connection:
            queue = connection.queue(QUEUE)
            part = max(PART * 100 // shape.size, 1)
            for first in range(0, missing, part):
                numbers = range(first, min(first + part, missing))
                names = [channel_name(number, shape.channels) for number in numbers]
                queue.send_many([turnabout.message(shape.payload, channel=n) for n in names])
        base.tidy()

    def empty(self, base: AnyBase) -> None:
        """Have nothing."""
        base.empty()

    def lease(self, base: AnyBase, count: int) -> None:
        """Receive them."""
        base.lease(count)

    def open(self, job: PeerJob) -> Client:
        """The library."""
        return Client(job)


class TurnaboutWithoutHistory(Turnabout):
    """As most of the others, which keep nothing of what has ended."""

    name = "turnabout-no-history"
    about = (
        "The same with `history_seconds=0`: like most others it keeps nothing of what has ended."
    )
    history = False


class TurnaboutByTwoCalls(Turnabout):
    """For those who ack apart."""

    name = "turnabout-two-calls"
    about = "As it comes, but with `receive` and `ack` in calls of their own."
    skills = ("receive",)

    def open(self, job: PeerJob) -> Library:
        """The library."""
        return Library(job.url, job.channels, b"x" * job.size)


class TurnaboutOnSqlite(Turnabout):
    """On a file."""

    name = "turnabout-sqlite"
    store = "SQLite"
    skills = ("send", "receive")


class TurnaboutOnSqliteWithoutHistory(TurnaboutOnSqlite):
    """As the others there, too, which keep nothing."""

    name = "turnabout-sqlite-no-history"
    about = TurnaboutWithoutHistory.about
    history = False
