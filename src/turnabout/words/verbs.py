"""The vocabulary: every request that a store can carry out, said once.

A verb is a frozen value: its fields are the arguments, its type parameter is the answer. A store
runs it in one transaction. `VOCABULARY` lists them all: stores, doors and tests are checked by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

from turnabout.words import limits
from turnabout.words import outcomes as o
from turnabout.words.entities import (
    FIRST_TURN,
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Failure,
    Note,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
    Shard,
    State,
    Turn,
)
from turnabout.words.errors import UsageError
from turnabout.words.fairness import FairShares, ShareOrder
from turnabout.words.policy import Policy, QueueSettings
from turnabout.words.records import (
    EVERYTHING,
    Ending,
    EventPage,
    HistoryPage,
    Outcome,
    Redrive,
    RedriveFilter,
    Result,
)
from turnabout.words.schedules import Schedule, ScheduleEntry
from turnabout.words.value import replace
from turnabout.words.verb import (
    DEFERRALS,
    FAILURES,
    IDS,
    MESSAGES,
    RECEIPTS,
    Change,
    Changes,
    NamespaceName,
    Pages,
    PagesOfIds,
    QueueName,
    ScheduleName,
    Verb,
    acked_items,
)
from turnabout.words.workers import WorkerEntry, WorkerState


class Send(Verb[o.SendOutcome]):
    """Send all of the messages or none (P3). A missing queue is made with default settings."""

    scope = "produce"
    items = MESSAGES
    nothing = o.Sent(())
    joins = merges = True
    notifies = Change.READY
    queue: QueueName
    messages: tuple[Outgoing, ...]


class Receive(Verb[o.Received]):
    """Ack `acks`, then lease up to `max_messages`, channels in turn from `turn` on, all in one
    transaction (P5 to P12). A receipt that does not hold is told, and the receive goes on.
    """

    scope = "consume"
    items = acked_items("acks", outcomes_of=attrgetter("acked"))
    nothing = None
    joins = settles = merges = True
    notifies = Change.ENDED
    queue: QueueName
    max_messages: int
    lease_ms: int | None = None
    """Duration of the leases; None takes the queue's `lease_seconds`."""
    shard: Shard | None = None
    turn: Turn = FIRST_TURN
    acks: tuple[Receipt, ...] = ()
    results: tuple[Result | None, ...] = ()

    def __post_init__(self) -> None:
        if self.results:
            limits.one_each(self.results, self.acks)

    def apart(self) -> tuple[Ack, Receive]:
        """Split it into two verbs."""
        return Ack(self.queue, self.acks, self.results), replace(self, acks=(), results=())


class Ack(Verb[tuple[o.AckOutcome, ...]]):
    """Ack messages: they are done. One outcome per receipt, same order (P6, P7)."""

    scope = "consume"
    items = acked_items("receipts")
    joins = settles = merges = True
    notifies = Change.ENDED
    queue: QueueName
    receipts: tuple[Receipt, ...]
    results: tuple[Result | None, ...] = ()
    """One for each receipt, or none at all."""

    def __post_init__(self) -> None:
        limits.one_each(self.results or self.receipts, self.receipts)


class Defer(Verb[tuple[o.DeferOutcome, ...]]):
    """Defer messages: they return later, uncharged, with new state or the saved one."""

    scope = "consume"
    items = DEFERRALS
    joins = settles = merges = True
    notifies = Change.ANY
    queue: QueueName
    deferrals: tuple[Deferral, ...]


class Fail(Verb[tuple[o.FailOutcome, ...]]):
    """Record failed attempts: the messages return after a back-off, or are dead."""

    scope = "consume"
    items = FAILURES
    joins = settles = merges = True
    notifies = Change.ANY
    queue: QueueName
    failures: tuple[Failure, ...]


class Extend(Verb[tuple[o.ExtendOutcome, ...]]):
    """Extend leases to `lease_ms` from now; only `exact` shortens. A note stays until the next."""

    scope = "consume"
    items = RECEIPTS
    joins = merges = True
    queue: QueueName
    receipts: tuple[Receipt, ...]
    lease_ms: int | None = None
    note: Note | None = None
    exact: bool = False
    """End them then even if they would run longer; 0 ends them now, as if they had run out."""

    def __post_init__(self) -> None:
        if self.lease_ms == 0 and not self.exact:
            raise UsageError("a lease of 0 seconds ends now, which needs exact=True")

    def to_notify(self) -> Change:
        """Receivers that wait may have it sooner than they expect."""
        return Change.READY if self.exact and self.receipts else Change.NOTHING


class Release(Verb[tuple[o.ReleaseOutcome, ...]]):
    """Release messages: they are back at once, uncharged, as at a worker's stop."""

    scope = "consume"
    items = RECEIPTS
    joins = settles = merges = True
    notifies = Change.ANY
    queue: QueueName
    receipts: tuple[Receipt, ...]


class Cancel(Verb[tuple[o.CancelOutcome, ...]]):
    """Cancel waiting messages; for leased ones the request is recorded."""

    items = IDS
    joins = True
    notifies = Change.ANY
    queue: QueueName
    ids: tuple[int, ...]


class Retry(Verb[tuple[o.RetryOutcome, ...]]):
    """Make waiting messages ready now, and forget their charges."""

    items = IDS
    notifies = Change.READY
    queue: QueueName
    ids: tuple[int, ...]


class Peek(Verb[tuple[Peeked, ...]]):
    """Show unfinished messages by id, after `after_id`, of one state or channel if named."""

    reads = True
    pages = Pages("after_id", attrgetter("id"), attrgetter("kept_bytes"))
    queue: QueueName
    limit: int = 20
    state: State | None = None
    channel: str | None = None
    after_id: int = 0
    room_bytes: int | None = None
    """Limit of a server: no more items once payloads and states fill it, but at least one."""


class Stats(Verb[tuple[QueueStats, ...]]):
    """Count the messages of one queue, of all by name, or of all in a namespace."""

    scope = "consume"
    reads = lists = True
    pages = Pages("after", attrgetter("queue"))
    queue: QueueName | None = None
    namespace: NamespaceName | None = None
    """`""`: queues without a namespace; None: all. So in every verb that has this field."""
    after: QueueName | None = None
    """Only what comes behind that name. So in every list by name."""
    limit: int | None = None


class StatsOfChannels(Verb[tuple[ChannelStats, ...]]):
    """List the channels with the most unfinished messages."""

    scope = "consume"
    reads = True
    queue: QueueName
    limit: int = 20


class Fairness(Verb[FairShares]):
    """Compare what channels got of the service with their fair shares, the worst off first."""

    scope = "consume"
    reads = True
    queue: QueueName
    window_ms: int = 300_000
    sort: ShareOrder = "fairness"
    """Or the most `ready`, the `oldest` ready message, the most `served`, the `channel`'s name."""
    find: str | None = None
    """Only channels with this in their names, whatever the case of letters."""
    offset: int = 0
    limit: int = 20


class WorkerReport(Verb[None]):
    """Keep what a worker says of itself, for those who look; None: it has ended."""

    scope = "consume"
    queue: QueueName
    worker: str
    state: WorkerState | None = None


class WorkerList(Verb[tuple[WorkerEntry, ...]]):
    """List the workers of a queue that have reported within a minute."""

    scope = "consume"
    reads = True
    queue: QueueName


class Purge(Verb[o.Purged]):
    """Cancel unfinished messages, of one channel or state if named; leased ones only if named."""

    notifies = Change.ANY
    queue: QueueName
    channel: str | None = None
    state: State | None = None


class Endings(Verb[tuple[Ending | None, ...]]):
    """Look up how messages of the queue ended; None while one is unfinished."""

    scope = "consume"
    items = IDS
    reads = True
    pages = PagesOfIds("ids", attrgetter("id"))
    queue: QueueName
    ids: tuple[int, ...]
    room_bytes: int | None = None
    """Room for results. Ids without an answer have to be asked for again."""


class History(Verb[HistoryPage]):
    """List finished messages, the newest first, on from `cursor`."""

    reads = True
    queue: QueueName
    limit: int = 20
    outcome: Outcome | None = None
    channel: str | None = None
    error: str | None = None
    """Substring of the error text, case-sensitive."""
    finished_from: int | None = None
    finished_until: int | None = None
    """Up to, not including, that instant."""
    cursor: str | None = None
    room_bytes: int | None = None


class Clear(Verb[o.Cleared]):
    """Remove the oldest rows of history, at most `limit`."""

    queue: QueueName
    which: Literal["done", "failed", "all"]
    limit: int | None = None


class Events(Verb[EventPage]):
    """List events after `cursor`; without one, none, and the cursor of now."""

    reads = True
    queue: QueueName
    cursor: str | None = None
    limit: int = 100


class RedriveStart(Verb[Redrive]):
    """Begin a redrive; with `dry_run` only count what it would move."""

    notifies = Change.ANY
    queue: QueueName
    target: QueueName | None = None
    filter: RedriveFilter = EVERYTHING
    per_second: int | None = None
    max_redrives: int = 3
    dry_run: bool = False
    started_by: str | None = None
    """The starter; a server names the token, PostgreSQL the role."""


class RedriveStep(Verb[Redrive]):
    """Move the next messages of a running redrive, as many as its rate allows by now."""

    id: int
    namespace: NamespaceName | None = None
    """The namespace that it has to be of; else UsageError, as if it didn't exist."""


class RedriveCancel(Verb[Redrive]):
    """Stop a running redrive where it is; one that has ended is left as it is."""

    id: int
    namespace: NamespaceName | None = None


class RedriveList(Verb[tuple[Redrive, ...]]):
    """List redrives of all queues or one, the newest first."""

    reads = lists = True
    queue: QueueName | None = None
    limit: int = 20
    namespace: NamespaceName | None = None


class QueueCreate(Verb[o.CreateOutcome]):
    """Make a queue, and its dead-letter queue with it."""

    scope = "consume"
    notifies = Change.ANY
    queue: QueueName
    settings: QueueSettings


class QueueGet(Verb[QueueEntry]):
    """Get a queue with its settings."""

    scope = "consume"
    reads = True
    queue: QueueName


class QueueUpdate(Verb[QueueEntry]):
    """Change some settings of a live queue; `fifo` is fixed at creation."""

    notifies = Change.ANY
    queue: QueueName
    changes: Changes


class QueueList(Verb[tuple[QueueEntry, ...]]):
    """List all queues with their settings, by name."""

    reads = lists = True
    pages = Pages("after", attrgetter("name"))
    namespace: NamespaceName | None = None
    after: QueueName | None = None
    limit: int | None = None


class QueueDelete(Verb[o.Deleted]):
    """Remove a queue with its messages; refused while it is another's dead-letter queue."""

    notifies = Change.ANY
    queue: QueueName


class PolicySet(Verb[Policy]):
    """Change some fields of a channel's policy, or with `replace` all; or pause it."""

    joins = True
    notifies = Change.ANY
    queue: QueueName
    channel: str
    changes: Mapping[str, Any]
    replace: bool = False
    pause_ms: int | None = None


class PolicyGet(Verb[Policy]):
    """Get the channel's own policy; `NO_POLICY` if it has none."""

    reads = joins = True
    queue: QueueName
    channel: str


class PolicyList(Verb[tuple[ChannelPolicy, ...]]):
    """List channels with a policy of their own, by name."""

    reads = True
    pages = Pages("after", attrgetter("channel"))
    queue: QueueName
    after: str | None = None
    limit: int | None = None


class ChannelDelete(Verb[o.Deleted]):
    """Cancel a channel's waiting messages and clear its policy; leases run on."""

    notifies = Change.ANY
    queue: QueueName
    channel: str


class ScheduleSet(Verb[ScheduleEntry]):
    """Make or replace a schedule; `next_at` is its first due time, worked out by the caller."""

    schedule: Schedule
    next_at: int | None


class ScheduleDelete(Verb[bool]):
    """Remove a schedule; answers whether it was there."""

    schedule: ScheduleName


class ScheduleList(Verb[tuple[ScheduleEntry, ...]]):
    """List schedules by name, of one queue if named. With `due` those due and not paused: the
    one that is due longest of each namespace, then the next one of each, and so on.
    """

    reads = lists = True
    pages = Pages("after", attrgetter("schedule.name"), attrgetter("kept_bytes"))
    queue: QueueName | None = None
    due: bool = False
    schedule: ScheduleName | None = None
    """Only the one of that name."""
    namespace: NamespaceName | None = None
    after: ScheduleName | None = None
    limit: int | None = None
    room_bytes: int | None = None


class ScheduleFire(Verb[o.FireOutcome]):
    """Fire a schedule, if it still is due at `due_at`: send its message, unless `skip`, a forbidden
    overlap, or one sent for that time already; set the next due time.
    """

    schedule: ScheduleName
    due_at: int
    next_at: int | None
    skip: bool = False
    refused: bool = False
    """True where a server has no room for the message: it is left out, and counted."""


class Maintain(Verb[None]):
    """Do a bounded share of upkeep: what is due, ran out, has expired or is old; redrives."""

    scope = "consume"
    queue: QueueName


VOCABULARY: tuple[type[Verb[Any]], ...] = tuple(
    kind for kind in list(vars().values()) if isinstance(kind, type) and kind.__module__ == __name__
)
"""All verbs of the core, in the order above."""

KINDS: Mapping[str, tuple[type[Verb[Any]], ...]] = {
    "produce": tuple(kind for kind in VOCABULARY if kind.scope == "produce"),
    "consume": tuple(kind for kind in VOCABULARY if kind.scope == "consume"),
    "operate": VOCABULARY,
}
"""Scopes of a server's tokens and of PostgreSQL roles: groups of verbs."""

VERBS: Mapping[str, type[Verb[Any]]] = {verb.name: verb for verb in VOCABULARY}
