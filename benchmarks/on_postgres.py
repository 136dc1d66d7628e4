"""PostgreSQL: databases to measure in, the barest queue there, and our functions called bare.

The barest queue that can lease and ack is one table with one index. It and `Bare` use psycopg as
our library does (blocking, prepared, binary), so that what differs is what is measured.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import psycopg
from psycopg import sql

from benchmarks.library import PAYLOAD, QUEUE, channel_name
from turnabout.dev.pgserver import PostgresServer
from turnabout.postgres import install

SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "autovacuum_naptime": "10s",
    "jit": "off",
}
RAW = """
create table raw (
    id bigint generated always as identity primary key,
    leased_until bigint not null default 0,
    payload bytea
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index raw_ready on raw (leased_until, id);
"""
FILL = """
with made as (
    select array_agg({payload}::bytea) as payloads,
        array_agg(case when {channels} = 1 then '' else 'tenant-' || i % {channels} end) as channels
    from generate_series({first}, {last}) i
)
select cardinality(s.ids) from made, turnabout.send(
    {queue}, made.payloads, 'application/octet-stream', made.channels) s
"""
BLOCKED = """
insert into turnabout.channel (queue_id, name, own, awake, max_concurrency)
select q.id, 'blocked-' || i, true, false, 1
from turnabout.queue q, generate_series(2, {count}, 2) i where q.name = '{queue}';
insert into turnabout.channel (
    queue_id, name, own, awake, wake_at, rate_tat_us,
    rate_count, rate_period_ms, rate_burst, rate_interval_us
)
select q.id, 'blocked-' || i, true, false, n.ms + 3600000, (n.ms + 3600000) * 1000,
    1, 3600000, 1, 3600000000
from turnabout.queue q, (select turnabout.clock_ms() as ms) n, generate_series(1, {count}, 2) i
where q.name = '{queue}';
with waiting as (
    insert into turnabout.message (queue_id, channel, priority, sent_at, payload)
    select q.id, 'blocked-' || i, 0, n.ms, 'x'
    from turnabout.queue q, (select turnabout.clock_ms() as ms) n, generate_series(1, {count}) i
    where q.name = '{queue}'
    returning id, queue_id, channel
)
insert into turnabout.ready (id, queue_id, priority, limited, channel)
select w.id, w.queue_id, 0, true, w.channel from waiting w;
with held as (
    insert into turnabout.message (queue_id, channel, priority, sent_at, payload)
    select q.id, 'blocked-' || i, 0, n.ms, 'x'
    from turnabout.queue q, (select turnabout.clock_ms() as ms) n,
        generate_series(2, {count}, 2) i
    where q.name = '{queue}'
    returning id, queue_id, channel, sent_at
),
leased as (
    insert into turnabout.lease (id, until, leased_at, queue_id, ids, attempts)
    select nextval('turnabout.lease_number'), h.sent_at + 3600000, h.sent_at, h.queue_id,
        array[h.id], array[1]
    from held h
)
insert into turnabout.slot (id, queue_id, attempt, channel)
select h.id, h.queue_id, 1, h.channel from held h
"""
RECEIVE = (
    b"select * from turnabout.receive($1::text, $2::int, $3::bigint, $4::text, $5::int, $6::int,"
    b" $7::int, $8::bigint)"
)
ACK = (
    b"select turnabout.ack($1::text, $2::bigint[], $3::int[], $4::bigint, true, null, null,"
    b" $5::bigint[])"
)
SEND = (
    b"select * from turnabout.send($1::text, $2::bytea[], $3::text, $4::text[], $5::smallint[],"
    b" $6::bigint[], $7::text[], $8::text[], $9::bigint)"
)
PART = 10_000
PLACES = ("ready", "scheduled", "lease", "extension", "slot")
"""Where a message stands."""


class Wire:
    """One connection in autocommit, used as our library uses its own."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._cursor = psycopg.RawCursor(self._connection)
        self._cursor.format = psycopg.pq.Format.BINARY

    def run(self, statement: bytes, parameters: Sequence[Any]) -> psycopg.RawCursor[Any]:
        """Run a statement."""
        return self._cursor.execute(statement, parameters, binary=True)

    def close(self) -> None:
        """Close it."""
        self._connection.close()


class Raw(Wire):
    """The barest lease, ack and insert."""

    def __init__(self, url: str, channels: int = 1, payload: bytes = PAYLOAD) -> None:
        super().__init__(url)
        self._leases: dict[int, bytes] = {}
        self._payload = payload

    def take(self, most: int) -> Sequence[int]:
        """Lease some; the limit is a literal, so that the plan can count on it."""
        lease = self._leases.get(most)
        if lease is None:
            lease = self._leases[most] = lease_statement(most).encode()
        until = time.time_ns() // 1_000_000 + 30_000
        return [row[0] for row in self.run(lease, (until,)).fetchall()]

    def done(self, receipts: Sequence[int]) -> None:
        """Delete them."""
        self.run(b"delete from raw where id = any ($1::bigint[])", (literal(receipts),))

    def put(self, count: int) -> None:
        """Insert so many, in one statement."""
        if count == 1:
            self.run(b"insert into raw (payload) values ($1::bytea)", (self._payload,))
        else:
            statement = b"insert into raw (payload) select unnest($1::bytea[])"
            self.run(statement, ([self._payload] * count,))


def literal(numbers: Sequence[int]) -> str:
    """An array as text: much cheaper to write than the driver's own arrays."""
    return "{" + ",".join(map(str, numbers)) + "}"


def lease_statement(most: int) -> str:
    """The barest lease of up to `most`.

    `<= 0`, not `= 0`: of a column that is known to be 0 PostgreSQL forgets the order by, walks the
    primary key instead, and steps over every leased row at every call.
    """
    return (
        "update raw set leased_until = $1::bigint where id in ("  # noqa: S608
        "select id from raw where leased_until <= 0 order by leased_until, id"
        f" limit {most} for update skip locked) returning id, payload"
    )


class Bare(Wire):
    """Our functions by hand: what our library's client side costs is the difference to it."""

    def __init__(self, url: str, channels: int = 1) -> None:
        super().__init__(url)
        self._receive = RECEIVE
        self._ack = ACK
        self._send = SEND
        self._turn: str | None = None
        self._channels = channels
        self._number = itertools.count()

    def take(self, most: int) -> Sequence[Sequence[Any]]:
        """Lease some, going on where the last one ended."""
        parameters = (QUEUE, most, None, self._turn, 0, None, None, None)
        answer = self.run(self._receive, parameters).fetchall()
        rows = [row for row in answer if row[0] is not None]  # the last may tell of the turn only
        if not rows:
            return []
        names = {row[2] for row in rows}
        again = [name for name in names if name <= (self._turn or "")]
        self._turn = max(again or names)
        return rows

    def done(self, receipts: Sequence[Sequence[Any]]) -> None:
        """End them."""
        ids = literal([row[0] for row in receipts])
        attempts = literal([row[1] for row in receipts])
        leases = literal(sorted({row[14] for row in receipts}))
        self.run(self._ack, (QUEUE, ids, attempts, None, leases)).fetchall()

    def put(self, count: int) -> None:
        """Send so many."""
        channels = None
        if self._channels > 1:
            numbers = itertools.islice(self._number, count)
            channels = [channel_name(number, self._channels) for number in numbers]
        kind = "application/octet-stream"
        payloads = [PAYLOAD] * count
        parameters = (QUEUE, payloads, kind, channels, None, None, None, None, None)
        self.run(self._send, parameters).fetchall()


class Loud(Bare):
    """Our send with a NOTIFY in its transaction: what others do, and we don't."""

    def __init__(self, url: str, channels: int = 1) -> None:
        super().__init__(url, channels)
        head, _, call = self._send.partition(b" from ")
        self._send = head + b", pg_notify('bench', 'sent')::text from " + call


class PostgresBase:
    """A database to measure in, with the barest table and our schema; dropped by `close`."""

    def __init__(self, place: PostgresPlace, *, durable: bool) -> None:
        self._place = place
        self._name = place.create(place.template())
        self.url = place.url(self._name)
        self._admin = psycopg.connect(self.url, autocommit=True)
        mode = "on" if durable else "off"
        self.say(f'alter database "{self._name}" set synchronous_commit to {mode}')
        self.say(f'alter database "{self._name}" set jit to off')

    def say(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as the one who prepares and looks."""
        cursor = self._admin.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def make_queue(self, *, history: bool = False, events: str = "off") -> None:
        """The queue that is measured."""
        ms = 604_800_000 if history else 0
        settings = f'{{"history_ms": {ms}, "events": "{events}"}}'
        self.say(f"select turnabout.queue_create('{QUEUE}', '{settings}')")

    def fill(self, backlog: int, channels: int) -> None:
        """Have so many ready messages, the channels in turn, vacuumed. Sent on the server by
        `turnabout.send`, 10,000 at a time: so nothing here knows how they are stored.
        """
        missing = backlog - self.ready()
        for first in range(0, missing, PART):
            self._admin.execute(
                sql.SQL(FILL).format(
                    payload=PAYLOAD,
                    channels=channels,
                    first=first,
                    last=min(first + PART, missing) - 1,
                    queue=QUEUE,
                )
            )
        self.tidy()

    def ready(self) -> int:
        """How many are ready."""
        return self.say("select count(*) from turnabout.ready")[0][0]

    def fill_flood(self, backlog: int, others: int, share: float) -> None:
        """One channel, `flood`, with that share of the backlog, and some others with the rest."""
        every = max(1, round(1 / (1 - share))) if share < 1 else backlog + 1
        name = f"case when i % {every} = 0 then 'tenant-' || (i / {every}) % {max(others, 1)} "
        for first in range(1, backlog + 1, PART):
            last = min(first + PART - 1, backlog)
            self.say(
                f"select cardinality(s.ids) from turnabout.send('{QUEUE}',"  # noqa: S608
                f" array(select '{'x' * 100}'::bytea from generate_series({first}, {last})),"
                " 'application/octet-stream',"
                f" array(select {name} else 'flood' end from generate_series({first}, {last}) i"
                " order by i)) s"
            )
        self.tidy()

    def lease(self, count: int) -> None:
        """Lease so many for an hour, by `turnabout.receive`."""
        most = min(PART, count)
        take = f"select count(*) from turnabout.receive('{QUEUE}', {most}, 3600000)"  # noqa: S608
        for _ in range(0, count, PART):
            self.say(take)
        self.tidy()

    def add_blocked(self, count: int) -> None:
        """So many channels with one message waiting that may not go: one half has a rate of one
        an hour and has used it, the other half one lease at a time and has it.

        Inserted as receive leaves them, asleep: sent and received one by one it takes minutes.
        """
        for statement in BLOCKED.format(count=count, queue=QUEUE).split(";"):
            self.say(statement)
        self.tidy()

    def tidy(self) -> None:
        """What autovacuum does, now, so that it doesn't come in the middle."""
        for table in ("message", "channel", "wake", "tally"):
            self.say(f"vacuum (analyze, skip_locked) turnabout.{table}")

    def empty(self) -> None:
        """No messages, and no raw rows."""
        named = ", ".join(f"turnabout.{table}" for table in (*PLACES, "message", "wake", "tally"))
        self.say(f"truncate raw, {named}")

    @contextlib.contextmanager
    def old_snapshot(self) -> Iterator[None]:
        """A transaction that sees everything as it is now, held open."""
        with psycopg.connect(self.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("select count(*) from turnabout.queue")
            yield

    def server_ns(self) -> dict[int, int]:
        """Processor time so far of the processes that serve this database, if they run here."""
        pids = self.say(
            "select pid from pg_stat_activity where datname = current_database()"
            " and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        spent: dict[int, int] = {}
        for (pid,) in pids:
            with contextlib.suppress(OSError):
                if b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    spent[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        return spent

    def close(self) -> None:
        """Drop it."""
        self._admin.close()
        self._place.drop(self._name)


class PostgresPlace:
    """A server: ours, started for this run, or the user's, where databases are made and dropped."""

    name = "PostgreSQL"

    def __init__(self, *, url: str | None, version: int, durable: bool) -> None:
        self.durable = durable
        self._server = None
        if url is None:
            self._server = PostgresServer(version, profile="durable", settings=SETTINGS)
            self._server.start()
            url = self._server.url()
        self._url = url
        self._run = f"turnabout_bench_{secrets.token_hex(3)}"
        self._numbers = itertools.count(1)
        self._template: str | None = None

    def url(self, database: str) -> str:
        """The address of a database there."""
        return urlsplit(self._url)._replace(path="/" + quote(database)).geturl()

    def base(self, *, durable: bool | None = None) -> PostgresBase:
        """A new database to measure in; as durable as the place, unless told."""
        return PostgresBase(self, durable=self.durable if durable is None else durable)

    def template(self) -> str:
        """A database with the schema in it, made once."""
        if self._template is None:
            self._template = self.create("template1")
            install.up(self.url(self._template))
            with psycopg.connect(self.url(self._template)) as connection:
                connection.execute(RAW)
        return self._template

    def create(self, template: str) -> str:
        """Make a database and answer with its name."""
        name = f"{self._run}_{next(self._numbers)}"
        self._say(f'create database "{name}" template "{template}"')
        return name

    def drop(self, name: str) -> None:
        """Drop a database, with whoever is connected."""
        self._say(f'drop database if exists "{name}" with (force)')

    def close(self) -> None:
        """Leave nothing behind."""
        if self._template is not None:
            self.drop(self._template)
        if self._server is not None:
            self._server.close()

    def about(self) -> str:
        """Version and settings, for the line that says what was measured on."""
        with psycopg.connect(self._url) as connection:
            version = connection.info.server_version
            rows = [
                (name, cast("Any", connection.execute(f"show {name}".encode()).fetchone())[0])
                for name in ("shared_buffers", "max_wal_size", "fsync")
            ]
        settings = ", ".join(f"{name} {value}" for name, value in rows)
        durable = "on" if self.durable else "off"
        mode = "ours" if self._server else "given"
        return (
            f"PostgreSQL {version // 10_000}.{version % 10_000} ({mode}): {settings},"
            f" jit off, synchronous_commit {durable}; psycopg {psycopg.__version__}"
            f" ({psycopg.pq.__impl__})"
        )

    def _say(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode())
