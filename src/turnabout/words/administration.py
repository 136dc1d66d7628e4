"""Verbs for the owner of a database, which no server carries out for its clients.

They are the core's, as a server and a pipeline need them of the messages themselves.
"""

from __future__ import annotations

from typing import Any

from turnabout.words.entities import Outgoing
from turnabout.words.value import Value
from turnabout.words.verbs import Verb


class QueueTotals(Value):
    """Counts of one queue that need no look at its messages, but for `bytes`."""

    queue: str
    sent: int
    done: int
    dead: int
    cancelled: int
    expired: int
    oldest_ready_ms: int | None
    """Like `QueueStats.oldest_ready_ms`, of the few messages found first, so it may be too small.
    None: nothing was found at a bounded cost; more may be ready behind a thousand held ones.
    """
    ran_out: int = 0
    """Leases that have run out while nobody looked; at most the first thousand are counted."""
    bytes: int | None = None
    """Size of the payloads of unfinished messages, if it was asked for."""

    @property
    def unfinished(self) -> int:
        """Scheduled, ready and leased together (P15)."""
        return self.sent - self.done - self.dead - self.cancelled - self.expired


class Totals(Verb[tuple[QueueTotals, ...]]):
    """Counts of all queues, or of a namespace's, by name."""

    reads = True
    namespace: str | None = None
    bytes: bool = False
    """Measure the payloads, too. That reads every message."""


class Repeats(Verb[bool]):
    """Whether earlier messages stand for all of these, so that a send of them puts nothing in."""

    reads = True
    queue: str
    messages: tuple[Outgoing, ...]


class QueuesDue(Verb[tuple[str, ...]]):
    """Names of queues in which `Maintain` has something to do by a timer: what is due, leases that
    ran out, redrives. If there are more than `limit`, others each time.
    """

    reads = True
    old: bool = False
    """Select queues with rows to sweep or fold instead. Reads a few rows of every queue."""
    limit: int = 500


ADMINISTRATION: tuple[type[Verb[Any]], ...] = (Totals, Repeats, QueuesDue)
"""Every store of a database carries these out as well; no server does for its clients."""
