"""The vocabulary: every request that a store can carry out, said once.

A verb is a frozen value: its fields are the arguments, its type parameter is the answer. A store
runs a verb in one transaction. `VOCABULARY` lists them all; the stores, the doors and the tests
are checked against it. Many is the only form here; `send(one)` is the face's sugar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

from turnabout.words.entities import (
    FIRST_TURN,
    ChannelPolicy,
    ChannelStats,
    Deferral,
    Failure,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
    Shard,
    State,
    Turn,
)
from turnabout.words.outcomes import (
    AckOutcome,
    CancelOutcome,
    Cleared,
    CreateOutcome,
    DeferOutcome,
    Deleted,
    ExtendOutcome,
    FailOutcome,
    FireOutcome,
    Purged,
    Received,
    ReleaseOutcome,
    RetryOutcome,
    SendOutcome,
)
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
from turnabout.words.value import value

A = TypeVar("A", covariant=True)


@value
class Verb(Generic[A]):
    """A request to a store; `A` is what it answers."""

    name: ClassVar[str]


@value
class Send(Verb[SendOutcome]):
    """All of the messages or none (P3). A missing queue is made with default settings."""

    name: ClassVar[str] = "send"
    queue: str
    messages: tuple[Outgoing, ...]


@value
class Receive(Verb[Received]):
    """Up to `max_messages` deliveries, channels in turn from `turn` on (P5, P8 to P12)."""

    name: ClassVar[str] = "receive"
    queue: str
    max_messages: int
    lease_ms: int | None = None
    """None takes the queue's `lease_seconds`."""
    shard: Shard | None = None
    turn: Turn = FIRST_TURN


@value
class Ack(Verb[tuple[AckOutcome, ...]]):
    """Done. One outcome per receipt, same order (P6, P7)."""

    name: ClassVar[str] = "ack"
    queue: str
    receipts: tuple[Receipt, ...]
    results: tuple[Result | None, ...] = ()
    """One for each receipt, or none at all."""


@value
class Defer(Verb[tuple[DeferOutcome, ...]]):
    """Back for later, uncharged, with new state or the saved one."""

    name: ClassVar[str] = "defer"
    queue: str
    deferrals: tuple[Deferral, ...]


@value
class Fail(Verb[tuple[FailOutcome, ...]]):
    """This attempt failed: back after a back-off, or dead."""

    name: ClassVar[str] = "fail"
    queue: str
    failures: tuple[Failure, ...]


@value
class Extend(Verb[tuple[ExtendOutcome, ...]]):
    """Leases run for `lease_ms` from now; never shorter than they run already."""

    name: ClassVar[str] = "extend"
    queue: str
    receipts: tuple[Receipt, ...]
    lease_ms: int | None = None


@value
class Release(Verb[tuple[ReleaseOutcome, ...]]):
    """Given back at once, uncharged, as at a worker's stop."""

    name: ClassVar[str] = "release"
    queue: str
    receipts: tuple[Receipt, ...]


@value
class Cancel(Verb[tuple[CancelOutcome, ...]]):
    """Waiting messages end as cancelled; for leased ones the wish is noted."""

    name: ClassVar[str] = "cancel"
    queue: str
    ids: tuple[int, ...]


@value
class Retry(Verb[tuple[RetryOutcome, ...]]):
    """Waiting messages are ready now, their charges forgotten."""

    name: ClassVar[str] = "retry"
    queue: str
    ids: tuple[int, ...]


@value
class Peek(Verb[tuple[Peeked, ...]]):
    """Unfinished messages by id, after `after_id`, of one state or channel if named."""

    name: ClassVar[str] = "peek"
    queue: str
    limit: int = 20
    state: State | None = None
    channel: str | None = None
    after_id: int = 0


@value
class Stats(Verb[tuple[QueueStats, ...]]):
    """Counts of one queue, or of all by name, or of all in a namespace."""

    name: ClassVar[str] = "stats"
    queue: str | None = None
    namespace: str | None = None
    """`""`: queues without a namespace; None: all. So in every verb that has this field."""


@value
class StatsOfChannels(Verb[tuple[ChannelStats, ...]]):
    """The channels with the most unfinished messages."""

    name: ClassVar[str] = "stats_of_channels"
    queue: str
    limit: int = 20


@value
class Purge(Verb[Purged]):
    """Cancel unfinished messages, of one channel or state if named; leased ones only if named."""

    name: ClassVar[str] = "purge"
    queue: str
    channel: str | None = None
    state: State | None = None


@value
class Endings(Verb[tuple[Ending | None, ...]]):
    """How these messages of the queue ended; None while one is unfinished."""

    name: ClassVar[str] = "endings"
    queue: str
    ids: tuple[int, ...]


@value
class History(Verb[HistoryPage]):
    """Finished messages, the newest first, on from `cursor`."""

    name: ClassVar[str] = "history"
    queue: str
    limit: int = 20
    outcome: Outcome | None = None
    channel: str | None = None
    error: str | None = None
    """Text in the error, exactly as written."""
    finished_from: int | None = None
    finished_until: int | None = None
    """Up to, not including, that instant."""
    cursor: str | None = None


@value
class Clear(Verb[Cleared]):
    """Remove the oldest rows of history, at most `limit`."""

    name: ClassVar[str] = "clear"
    queue: str
    which: Literal["done", "failed", "all"]
    limit: int | None = None


@value
class Events(Verb[EventPage]):
    """What happened after `cursor`; without one no events, and the cursor of now."""

    name: ClassVar[str] = "events"
    queue: str
    cursor: str | None = None
    limit: int = 100


@value
class RedriveStart(Verb[Redrive]):
    """Note a redrive; with `dry_run` only count what it would move."""

    name: ClassVar[str] = "redrive_start"
    queue: str
    target: str | None = None
    filter: RedriveFilter = EVERYTHING
    per_second: int | None = None
    max_redrives: int = 3
    dry_run: bool = False


@value
class RedriveStep(Verb[Redrive]):
    """Move the next messages of a running redrive, as many as its rate allows by now."""

    name: ClassVar[str] = "redrive_step"
    id: int
    namespace: str | None = None
    """If it is of that namespace; else UsageError, as if there were none."""


@value
class RedriveCancel(Verb[Redrive]):
    """Stop a running redrive where it is; one that has ended is left as it is."""

    name: ClassVar[str] = "redrive_cancel"
    id: int
    namespace: str | None = None


@value
class RedriveList(Verb[tuple[Redrive, ...]]):
    """Redrives of all queues or one, the newest first."""

    name: ClassVar[str] = "redrive_list"
    queue: str | None = None
    limit: int = 20
    namespace: str | None = None


@value
class QueueCreate(Verb[CreateOutcome]):
    """Make a queue, and its dead-letter queue with it."""

    name: ClassVar[str] = "queue_create"
    queue: str
    settings: QueueSettings


@value
class QueueGet(Verb[QueueEntry]):
    """A queue with its settings."""

    name: ClassVar[str] = "queue_get"
    queue: str


@value
class QueueUpdate(Verb[QueueEntry]):
    """Change some settings of a live queue; `fifo` is fixed at creation."""

    name: ClassVar[str] = "queue_update"
    queue: str
    changes: Mapping[str, Any]


@value
class QueueList(Verb[tuple[QueueEntry, ...]]):
    """All queues with their settings, by name."""

    name: ClassVar[str] = "queue_list"
    namespace: str | None = None


@value
class QueueDelete(Verb[Deleted]):
    """Remove a queue with its messages; refused while it is another's dead-letter queue."""

    name: ClassVar[str] = "queue_delete"
    queue: str


@value
class PolicySet(Verb[Policy]):
    """Change some fields of a channel's policy, or with `replace` all of them.

    Holds for every lease granted after it. The answer is the channel's own policy from now on.
    """

    name: ClassVar[str] = "policy_set"
    queue: str
    channel: str
    changes: Mapping[str, Any]
    replace: bool = False


@value
class PolicyGet(Verb[Policy]):
    """The channel's own policy; `NO_POLICY` where it has none."""

    name: ClassVar[str] = "policy_get"
    queue: str
    channel: str


@value
class PolicyList(Verb[tuple[ChannelPolicy, ...]]):
    """Channels with a policy of their own, by name."""

    name: ClassVar[str] = "policy_list"
    queue: str


@value
class ChannelDelete(Verb[Deleted]):
    """Cancel a channel's waiting messages and clear its policy; leases run on."""

    name: ClassVar[str] = "channel_delete"
    queue: str
    channel: str


@value
class ScheduleSet(Verb[ScheduleEntry]):
    """Make or replace a schedule; `next_at` is its first due time, worked out by the caller."""

    name: ClassVar[str] = "schedule_set"
    schedule: Schedule
    next_at: int | None


@value
class ScheduleDelete(Verb[bool]):
    """Remove a schedule; whether it was there."""

    name: ClassVar[str] = "schedule_delete"
    schedule: str


@value
class ScheduleList(Verb[tuple[ScheduleEntry, ...]]):
    """Schedules by name, of one queue if named; with `due`, those that are due and not paused."""

    name: ClassVar[str] = "schedule_list"
    queue: str | None = None
    due: bool = False
    schedule: str | None = None
    """Only the one of that name."""
    namespace: str | None = None


@value
class ScheduleFire(Verb[FireOutcome]):
    """If the schedule's next due time still is `due_at`: send its message, unless `skip`, an
    overlap that it does not allow, or one sent for that time already; set the next due time.
    """

    name: ClassVar[str] = "schedule_fire"
    schedule: str
    due_at: int
    next_at: int | None
    skip: bool = False


@value
class Tend(Verb[None]):
    """A bounded share of housekeeping: sweep what is old, fold counters, end what has expired, take
    a step of each redrive.
    """

    name: ClassVar[str] = "tend"
    queue: str


VOCABULARY: tuple[type[Verb[Any]], ...] = (
    Send,
    Receive,
    Ack,
    Defer,
    Fail,
    Extend,
    Release,
    Cancel,
    Retry,
    Peek,
    Stats,
    StatsOfChannels,
    Purge,
    Endings,
    History,
    Clear,
    Events,
    RedriveStart,
    RedriveStep,
    RedriveCancel,
    RedriveList,
    QueueCreate,
    QueueGet,
    QueueUpdate,
    QueueList,
    QueueDelete,
    PolicySet,
    PolicyGet,
    PolicyList,
    ChannelDelete,
    ScheduleSet,
    ScheduleDelete,
    ScheduleList,
    ScheduleFire,
    Tend,
)
