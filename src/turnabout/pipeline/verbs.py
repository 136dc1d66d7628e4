"""The verbs of the data pipeline, which are not in the vocabulary, and their answers.

A pipeline reads and writes in bulk, in recorded batches, so that each can be repeated exactly. The
stores of databases run these verbs like any other. What they mean: docs/design/pipeline.md. A
*position* is a place in the log, the history in the order of commits, in the store's own form.
"""

from __future__ import annotations

from typing import Any

from turnabout.pipeline.staged import StagedMessages
from turnabout.words import limits
from turnabout.words.errors import UsageError
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.value import Value, force_setattr
from turnabout.words.verbs import Verb

START = ""
"""The position before the first row of the log."""

BATCH_MESSAGES_MAX = 1_000_000
PARTS_MAX = 1_000
QUEUES_MAX = 1_000
ATTEMPTS_MAX = 100_000
STAGE_SECONDS = 86_400
"""Staged messages that nobody has published after a day are removed."""


def needs_postgresql(what: str) -> UsageError:
    """Error for what SQLite files lack: streams of leases, and the sink."""
    return UsageError(
        f"{what} needs PostgreSQL, as Spark's executors can't reach an SQLite file: `turnabout "
        "move` takes the queues there. On the file's machine Spark reads what has finished: mode "
        "log, history or dead, and the archive"
    )


def _check_reader(subscription: str, generation: int, lease_ms: int) -> None:
    limits.queue_name(subscription)
    limits.whole(generation, "generation", 1, limits.ID_MAX)
    limits.whole(lease_ms, "lease_ms", 1, limits.LEASE_MS_MAX)


# --- leases by the batch: subscriptions and their epochs; on PostgreSQL ---------------------------


class Opened(Value):
    """The caller has the subscription now; `acked` is the last epoch that was acknowledged."""

    generation: int
    acked: int


class Superseded(Value):
    """Nothing was changed: `owner` has opened it since; `""`: it was released, or is not there."""

    owner: str


class SubscriptionOpen(Verb[Opened]):
    """Take a subscription, making it if there is none; the newest reader has it.

    `owner` is for people: a host, a process, a query. Messages that are leased for it stay so.
    """

    subscription: str
    owner: str

    def __post_init__(self) -> None:
        limits.queue_name(self.subscription)
        limits.owner(self.owner)


class Leased(Value):
    """The messages of one epoch, leased and recorded; `epoch` as asked and 0: there are none now.

    acked    messages that the call acknowledged
    lost     messages of these epochs whose lease had run out: they are delivered again
    wait_ms  no new epoch is leased before that, as nothing gets through: see `EpochPlan`
    """

    epoch: int
    messages: int
    acked: int = 0
    lost: int = 0
    wait_ms: int = 0


class EpochLease(Verb[Leased | Superseded]):
    """Acknowledge all epochs up to `after`; then the epoch that follows it: the recorded one, its
    leases renewed, or a new one of up to `max_messages`, shared among the queues, taken as by
    `receive` (P5, P8 to P12).

    With `max_messages=0` it only acknowledges and looks for a recorded one. The messages are
    recorded in `parts`: even ones in order of sending, or with `by_channel` all of a channel in one
    part, in its order. A new epoch's number is above every one that was ever leased, and above
    `after`. A queue that is not there is a QueueNotFound, and nothing was changed. With `beyond` it
    is the epoch after that one, leased ahead, and those between `after` and it stay leased. With
    `max_bytes` it ends with the messages whose payloads reach that, about.
    """

    subscription: str
    generation: int
    queues: tuple[str, ...]
    after: int
    max_messages: int
    lease_ms: int
    parts: int = 1
    by_channel: bool = False
    beyond: int = 0
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        _check_reader(self.subscription, self.generation, self.lease_ms)
        limits.names(self.queues, "queues", QUEUES_MAX)
        limits.whole(self.after, "after", 0, limits.ID_MAX - 1)
        limits.whole(self.beyond, "beyond", 0, limits.ID_MAX - 1)
        limits.whole(self.max_messages, "max_messages", 0, BATCH_MESSAGES_MAX)
        limits.optional_whole(self.max_bytes, "max_bytes", 1, limits.ID_MAX)
        limits.whole(self.parts, "parts", 1, PARTS_MAX)


class Part(Value):
    """Messages of one queue, to be read in one piece: as many as recorded, less those lost."""

    part: int
    queue: str
    messages: int


class Planned(Value):
    """The parts of an epoch, and how often it was planned, this time included.

    returned  messages that were given back to the queue (uncharged), since the epoch had failed too
              often: it is tried with a tenth of them
    dead      messages that were failed for good: poison
    suspect   the message that failed alone, and is dead, or else set aside
    failures  messages that failed alone, this one included; halved as epochs get through
    wait_ms   the next epoch is not leased before that
    """

    parts: tuple[Part, ...]
    plans: int
    returned: int = 0
    dead: int = 0
    suspect: int | None = None
    failures: int = 0
    wait_ms: int = 0


class NoEpoch(Value):
    """Answer for an epoch that is not recorded: acknowledged already, or never leased here."""

    acked: int
    newest: int


class EpochPlan(Verb[Planned | NoEpoch | Superseded]):
    """The parts of a recorded epoch, its leases renewed (unless nine tenths of their time is left),
    and a count of how often it was asked for: a batch that is planned again has failed. Each plan
    after `max_plans` of them *isolates*: of the epoch stays a tenth (at least one message), what
    was leased most often, then what comes first; the others go back; and epochs stay that small
    until one succeeds, then grow twofold. The count of an epoch that was cut to one message starts
    anew.

    An epoch of one message that fails so often is left without any. The message is *set aside*:
    back in its queue, uncharged, after a delay. It is dead instead, with `error` as its story, if
    it was set aside before and others got through: five epochs were acknowledged since then that
    had never failed, and none that had. Such a proof is good for one message. Until there is one
    nothing dies: after the second message that fails alone no epoch is leased for 1 s, after the
    third for 2 s, and so on up to 60 s; and the message's delay grows from 10 s to 1 h.
    """

    subscription: str
    generation: int
    epoch: int
    lease_ms: int
    max_plans: int
    error: str

    def __post_init__(self) -> None:
        _check_reader(self.subscription, self.generation, self.lease_ms)
        limits.whole(self.epoch, "epoch", 1, limits.ID_MAX)
        limits.whole(self.max_plans, "max_plans", 1, limits.INTEGER_MAX)
        force_setattr(self, "error", limits.error_text(self.error))


class Renewed(Value):
    """Leases of unacknowledged epochs that run on, and those that were lost."""

    messages: int
    lost: int


class EpochExtend(Verb[Renewed | Superseded]):
    """The heartbeat: all unacknowledged epochs' leases run for `lease_ms` from now."""

    subscription: str
    generation: int
    lease_ms: int

    def __post_init__(self) -> None:
        _check_reader(self.subscription, self.generation, self.lease_ms)


class SubscriptionRelease(Verb[int]):
    """Give all unacknowledged messages back to their queues, uncharged, and fence the reader; with
    `forget` remove the subscription as well. Answers with how many went back.
    """

    subscription: str
    forget: bool = False

    def __post_init__(self) -> None:
        limits.queue_name(self.subscription)


class Subscription(Value):
    """A subscription as it is now.

    epoch     the newest one leased        acked     the newest one acknowledged
    messages  leased now                   lease_until  when the first of them runs out, or None
    limit     the most that an epoch may have, while a failing one is isolated; else None
    queues    those that its last epoch was leased from
    unfinished, oldest_ready_ms  of these queues, where they were counted as well
    """

    name: str
    owner: str
    generation: int
    epoch: int
    acked: int
    messages: int
    lease_until: int | None
    limit: int | None
    queues: tuple[str, ...]
    opened_at: int
    seen_at: int
    unfinished: int | None = None
    oldest_ready_ms: int | None = None


class SubscriptionList(Verb[tuple[Subscription, ...]]):
    """List all subscriptions, by name."""

    reads = True


# --- staged sends ---------------------------------------------------------------------------------


class Stage(Verb[None]):
    """Put up to 10,000 messages aside for an attempt, after those that it has already."""

    bulk = True
    attempt: str
    parts: tuple[StagedMessages, ...]

    def __post_init__(self) -> None:
        limits.queue_name(self.attempt)
        limits.whole(
            sum(len(part.payloads) for part in self.parts),
            "messages in one call",
            0,
            limits.SEND_MESSAGES_MAX,
        )


class Published(Value):
    """Sent, all of them. duplicates: those that a dedup key suppressed."""

    messages: int
    duplicates: int = 0


class AlreadyPublished(Value):
    """Answer for a batch that was published before: nothing was sent, staged ones are removed."""

    messages: int


class PublishedLater(Value):
    """Not sent: a later batch of this sink is published, so the caller has an older checkpoint."""

    newest: int


class StageIncomplete(Value):
    """Not sent: of the staged messages some are gone (the database crashed, or a day went by)."""

    expected: int
    found: int


Refused = PublishedLater | StageIncomplete | ChannelFull | QueueFull


class Publish(Verb[Published | AlreadyPublished | Refused]):
    """Send what these attempts have staged, in their order, once for this sink and batch (P3): all,
    with the note that the batch is published, or nothing. Batches of a sink come in order.
    """

    sink: str
    batch: int
    attempts: tuple[str, ...]
    messages: int  # how many were staged; fewer are refused

    def __post_init__(self) -> None:
        limits.queue_name(self.sink)
        limits.names(self.attempts, "attempts", ATTEMPTS_MAX)
        for field in ("batch", "messages"):
            limits.whole(getattr(self, field), field, 0, limits.ID_MAX)


class Unstage(Verb[int]):
    """Remove what these attempts have staged, and what anybody has staged more than a day ago."""

    attempts: tuple[str, ...]

    def __post_init__(self) -> None:
        limits.names(self.attempts, "attempts", ATTEMPTS_MAX)


# --- the log: history in the order of commits ----------------------------------------------------


class LogRange(Value):
    """The next rows of the log: those after `after`, up to and with `until`. They never change.

    messages  how many rows there are; `until == after` and 0: there is nothing new
    more      there are more behind them
    """

    after: str
    until: str
    messages: int
    more: bool = False


class LogLost(Value):
    """Rows after the position were removed unread; what is after `floor` is complete."""

    floor: str


class LogAhead(Value):
    """The position, or history, is beyond the end of the log: a restored backup, or another one."""

    end: str


class LogNext(Verb[LogRange | LogLost | LogAhead]):
    """The next rows after a position, at most `limit`; None: all there are. Only rows that no
    running transaction can still precede (on PostgreSQL: below the oldest one's id).
    `START` loses nothing: it begins with the oldest row there is. Other text is a UsageError.
    """

    reads = True
    after: str
    limit: int | None = None
    ignore_loss: bool = False  # go on at the first row there is, instead of LogLost

    def __post_init__(self) -> None:
        limits.position(self.after, "after")
        limits.optional_whole(self.limit, "limit", 1, limits.ID_MAX)


class LogAt(Verb[str]):
    """The position before the first row that finished at `at` or later; the end without one."""

    reads = True
    at: int

    def __post_init__(self) -> None:
        limits.whole(self.at, "at", 0, limits.FOREVER_MS)


class LogCut(Verb[tuple[LogRange, ...]]):
    """A range as up to `parts` ranges of about as many rows each, in order.

    exact: False lets a store estimate the numbers of rows, which is much quicker.
    """

    reads = True
    after: str
    until: str
    parts: int
    exact: bool = True

    def __post_init__(self) -> None:
        limits.position(self.after, "after")
        limits.position(self.until, "until")
        limits.whole(self.parts, "parts", 1, PARTS_MAX)


class LogState(Value):
    """The log's end, and what holds it back.

    end            up to where it can be read     floor  up to where something was removed
    waiting_ms     how long the oldest transaction that holds rows back has been open, or None
    """

    end: str
    floor: str
    waiting_ms: int | None


class LogLook(Verb[LogState]):
    """The state of the log."""

    reads = True


class LogFile(Value):
    """A file of the log: its table, its number, which changes when its rows move, and its size."""

    table: int
    number: int
    blocks: int


class LogFiles(Verb[tuple[LogFile, ...]]):
    """List the files of the log. SQLite's rows are in no file of their own: none."""

    reads = True


class LogPurge(Verb[int]):
    """Remove up to `limit` of the oldest rows of the log up to `until`, of those that finished
    before an instant. Answers with how many; call again until there are none.
    """

    until: str
    finished_before: int
    limit: int = 10_000
    dry_run: bool = False  # count instead; then `limit` doesn't apply

    def __post_init__(self) -> None:
        limits.position(self.until, "until")
        limits.whole(self.finished_before, "finished_before", 0, limits.FOREVER_MS)
        limits.whole(self.limit, "limit", 1, limits.ID_MAX)


# --- watermarks -----------------------------------------------------------------------------------


class Watermark(Value):
    """An archive's progress, and how many rows (up to 1,000,000) wait for it, since when."""

    archive: str
    position: str
    messages: int
    set_at: int
    lag: int = 0
    lag_ms: int = 0


class WatermarkSet(Verb[None]):
    """Note how far an archive has come, with the rows that it has in all."""

    archive: str
    position: str
    messages: int

    def __post_init__(self) -> None:
        limits.queue_name(self.archive)
        limits.whole(self.messages, "messages", 0, limits.ID_MAX)
        if not limits.position(self.position, "position"):
            raise UsageError("a watermark needs a position: an archive without rows has none")


class WatermarkDelete(Verb[bool]):
    """Forget an archive; whether it was there. It holds no purge back any more."""

    archive: str

    def __post_init__(self) -> None:
        limits.queue_name(self.archive)


class WatermarkList(Verb[tuple[Watermark, ...]]):
    """List all archives, by name."""

    reads = True


VERBS: tuple[type[Verb[Any]], ...] = (
    *(SubscriptionOpen, SubscriptionRelease, SubscriptionList, EpochLease, EpochPlan, EpochExtend),
    *(Stage, Publish, Unstage, LogNext, LogAt, LogCut, LogLook, LogFiles),
    *(LogPurge, WatermarkSet, WatermarkDelete, WatermarkList),
)
