"""Turnabout itself, through its public library, on both stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import turnabout
from benchmarks.library import QUEUE, Library, channel_name
from benchmarks.on_sqlite import PART
from benchmarks.peers.peer import BATCHES, Peer, PeerJob, Shape, Skill
from benchmarks.plan import AnyBase
from turnabout import __version__

SKILLS: tuple[Skill, ...] = ("send", "receive", "channels", "leased", "flow", "wait", "bytes")


class Client(Library):
    """Our library, with payloads of any size, and waiting."""

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
    """Without history, as the others have none."""

    name = "turnabout"
    store = "PostgreSQL"
    about = "Through the public library, history off; at least once, fair between channels."
    skills = SKILLS
    batches = BATCHES
    waiting = "select count(*) from turnabout.ready"
    history: ClassVar[bool] = False

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


class TurnaboutWithHistory(Turnabout):
    """As it comes: a row of history for each message that ended, for a week."""

    name = "turnabout-history"
    about = "The same as it comes out of the box: what has ended is kept for a week."
    skills = ("send", "receive", "bytes")
    history = True


class TurnaboutOnSqlite(Turnabout):
    """On a file."""

    name = "turnabout-sqlite"
    store = "SQLite"
    skills = ("send", "receive")
