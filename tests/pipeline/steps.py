"""Steps of tests of pipelines: a reader of a subscription, and rows as the views show them."""

import re
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conformance.steps import sent
from tests.support.doors import DOORS, Door
from tests.support.seeds import EVERYTHING
from turnabout.pipeline import verbs as p

LEASE_MS = 60_000
COLOURED = ("postgres-18", "postgres", *["postgres-16", "postgres-18-async"] * EVERYTHING)
PLACES = ["sqlite-unsynced", *[name for name in COLOURED if name in DOORS]]
"""The doors of pipelines: each kind of database; of all tests each version and colour."""
on_postgres = pytest.mark.parametrize(
    "pipe",
    [pytest.param(name, marks=[pytest.mark.slow] * (n > 0)) for n, name in enumerate(PLACES[1:])],
    indirect=True,
)
"""For what one kind of database does: on PostgreSQL alone there are leases by the batch."""
OTHERS = """
select pg_snapshot_xmin(s) < pg_snapshot_xmax(s) and exists (
    select from pg_stat_activity a
    where a.backend_xid is not null
        and (a.backend_type <> 'client backend' or a.datname <> current_database()))
from pg_current_snapshot() s
"""
"""Whether autovacuum, or somebody in another database, is in a transaction with a number."""


class Pipe:
    """A door's database, as a pipeline has it: the store's verbs, and the views."""

    def __init__(self, door: Door) -> None:
        self.door, self.clock = door, door.clock
        self.is_postgres = not door.url.startswith("sqlite")
        self.raw: Any = connection(door.url)

    def run(self, verb: Any) -> Any:
        return self.door.mq.store.run(verb)

    def queue(self, **settings: Any) -> Any:
        """A new queue, with a back-off without chance."""
        return self.door.fresh(**{"backoff_jitter": 0.0, **settings})

    def name(self, what: str = "s") -> str:
        """A name that no other test has."""
        return f"{what}-{self.door.name_of_a_queue()}"

    def select(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        return select(self.raw, statement, *values)

    def reader(self, *queues: Any, subscription: str | None = None, **how: Any) -> "Reader":
        """A reader that has just opened its subscription."""
        names = tuple(queue.name for queue in queues)
        return Reader(self, subscription or self.name(), names, **how)

    def filled(self, *texts: str, channel: str = "", **how: Any) -> tuple[Any, "Reader"]:
        """A new queue with these messages, and its reader."""
        queue = self.queue()
        sent(queue, *texts, channel=channel)
        return queue, self.reader(queue, **how)

    # --- the log ---

    def end(self) -> str:
        self.settle()
        return self.run(p.LogLook()).end

    def begin_log(self) -> None:
        """Let no life be the first in a log: an empty one ends at START, which loses nothing."""
        if self.end() == p.START:
            queue = self.queue()
            queue.send("x")
            queue.receive(1)[0].ack()

    def next(self, after: str, limit: int | None = None, **how: Any) -> Any:
        self.settle()
        return self.run(p.LogNext(after, limit, **how))

    def rows(self, span: p.LogRange) -> list[dict[str, Any]]:
        """The rows of a range, in the order of the log."""
        return log_rows(self.raw, span)

    def log(self, after: str, limit: int | None = None) -> list[dict[str, Any]]:
        """All rows after a position, read in ranges of up to `limit`."""
        got, more = list[dict[str, Any]](), True
        while more:
            span = self.next(after, limit)
            assert isinstance(span, p.LogRange), span
            rows = self.rows(span)
            assert len(rows) == span.messages, (span, len(rows))
            got, after, more = got + rows, span.until, span.more
        return got

    def hold(self) -> "Hold":
        """Another session, whose open transaction has a number: PostgreSQL's log waits for it."""
        return Hold(self.door.url)

    def settle(self) -> None:
        """Wait for transactions that are none of the test's: the log waits for them, too."""
        while self.is_postgres and self.raw.execute(OTHERS).fetchone()[0]:
            time.sleep(0.001)

    def close(self) -> None:
        self.raw.close()


class Hold:
    """An open transaction that has written nothing yet."""

    def __init__(self, url: str) -> None:
        self.session = psycopg.connect(url)
        self.session.execute("select pg_current_xact_id()")

    def close(self) -> None:
        self.session.rollback()  # which is answered; a session that is only closed ends later
        self.session.close()


def connection(url: str) -> Any:
    """The database itself, read by somebody else than the store."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        return sqlite3.connect(path, isolation_level=None)
    return psycopg.connect(url, autocommit=True, options="-c search_path=turnabout,public")


def of_file(statement: str) -> str:
    """The statement for SQLite, where the names of our tables say that they are ours."""
    return re.sub(r"\b(from|join|into|update) (?=[a-z])(?!pragma_)", r"\1 turnabout_", statement)


def select(raw: Any, statement: str, *values: Any) -> list[dict[str, Any]]:
    """The rows of a query; `?` stands for a value."""
    if isinstance(raw, sqlite3.Connection):
        cursor = raw.execute(of_file(statement), values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]
    with raw.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement.replace("?", "%s"), values).fetchall()


def log_rows(raw: Any, span: p.LogRange) -> list[dict[str, Any]]:
    """The rows after `after`, up to and with `until`: docs/design/pipeline.md, Log mode."""
    if not span.until:
        return []
    if isinstance(raw, sqlite3.Connection):
        begin, rows = _pairs(span.after), list[dict[str, Any]]()
        for queue, seq in sorted(_pairs(span.until).items()):
            where = "queue_id = ? and seq > ? and seq <= ? order by seq"
            rows += select(
                raw, f"select * from log_rows where {where}", queue, begin.get(queue, 0), seq
            )
        return rows
    xid, number = _place(span.until)
    where, values = "(xid, message_id) <= (?::xid8, ?::bigint)", [xid, number]
    if span.after:
        where += " and (xid, message_id) > (?::xid8, ?::bigint)"
        values += _place(span.after)
    return select(raw, f"select * from log_rows where {where} order by xid, message_id", *values)


def _place(position: str) -> list[str]:
    """Transaction and message; up to where loss is known is of no interest here."""
    return position.partition("<")[0].split(".")


def _pairs(position: str) -> dict[int, int]:
    pairs = (pair.split("=") for pair in position.split(",") if pair)
    return {int(queue): int(seq) for queue, seq in pairs}


@dataclass
class Reader:
    """A reader of a subscription, as Spark's source is one."""

    pipe: Pipe
    subscription: str
    queues: tuple[str, ...]
    owner: str = "reader"
    parts: int = 1
    by_channel: bool = False
    lease_ms: int = LEASE_MS
    max_plans: int = 3

    def __post_init__(self) -> None:
        opened = self.pipe.run(p.SubscriptionOpen(self.subscription, self.owner))
        self.generation, self.acked = opened.generation, opened.acked

    def lease(
        self, after: int, most: int = 1000, beyond: int = 0, max_bytes: int | None = None
    ) -> Any:
        verb = p.EpochLease(
            self.subscription,
            self.generation,
            self.queues,
            after,
            most,
            self.lease_ms,
            self.parts,
            self.by_channel,
            beyond,
            max_bytes,
        )
        return self.pipe.run(verb)

    def plan(self, epoch: int, error: str = "the batch failed") -> Any:
        how = (self.subscription, self.generation, epoch, self.lease_ms, self.max_plans, error)
        return self.pipe.run(p.EpochPlan(*how))

    def extend(self) -> Any:
        return self.pipe.run(p.EpochExtend(self.subscription, self.generation, self.lease_ms))

    def release(self, *, forget: bool = False) -> int:
        return self.pipe.run(p.SubscriptionRelease(self.subscription, forget))

    def rows(self, epoch: int) -> list[dict[str, Any]]:
        """What a batch reads: part by part, each in its order."""
        where = "subscription = ? and epoch = ? order by part, place"
        return self.pipe.select(f"select * from epoch_rows where {where}", self.subscription, epoch)

    def texts(self, epoch: int) -> list[str]:
        return [bytes(row["value"]).decode() for row in self.rows(epoch)]

    def state(self) -> p.Subscription:
        """The subscription, as the list has it."""
        (mine,) = [s for s in self.pipe.run(p.SubscriptionList()) if s.name == self.subscription]
        return mine


def many(prefix: str, number: int) -> Sequence[str]:
    """Payloads `a0`, `a1` and so on."""
    return [f"{prefix}{n}" for n in range(number)]


def ended(queue: Any, *texts: str, **options: Any) -> list[int]:
    """Messages, sent and done, each in a transaction of its own; their ids."""
    numbers = sent(queue, *texts, **options)
    for _ in texts:
        (held,) = queue.receive(1)
        held.ack()
    return numbers
