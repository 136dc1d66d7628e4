"""A store's doctor: findings as sentences whose numbers and names the command line fills in.

Both stores ask the same questions of their tables. Here is what the answers mean: which counts must
agree, which must be zero, and how bad it is if they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from turnabout.words.value import Value

Level = Literal["ok", "warn", "fail"]

LEASE_OVERDUE_MS: Final = 600_000
READY_OLD_MS: Final = 3_600_000

REPORT: Final = "please report it, with this output: something did what no verb does"
_LOWERED = "expected right after a limit was lowered; otherwise please report it"


class Question(NamedTuple):
    """A count of what must not be, and what to say if there is none, or one."""

    good: str
    bad: str
    todo: str = REPORT

    @property
    def level(self) -> Level:
        """Level of a finding: `fail` for a broken promise, which can only be reported; `warn` for
        what somebody has to look after.
        """
        return "fail" if self.todo == REPORT else "warn"


PROMISES: Final[Mapping[str, Question]] = {
    "channels": Question(
        "their counts agree with their messages",
        "the counts of {number:,} channels are wrong",
    ),
    "endings": Question(
        "no message that has ended is still there (P7)",
        "messages are unfinished, although their history says that they have ended (P7)",
    ),
    "one ending": Question(
        "no message of the last hour has ended twice (P1)",
        "messages of the last hour have ended twice (P1)",
    ),
    "order": Question(
        "no FIFO channel has two leases (P9)", "FIFO channels have more than one lease (P9)"
    ),
    "slots": Question(
        "no channel and no queue has more leases than its limit (P10)",
        "channels or queues have more leases than their limit (P10)",
        _LOWERED,
    ),
    "rates": Question(
        "no channel was handed out faster than its rate (P11)",
        "channels were handed out faster than their rate (P11)",
        _LOWERED,
    ),
    "bounds": Question(
        "no queue and no channel holds more than it may (P17)",
        "queues or channels hold more than max_messages or max_size (P17)",
        "sends are refused until there is room. Concurrent sends and dead letters may exceed a"
        " limit; otherwise see whether it was lowered",
    ),
    "one lease": Question(
        "no message is there twice (P5)",
        "messages are there twice, so they can have two leases (P5)",
    ),
    "charges": Question(
        "no delivery was charged twice (P6)",
        "messages were charged more often than delivered: a stale receipt was accepted (P6)",
    ),
    "early": Question(
        "nothing was handed out or is ready before it is due (P8)",
        "messages or schedules are ahead of their time (P8)",
        "was the database's clock set back? Otherwise please report it, with this output",
    ),
    "keys": Question(
        "no dedup key stands for two messages (P4)",
        "dedup keys stand for two messages (P4)",
    ),
    "cancelled": Question(
        "no cancelled message waits",
        "messages wait, although they were cancelled while they were leased",
    ),
    "expiry": Question(
        "nothing waits beyond its time to live",
        "messages have expired, and nobody has ended them yet (they are not handed out)",
        "any receive ends them: start a worker, or run `turnabout receive`",
    ),
    "exhausted": Question(
        "no FIFO channel is stuck",
        "messages without attempts left block their FIFO channels",
        "look at them with `turnabout peek`; then `turnabout retry` or `turnabout cancel`",
    ),
    "dead letters": Question(
        "all dead-letter queues exist",
        "queues name a dead-letter queue that does not exist: dead messages end in history only",
        "make it: `turnabout queue create`, or name another: `turnabout queue update`",
    ),
    "dedup": Question("all dedup entries belong to a queue", "dedup entries belong to no queue"),
    "schedules": Question(
        "none is overdue",
        "schedules are overdue by more than two minutes",
        "no process looks after them: start a worker or `turnabout schedule run`",
    ),
    "redrives": Question(
        "none is stuck",
        "redrives run from a queue that is gone",
        "end them: `turnabout redrive cancel`",
    ),
    "retention": Question(
        "history is swept",
        "queues keep history for more than a day longer than they should",
        "receivers sweep it, a share each second: start a worker for these queues",
    ),
    "events": Question(
        "are swept",
        "events are older than two days",
        "receivers sweep them, a share each second: start a worker for their queues",
    ),
    "inbox": Question(
        "nothing that was put there was refused",
        "rows of turnabout_inbox could not be sent; they are in turnabout_inbox_refused",
        "its column reason says why: put them right into turnabout_inbox, and delete them there",
    ),
    "unlogged tables": Question(
        "hold where messages stand",
        "a crash of the server, a failover or a restore has emptied the tables that hold where"
        " messages stand, and they were not rebuilt yet",
        "the next call rebuilds them: start a worker, or run `turnabout peek` on any queue",
    ),
    "orphans": Question(
        "every message is ready, scheduled or leased",
        "messages stand nowhere, so no receive finds them (a transaction that was prepared before"
        " a crash and committed after it leaves such)",
        "a worker's maintenance puts them back, bit by bit. At once: select"
        " turnabout.rescue_orphans(turnabout.clock_ms(), 0, 2147483647)",
    ),
    "entries": Question(
        "no place is kept for a message that is gone",
        "places are kept for messages that are gone",
        "receivers drop them on their way; somebody has deleted messages by hand, or please report"
        " it",
    ),
    "head marks": Question(
        "hide no message",
        "ready messages are hidden behind a head mark",
        "receivers lower it, once a second: start a worker, then run doctor again; if they are"
        " still hidden, please report it",
    ),
    "days": Question(
        "history goes to the partition of its day",
        "rows of history of the last day have no partition of their own, and are swept one by one",
        "expected right after the first start; otherwise see what the server's log says",
    ),
}
"""Each store has statements of its own for them, in `doctor.sql`; the last five are about tables
that PostgreSQL alone has, `channels` and `inbox` about those of SQLite.
"""


WAY_OUT: Final = Question(
    "receives can find every message",
    "receives cannot find {number:,} messages or channels",
)


class Finding(Value):
    """The result of one check, in a sentence; `todo` says what to do, and is empty if all is well.

    In braces stand facts, which are numbers and names: `{age:ms}` is shown as a duration,
    `{count:queue}` as so many queues, `{name:clean}` without what a terminal would obey, others by
    Python's own rules.
    """

    name: str
    level: Level
    text: str
    todo: str
    facts: Mapping[str, Any]


class QueueCounts(Value):
    """The contents of a queue's tables; every number is read by its own count, in one snapshot."""

    queue: str
    paused: bool
    sent: int
    finished: int
    live: int
    overdue_leases: int
    oldest_ready_ms: int | None


def ok(name: str, text: str, **facts: Any) -> Finding:
    """Make the finding of a check that passed."""
    return Finding(name, "ok", text, "", facts)


def warn(name: str, text: str, todo: str, **facts: Any) -> Finding:
    """Make the finding of a check that needs somebody's attention."""
    return Finding(name, "warn", text, todo, facts)


def fail(name: str, text: str, todo: str = REPORT, **facts: Any) -> Finding:
    """Make the finding of a failed check: it does not work, or something is broken."""
    return Finding(name, "fail", text, todo, facts)


def failed(name: str, error: Exception) -> Finding:
    """The database did not answer."""
    text, todo = "the check itself failed: {error}", "fix this, then run doctor again"
    return fail(name, text, todo, error=str(error).strip())


def judged(
    name: str, level: Level, good: str, bad: str, todo: str, *, holds: bool, **facts: Any
) -> Finding:
    """Make the finding of a condition, with a level for where it does not hold."""
    return Finding(name, "ok", good, "", facts) if holds else Finding(name, level, bad, todo, facts)


def promises(
    count: Callable[[str], int],
    names: Container[str],
    questions: Mapping[str, Question] = PROMISES,
) -> Iterator[Finding]:
    """The answers to those of the questions that can be asked; `count` runs one."""
    for name, question in questions.items():
        if name in names:
            yield of_zero(name, count(name), question)


def of_zero(name: str, number: int, question: Question) -> Finding:
    """A count that must be zero. It stands behind the text, unless it is in it."""
    good, bad, todo = question
    if "{number" not in bad:
        bad += ": {number:,}"
    return judged(name, question.level, good, bad, todo, holds=not number, number=number)


def way_out(number: int) -> Finding:
    """Whether receives find everything; `number`: of messages and channels that they don't."""
    return of_zero("way out", number, WAY_OUT)


def of_counts(counts: Iterable[QueueCounts]) -> Iterator[Finding]:
    """P15 for each queue, and what nobody seems to work on."""
    queues = list(counts)
    wrong = [c for c in queues if c.sent != c.finished + c.live]
    for c in wrong:
        yield fail(
            "counts",
            "{queue}: {sent:,} were sent, but {live:,} unfinished and {finished:,} finished make"
            " {kept:,}",
            queue=c.queue,
            sent=c.sent,
            live=c.live,
            finished=c.finished,
            kept=c.live + c.finished,
        )
    if not wrong:
        text = "add up in {queues:queue}" if queues else "no queues yet"
        yield ok("counts", text, queues=len(queues))
    idle = [c for c in queues if c.overdue_leases]
    for c in idle:
        yield warn(
            "leases",
            "{queue}: {number:lease} ran out more than {since_ms:ms} ago and nobody took the"
            " messages back",
            "start a worker for {queue}: each receive takes such messages back",
            queue=c.queue,
            number=c.overdue_leases,
            since_ms=LEASE_OVERDUE_MS,
        )
    if not idle:
        yield ok("leases", "none ran out long ago")
    for c in queues:
        if (c.oldest_ready_ms or 0) > READY_OLD_MS:
            why = (
                "the queue is paused" if c.paused else "is a worker running, and is it fast enough"
            )
            yield warn(
                "waiting",
                "{queue}: a ready message has waited for {age_ms:ms}",
                f"{why}{'.' if c.paused else '?'} See: turnabout stats {{queue}}",
                queue=c.queue,
                age_ms=c.oldest_ready_ms,
            )
