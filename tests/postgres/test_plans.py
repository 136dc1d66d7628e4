"""No bad plan: what a call touches follows its batch, whatever lies in the table.

Plans are made three ways: while the table was empty and had no statistics, in the session that then
meets the load (the worst case of a new installation); from statistics of the empty table; and from
statistics of the load.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
import pytest

from tests.postgres.probe import Connection, Touched, answered, touched
from tests.support.doors import START, migrate
from tests.support.postgres import Server, fresh_database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BATCHES = (1, 10, 100)
LATER = START + 86_400_000
PLACES = ("ready", "scheduled", "lease", "extension", "slot")
QUEUE_LIMITS = (
    '{"queue_max_concurrency": 1000000, "queue_rate_count": 1000000, "queue_rate_period_ms": 1000,'
    ' "queue_rate_burst": 1000000, "queue_rate_interval_us": 1}'
)
TABLES = ("message", *PLACES, "channel", "wake", "tally", "history_default")
SLACK = 1.6  # deeper trees and fuller pages may cost this much more
DEAD = 500  # entries of messages that the test itself has ended: read once, then marked


@dataclass(frozen=True)
class Load:
    """What lies in the queue: ready, leased and scheduled messages, spread over channels."""

    ready: int
    channels: int
    leased: int = 0
    scheduled: int = 0


SMALL = Load(5_000, 100)
DEEP = Load(20_000, 100, 6_000, 6_000)
WIDE = Load(20_000, 2_000, 6_000, 6_000)
HUGE = Load(1_000_000, 10_000, 100_000, 100_000)
NAME = "'c' || lpad((i %% %(channels)s)::text, 5, '0')"
FILL = f"""
with put as (
    insert into turnabout.message (
        at, sent_at, queue_id, attempt, priority, channel, content_type, payload
    )
    select %(at)s, {START}, q.id, 1, 0, {NAME}, 'text', 'x'
    from turnabout.queue q, generate_series(0, %(count)s - 1) i
    where q.name = %(queue)s
    returning id, at, queue_id, channel
)
"""
STAND = {
    "ready": "insert into turnabout.ready (id, queue_id, priority, limited, channel)"
    " select p.id, p.queue_id, 0, q.limited, p.channel"
    " from put p join turnabout.queue q on q.id = p.queue_id",
    "scheduled": "insert into turnabout.scheduled (id, at, queue_id, priority, limited, channel)"
    " select p.id, p.at, p.queue_id, 0, q.limited, p.channel"
    " from put p join turnabout.queue q on q.id = p.queue_id",
    "leased": ", leased as (insert into turnabout.lease (id, until, leased_at, queue_id, ids,"
    f" attempts) select nextval('turnabout.lease_number'), {LATER}, {START}, p.queue_id,"
    " array[p.id], '{2}' from put p)"
    " insert into turnabout.slot (id, queue_id, attempt, channel)"
    " select p.id, p.queue_id, 2, p.channel"
    " from put p join turnabout.queue q on q.id = p.queue_id where q.limited or q.queue_limited",
}
"""Where they stand. Leased ones each by a lease of its own, the most leases that there can be."""


def fill(connection: Connection, load: Load, queue: str = "q") -> None:
    for state, count, at in (
        ("ready", load.ready, None),
        ("leased", load.leased, None),
        ("scheduled", load.scheduled, LATER),
    ):
        connection.execute(
            FILL + STAND[state],
            {"at": at, "count": count, "channels": load.channels, "queue": queue},
        )


def fill_deep(connection: Connection) -> None:
    fill(connection, DEEP)


def fill_wide(connection: Connection) -> None:
    fill(connection, WIDE)


def fill_huge(connection: Connection) -> None:
    fill(connection, HUGE)


def create(connection: Connection, settings: str = "{}") -> None:
    connection.execute("select turnabout.queue_create('q', %s)", [settings])
    for table in TABLES:
        # Nobody but the test analyzes or vacuums: either would drop the plans under test.
        connection.execute(f"alter table turnabout.{table} set (autovacuum_enabled = off)")


LIMITED = {
    "a default max_concurrency": '{"max_concurrency": 3}',
    "a default rate": '{"rate_count": 1000, "rate_period_ms": 1000, "rate_burst": 100,'
    ' "rate_interval_us": 1000}',
    "fifo": '{"fifo": true}',
    "a default max_size": '{"max_size": 100000}',
}


def fill_limited(connection: Connection, load: Load = Load(10_000, 1_000)) -> None:
    """A backlog in channels with rows, and as many channels again that are saturated and asleep."""
    fill(connection, load)
    connection.execute(
        "insert into turnabout.channel (queue_id, name) select q.id, c.name from turnabout.queue q,"
        " (select distinct channel from turnabout.message) c (name) where q.name = 'q'"
    )
    connection.execute(
        "insert into turnabout.channel (queue_id, name, own, max_concurrency, awake)"
        " select q.id, 'b' || i, true, 1, false from turnabout.queue q,"
        " generate_series(0, %s - 1) i where q.name = 'q'",
        [load.channels],
    )
    for state in ("ready", "leased"):
        connection.execute(
            (FILL + STAND[state]).replace(NAME, "'b' || i").replace("q.limited", "true"),
            {"at": None, "count": load.channels, "queue": "q"},
        )


def limit(connection: Connection, settings: str) -> None:
    """The queue as if it had been made so, with all that lies in it."""
    connection.execute(
        "update turnabout.queue q set fifo = s.fifo, max_concurrency = s.max_concurrency,"
        " rate_count = s.rate_count, rate_period_ms = s.rate_period_ms, rate_burst = s.rate_burst,"
        " rate_interval_us = s.rate_interval_us, max_size = s.max_size"
        " from jsonb_populate_record(null::turnabout.queue, '{\"fifo\": false}' || %s::jsonb) s"
        " where q.name = 'q'",
        [settings],
    )


# --- the calls -----------------------------------------------------------------------------------


class Caller:
    """A session that makes the calls, one after another, and notes what each touched."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.turn: str | None = None
        self.now = START
        self.look = touched

    def receive(self, batch: int) -> Touched:
        seen = self.look(
            self.connection,
            "select id, attempt, channel, lease from turnabout.receive('q', %s, 600000, turn => %s,"
            " now_ms => %s) where id is not null",
            [batch, self.turn, self.now],
        )
        if seen.rows:
            self.turn = max(row[2] for row in seen.rows)
        return seen

    def settle(self, verb: str, taken: list[Any]) -> Touched:
        ids, attempts, n = [row[0] for row in taken], [row[1] for row in taken], len(taken)
        leases = [row[3] for row in taken]
        call, more = SETTLING[verb](n)
        sql = f"select {call}"
        return self.look(self.connection, sql, [ids, attempts, *more, self.now, leases])

    def send(self, batch: int) -> Touched:
        return self.look(
            self.connection,
            "select ids from turnabout.send('q', %s::bytea[], channels => %s, now_ms => %s)",
            [[b"x"] * batch, [f"c{n:05}" for n in range(batch)], self.now],
        )

    def between(self) -> None:
        """What came back is taken in, and dead entries are marked, before the next figure."""
        self.now += 120_000
        with self.unseen():
            for _ in range(3):
                self.settle("ack", self.receive(10).rows)

    def rehearse(self) -> None:
        """The planner itself looks at tables, once: not in the figures."""
        with self.unseen():
            self.all()

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Calls without figures, which cost more than the calls."""
        look, self.look = self.look, answered
        yield
        self.look = look

    def all(self) -> dict[str, Touched]:
        """Every hot call, at every batch."""
        noted: dict[str, Touched] = {}
        for batch in BATCHES:
            noted[f"send {batch}"] = self.send(batch)
            for verb in SETTLING:
                self.between()
                seen = self.receive(batch)
                assert len(seen.rows) == batch, verb
                noted[f"receive {batch} before {verb}"] = seen
                noted[f"{verb} {batch}"] = self.settle(verb, seen.rows)
                if verb == "extend":
                    self.settle("ack", seen.rows)
        return noted

    def due(self, batch: int, count: int = 10_000) -> Touched:
        """A receive that meets many messages that have become due, and leases that ran out."""
        for table, column in (("scheduled", "at"), ("lease", "until")):
            self.connection.execute(
                f"update turnabout.{table} set {column} = %s where id = any (array(select id from"
                f" turnabout.{table} limit %s))",
                [self.now - 1, count // 2],
            )
        return self.receive(batch)


FAILING = (
    "turnabout.fail('q', %s, %s, errors => %s, retries => %s, delays => %s, now_ms => %s,"
    " leases => %s)"
)
SETTLING: dict[str, Callable[[int], tuple[str, list[Any]]]] = {
    "ack": lambda _: ("turnabout.ack('q', %s, %s, %s, leases => %s)", []),
    "release": lambda _: ("turnabout.release('q', %s, %s, %s, leases => %s)", []),
    "defer": lambda n: (
        "turnabout.defer('q', %s, %s, delays => %s, states => %s, now_ms => %s, leases => %s)",
        [[60_000] * n, [b"s"] * n],
    ),
    "fail": lambda n: (FAILING, [["boom"] * n, [True] * n, [None] * n]),
    "refuse": lambda n: (FAILING, [["boom"] * n, [False] * n, [None] * n]),
    "extend": lambda _: (
        "turnabout.extend('q', %s, %s, lease_ms => 700000, now_ms => %s, leases => %s)",
        [],
    ),
}


@pytest.fixture(scope="module")
def usual(postgres_server) -> Iterator[dict[str, Touched]]:
    """What each call touches on a small load with statistics: the measure of all others."""
    with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
        create(connection)
        fill(connection, SMALL)
        connection.execute("analyze")
        caller = Caller(connection)
        caller.rehearse()
        yield caller.all()


def connect(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True)


@contextmanager
def prepared(
    server: Server, plans: str, load: Callable[[Connection], None], settings: str = "{}"
) -> Iterator["Caller"]:
    """A session over the load, with its plans made as `plans` says."""
    if plans == "made while empty":
        with fresh_database(server, fill=migrate) as url, connect(url) as connection:
            create(connection, settings)
            for _ in range(3):
                make_plans(connection)
            load(connection)
            yield Caller(connection)
        return
    with fresh_database(server, fill=loaded(load)) as url, connect(url) as connection:
        limit(connection, settings)
        if plans == "from statistics":
            connection.execute("analyze")
        yield Caller(connection)


@cache
def loaded(load: Callable[[Connection], None]) -> Callable[[str], None]:
    """What fills a database with statistics of empty tables. Loaded once, and copied for each."""

    def fill_it(url: str) -> None:
        migrate(url)
        with connect(url) as connection:
            create(connection, LIMITED["fifo"] if load is fill_limited else "{}")
            connection.execute("vacuum analyze")
            load(connection)

    return fill_it


def make_plans(connection: Connection) -> None:
    """Make every call, and leave nothing behind."""
    caller = Caller(connection)
    with caller.unseen():
        for batch in BATCHES:
            caller.send(batch)
            caller.between()
            for verb in SETTLING:
                caller.settle(verb, caller.receive(1).rows or [(1, 1, "", 1)])
    for table in ("message", *PLACES, "wake", "channel"):
        connection.execute(f"delete from turnabout.{table}")


PLANS = ("made while empty", "from statistics of empty tables", "from statistics")


def worse(usual: dict[str, Touched], here: dict[str, Touched], slack: float = SLACK) -> str:
    """The calls that touch more than usual, the worst first, with both figures."""
    found = sorted(
        (
            (max(seen.blocks / norm.blocks, seen.entries / (norm.entries + 1)), call)
            for call, seen in here.items()
            for norm in [usual[call]]
            if seen.blocks > norm.blocks * slack + 40 or seen.entries > norm.entries * slack + DEAD
        ),
        reverse=True,
    )
    return "\n".join(
        f"{factor:.1f} times as much: {call}\n    usual {usual[call]}\n    here  {here[call]}"
        for factor, call in found[:4]
    )


# --- the tests -----------------------------------------------------------------------------------


def test_the_usual_figures_follow_the_batch(usual):
    """What the others are compared with is itself bounded, by figures written down here."""
    too_much = [
        f"{call}: {seen}"
        for call, seen in usual.items()
        if seen.blocks > 60 + 45 * int(call.split()[1])
        or seen.entries > 200 + 12 * int(call.split()[1])
    ]
    assert not too_much, "\n".join(too_much)


@pytest.mark.driving
@pytest.mark.share(4)
@pytest.mark.parametrize("plans", PLANS)
@pytest.mark.parametrize(
    "load",
    [fill_deep, fill_wide, pytest.param(fill_huge, marks=pytest.mark.long)],
    ids=["deep", "wide", "huge"],
)
def test_no_call_touches_more_on_a_loaded_table(postgres_server, usual, plans, load):
    with prepared(postgres_server, plans, load) as caller:
        here = figures(caller, plans)
        slack = 2 if load is fill_huge else SLACK  # each index is a page deeper
        assert not (more := worse(usual, here, slack)), f"{plans}\n{more}"
        check_timers(caller, 56 if load is fill_huge else 50)


def figures(caller: Caller, plans: str) -> dict[str, Touched]:
    """What each call touches; plans that were made while empty must do at once."""
    if plans != "made while empty":
        caller.rehearse()
    return caller.all()


def check_timers(caller: Caller, blocks: int = 50) -> None:
    """10,000 due messages among 12,000 timers: a share is taken, so many blocks for each."""
    caller.between()
    seen = caller.due(10)
    share = 2 * 10 + 100
    assert len(seen.rows) == 10
    timers = seen.entries_of("scheduled_due") + seen.entries_of("lease_due")
    assert timers <= share + DEAD, str(seen)
    assert seen.blocks <= 60 + blocks * (share + 10), str(seen)


@pytest.fixture(scope="module")
def limited_usual(postgres_server) -> Callable[[str], dict[str, Touched]]:
    """As `usual`, for a queue whose channels have rows."""

    @cache
    def measure(settings: str) -> dict[str, Touched]:
        with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
            create(connection, settings)
            fill_limited(connection, SMALL)
            connection.execute("analyze")
            return figures(Caller(connection), "from statistics")

    return measure


@pytest.mark.share(4)
@pytest.mark.parametrize("plans", PLANS)
@pytest.mark.parametrize("settings", LIMITED.values(), ids=LIMITED)
def test_limits_do_not_change_that(postgres_server, limited_usual, plans, settings):
    with prepared(postgres_server, plans, fill_limited, settings) as caller:
        here = figures(caller, plans)
        assert not (more := worse(limited_usual(settings), here, 3)), f"{plans}\n{more}"


@pytest.mark.parametrize("load", [DEEP, pytest.param(HUGE, marks=pytest.mark.long)])
def test_a_queue_s_own_limits_count_no_leases(postgres_server, load):
    """However many channels there are, and messages leased."""
    figures_of = []  # (without the first receive, which counts them)
    for one in (SMALL, load):
        with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
            create(connection, QUEUE_LIMITS)
            fill(connection, one)
            connection.execute("analyze")
            figures_of.append(figures(Caller(connection), "from statistics"))
    assert not (more := worse(*figures_of, 2)), more


@pytest.mark.share(1)
@pytest.mark.parametrize("plans", PLANS)
def test_head_marks_do_not_change_that(postgres_server, usual, plans):
    """With head marks about, whatever gives a message back looks whether it must set another."""
    with prepared(postgres_server, plans, fill_deep) as caller:
        caller.connection.execute(
            "select turnabout.insert_head_mark(q.id, c.name, 0::smallint, 1)"
            " from turnabout.queue q, (select distinct channel from turnabout.message) c (name)"
            " where q.name = 'q'"
        )
        here = figures(caller, plans)
        assert not (more := worse(usual, here, 3)), f"{plans}\n{more}"


def test_another_queue_in_the_same_tables_costs_nothing(postgres_server, usual):
    with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
        create(connection)
        connection.execute("select turnabout.queue_create('other')")
        fill(connection, SMALL)
        fill(connection, DEEP, "other")
        connection.execute("analyze")
        here = figures(Caller(connection), "from statistics")
        assert not (more := worse(usual, here)), more


def test_a_queue_that_has_run_dry_is_cheap_to_ask(postgres_server):
    """Only leases are left, and another queue has a backlog: nothing is found without searching."""
    with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
        create(connection)
        connection.execute("select turnabout.queue_create('other')")
        fill(connection, Load(0, 100, 10_000, 10_000))
        fill(connection, DEEP, "other")
        caller = Caller(connection)
        caller.receive(1), caller.receive(2)  # the planner itself looks at tables, once
        for batch in BATCHES:
            seen = caller.receive(batch)
            assert seen.rows == []
            assert seen.blocks <= 80, str(seen)
            assert seen.entries <= 20, str(seen)


@pytest.mark.share(1)
@pytest.mark.parametrize("only", ["", ", state => 'ready'", ", channel => 'c00007'"])
def test_a_peek_costs_the_same_however_much_waits(postgres_server, only):
    """What waits is not sorted: the next messages are read in their order."""
    cost = []
    for load in (SMALL, Load(100_000, 100, 0, 10_000)):
        with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
            create(connection)
            fill(connection, load)
            connection.execute("analyze")
            for _ in range(2):  # the planner itself looks at tables, once
                seen = touched(connection, f"select * from turnabout.peek('q', 20{only})")
            assert len(seen.rows) == 20
            cost.append(seen)
    assert cost[1].entries <= SLACK * cost[0].entries, str(cost[1])
    assert cost[1].blocks <= SLACK * cost[0].blocks, str(cost[1])


def test_no_pinned_plan_is_compiled(migrated_url):
    """With JIT on, as most servers have it, a call would take tenths of a second, each time."""
    with connect(migrated_url) as connection:
        pinned = connection.execute(
            "select p.proname, 'jit=off' = any(p.proconfig) from pg_proc p"
            " where exists (select from unnest(p.proconfig) c (setting)"
            " where starts_with(c.setting, 'plan_cache_mode'))"
        ).fetchall()
    assert {"receive", "ack", "maintain"} <= {name for name, _ in pinned}
    assert [name for name, is_off in pinned if not is_off] == []
