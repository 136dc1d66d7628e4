"""A worker's decisions: how much to fetch, which leases to extend or give up, when to end.

No clock, no running thread and no database in here: `now` is given, in seconds of a clock that only
goes forward, and random shares are given too. `consumer.py` and `run.py` do what is decided here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from turnabout.words import limits
from turnabout.words.entities import Delivery, Receipt, Shard
from turnabout.words.errors import UsageError

BEATS_PER_LEASE = 3
"""Two beats may be missed before a lease runs out."""

TIMEOUT_SECONDS_MAX = 30 * 86_400
BACKOFF_SECONDS, BACKOFF_SECONDS_MAX = 0.1, 10.0
PAUSE_SECONDS_MIN = 0.005
"""A queue that says "ask again at once" and then has nothing must not be asked in a tight loop."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """Options of a handler; the arguments of `Worker.handler`."""

    concurrency: int = 1
    prefetch: int = 0
    lease_seconds: float | None = None
    heartbeat: bool = True
    shard: tuple[int, int] | None = None
    cancellable: bool = False
    timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        limits.whole(self.concurrency, "concurrency", 1, limits.RECEIVE_MESSAGES_MAX)
        limits.whole(self.prefetch, "prefetch", 0, limits.RECEIVE_MESSAGES_MAX)
        limits.flag(self.heartbeat, "heartbeat")
        limits.flag(self.cancellable, "cancellable")
        if self.lease_seconds is not None:
            limits.lease_ms(self.lease_seconds)
        if self.shard is not None:
            Shard(*self.shard)
        if self.timeout_seconds is not None:
            limits.milliseconds(self.timeout_seconds, "timeout_seconds", TIMEOUT_SECONDS_MAX)


class LeaseStage(Enum):
    """A message's stage in the worker."""

    WAITING = "waiting"  # fetched ahead, its handler has not begun
    RUNNING = "running"
    SETTLING = "settling"  # its handler is over; the database is being told
    ENDED = "ended"  # the worker has nothing to do with it any more


@dataclass(slots=True, eq=False)
class Lease:
    """A lease that this worker holds, and what is known of it."""

    receipt: Receipt
    seconds: float
    ends_at: float
    """Its end by our clock, never too late: counted from before the request."""
    beat_at: float
    """Time to extend it; without a heartbeat, its end."""
    stage: LeaseStage = LeaseStage.WAITING
    lost: bool = False
    """True once it is lost, by the database's word or by our clock."""
    refused: bool = False
    """The database said so: no verb with this receipt can succeed."""
    verbs: int = 0
    """Verbs with this receipt that are under way, said by the handler itself."""
    settled: bool = False
    """The handler ended the message itself."""
    dead: bool = False
    """True if the message died of its failure."""
    noted: bool = False
    """The loss was logged and counted."""
    cancel_requested: bool = False
    """Cancelling was requested: unless the message is acked, it ends as cancelled."""
    told_to_cancel: bool = False
    """The worker has acted on that."""
    timed_out: bool = False
    """The handler has passed its time limit."""
    sever: Callable[[], None] | None = None
    """Ends the transaction that its handler has open, from outside and at any time."""
    stop_event: threading.Event | None = None
    """Set once the lease is lost; made when a handler asks for it."""
    retry_at: int | None = None
    """Time of the retry after a failure, by the database's clock."""
    charges: int = 0
    """Failures and crashes of the message before this delivery."""
    leased_at: int = 0
    """Start of the lease, in milliseconds by the database's clock."""
    asked_at: float = 0.0
    """Start of the lease by our clock: about the same moment, and not later."""

    @property
    def alive(self) -> bool:
        """True while it has to be kept: nothing has ended it, and nothing is about to."""
        return (
            self.stage in (LeaseStage.WAITING, LeaseStage.RUNNING)
            and not self.lost
            and not self.settled
            and self.verbs == 0
        )

    def lose(self) -> None:
        """Mark the lease as lost, and set the stop event that a handler may wait for."""
        self.lost = True
        if self.stop_event is not None:
            self.stop_event.set()

    def told_by_event(self) -> threading.Event:
        """The stop event, for the handler's thread."""
        if self.stop_event is None:
            self.stop_event = threading.Event()
        if self.lost:  # perhaps just before there was an event
            self.stop_event.set()
        return self.stop_event

    def seconds_until(self, at: int, now: float) -> float:
        """Seconds by our clock until a time of the database's clock."""
        return (at - self.leased_at) / 1000 - (now - self.asked_at)


class HeldLeases:
    """The leases that are held on one queue."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self._leases: dict[Receipt, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(tuple(self._leases.values()))

    def get(self, receipt: Receipt) -> Lease | None:
        """The lease of that receipt, if it is held here."""
        return self._leases.get(receipt)

    def room(self, freed: int = 0) -> int:
        """Return the number of messages to ask for now. Unacked ones take room: they are leased;
        but for the `freed` ones, which are acked in the same call.
        """
        prefetch = self._options.prefetch
        room = self._options.concurrency + prefetch - len(self._leases) + freed
        if room * 2 < prefetch and self._is_any_waiting():
            return 0  # there is work for a while: one question for many, not one for each
        return min(max(room, 0), limits.RECEIVE_MESSAGES_MAX)

    def _is_any_waiting(self) -> bool:
        return any(lease.stage is LeaseStage.WAITING for lease in reversed(self._leases.values()))

    def add(self, receipt: Receipt, seconds: float, asked_at: float) -> Lease:
        """A new lease, which was asked for at `asked_at`."""
        share = seconds / BEATS_PER_LEASE if self._options.heartbeat else seconds
        lease = Lease(receipt, seconds, asked_at + seconds, asked_at + share)
        self._leases[receipt] = lease
        return lease

    def take(self, delivery: Delivery, asked_at: float) -> Lease:
        """`add` of a delivery."""
        lease = self.add(delivery.receipt, delivery.lease_ms / 1000, asked_at)
        lease.charges = delivery.failures + delivery.crashes
        lease.leased_at, lease.asked_at = delivery.lease_until - delivery.lease_ms, asked_at
        return lease

    def drop(self, lease: Lease) -> None:
        """Drop a lease that has ended."""
        lease.stage = LeaseStage.ENDED
        self._leases.pop(lease.receipt, None)

    def next_beat(self) -> float | None:
        """Time to look after the leases again; None while there are none."""
        return min((e.beat_at for e in self._leases.values() if e.alive), default=None)

    def to_extend(self, now: float) -> list[Lease]:
        """Once one lease is due, all of them: a beat is one call, not one for each message."""
        if not self._options.heartbeat:
            return []
        alive = [lease for lease in self._leases.values() if lease.alive]
        return alive if any(lease.beat_at <= now for lease in alive) else []

    def extended(self, lease: Lease, asked_at: float) -> None:
        """The database gave it another `seconds`, counted from after `asked_at`."""
        lease.ends_at = max(lease.ends_at, asked_at + lease.seconds)
        lease.beat_at = asked_at + lease.seconds / BEATS_PER_LEASE

    def put_off(self, leases: Iterable[Lease], now: float, seconds: float) -> None:
        """The beat did not reach the database: once more after `seconds`, or at the lease's end."""
        for lease in leases:
            lease.beat_at = min(now + seconds, max(lease.ends_at, now))

    def overdue(self, now: float) -> list[Lease]:
        """Leases that have run out by our clock."""
        return [lease for lease in self._leases.values() if lease.alive and lease.ends_at <= now]


@dataclass(slots=True)
class Backoff:
    """Waits between tries: each doubles, and a random share of it is waited ("full jitter"), so
    that a hundred workers do not come back to a restarted database at the same moment.
    """

    tries: int = 0

    def next(self, share: float) -> float:
        """Seconds to wait now; `share` is random, from 0 to 1."""
        most = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2 ** min(self.tries, 20))
        self.tries += 1
        return most * share


def pause_seconds(retry_after_seconds: float | None, poll_seconds: float) -> float:
    """Seconds to wait for a signal after an empty answer."""
    if retry_after_seconds is None:
        return poll_seconds
    return min(max(retry_after_seconds, PAUSE_SECONDS_MIN), poll_seconds)


RETRY_NEAR_SECONDS = 60.0
"""Longest time for which `until_empty` waits for a retry of this worker."""
RETRY_LATE_SECONDS = 1.0
"""Time after a retry is due when another worker is taken to have it."""


class Phase(IntEnum):
    """A worker's way out, step by step. It only ever goes forward."""

    TAKING = 0
    FINISHING = 1  # takes nothing more; handlers that run may end
    RELEASING = 2  # gives back what it still holds

    def signalled(self) -> Phase:
        """The phase after a signal to stop: the first asks to finish, the second to give up."""
        return Phase.FINISHING if self is Phase.TAKING else Phase.RELEASING


class Emptiness:
    """Whether all queues were found empty while nothing of this worker moved (`until_empty`).

    A handler may send to a queue that was found empty a moment ago. So each finding carries the
    count of movements before it, and holds only as long as that count stands. What failed here and
    comes back soon is not there, but expected.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = tuple(queues)
        self._found: dict[str, int] = {}
        self._moves = 0
        self._held = 0
        self._expected: dict[tuple[str, int], float] = {}

    def taken(self, count: int) -> None:
        """`count` messages were taken."""
        self._moves += count
        self._held += count

    def ended(self) -> bool:
        """One of them is over. True if the worker now holds none."""
        self._moves += 1
        self._held -= 1
        if self._held < 0:
            raise UsageError("a message ended twice in the worker")
        return self._held == 0

    def expect(self, queue: str, message: int, at: float, now: float) -> None:
        """A message that failed comes back then, by our clock."""
        if at <= now + RETRY_NEAR_SECONDS:
            self._expected[queue, message] = at

    def came(self, queue: str, messages: Iterable[int]) -> None:
        """Note that messages were received."""
        for message in messages:
            self._expected.pop((queue, message), None)

    def next_expected(self, queue: str, now: float) -> float | None:
        """Due time of the queue's first retry. One that doesn't come went to another worker."""
        for one, at in tuple(self._expected.items()):
            if at + RETRY_LATE_SECONDS < now:
                del self._expected[one]
        return min((at for (name, _), at in self._expected.items() if name == queue), default=None)

    def mark(self) -> int:
        """Take the state to compare with, before asking a queue."""
        return self._moves

    def found(self, queue: str, mark: int) -> bool:
        """Note that a queue was empty. True if all queues have been found empty now."""
        self._found[queue] = mark
        return self._held == 0 and all(
            self._found.get(queue) == self._moves for queue in self._queues
        )
