"""No bad plan in the verbs of a message's whole life either: see `test_plans`.

Every table is loaded, and what a call touches must still follow its batch alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.postgres import test_plans as plans
from tests.postgres.probe import Connection, Touched, touched
from tests.postgres.test_plans import LATER, Load, connect, create, fill
from tests.support.doors import START, migrate
from tests.support.each import each
from tests.support.postgres import fresh_database
from tests.support.seeds import share_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DAY = 86_400_000
LOADED = 30_000
TABLES = (*plans.TABLES, "dedup", "event", "redrive")

LOAD = f"""
insert into turnabout.dedup (queue_id, scope, key, message_id, until_ms)
select q.id, '', 'old-' || i, i, case when i % 2 = 0 then {LATER} end
from turnabout.queue q, generate_series(1, {LOADED}) i where q.name = 'q';
insert into turnabout.event (at, message_id, queue_id, attempt, kind, channel)
select {START}, i, q.id, 1, 'leased', '' from turnabout.queue q, generate_series(1, {LOADED}) i
where q.name = 'q';
insert into turnabout.history (
    id, sent_at, finished_at, queue_id, attempt, failures, crashes, outcome, channel
)
select -i, {START}, {START} + i, q.id, 1, 0, 0, 1 + i % 4, ''
from turnabout.queue q, generate_series(1, {LOADED}) i where q.name = 'q';
insert into turnabout.message (
    sent_at, expires_at, queue_id, priority, channel, content_type, payload, origin
)
select {START}, {LATER}, q.id, 0, 'c' || i % 100, 'text', 'x',
    json_build_object('queue', 'q', 'died_at', i, 'last_error', 'e' || i)
from turnabout.queue q, generate_series(1, {LOADED}) i where q.name = 'q-dead';
insert into turnabout.ready (id, expires_at, queue_id, priority, limited, channel)
select m.id, m.expires_at, m.queue_id, m.priority, false, m.channel
from turnabout.message m where m.origin is not null;
"""


class Life:
    """A session that calls the verbs, each over as many messages as it is told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.number = 0

    def ask(self, sql: str, *parameters: Any) -> Touched:
        return touched(self.connection, sql, parameters)

    def ids(self, n: int, **more: Any) -> list[int]:
        """So many new messages."""
        extra = "".join(f", {name} => %s" for name in more)
        (row,) = self.connection.execute(
            f"select ids from turnabout.send('q', %s::bytea[], now_ms => %s{extra})",
            [[b"x"] * n, START, *more.values()],
        )
        return row[0]

    def held(self, n: int) -> tuple[list[int], list[int], list[int]]:
        rows = self.connection.execute(
            "select id, attempt, lease from turnabout.receive('q', %s, 600000, now_ms => %s)"
            " where id is not null",
            [n, START],
        ).fetchall()
        return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]

    def keyed(self, n: int, mode: str, *, again: bool) -> Touched:
        self.number += 1
        keys = [f"{mode}-{self.number}-{i}" for i in range(n)]
        sql = (
            "select ids, duplicates, replaced from turnabout.send('q', %s::bytea[], now_ms => %s,"
            " dedup_keys => %s, dedup_modes => %s)"
        )
        asked = ([b"x"] * n, START, keys, [mode] * n)
        seen = self.ask(sql, *asked)
        return self.ask(sql, *asked) if again else seen

    def results(self, n: int) -> Touched:
        ids, attempts, leases = self.held(n)
        return self.ask(
            "select turnabout.ack('q', %s, %s, %s, true, %s, %s, %s)",
            *(ids, attempts, START, [b"r"] * n, ["text/plain"] * n, leases),
        )

    def redrive(self, n: int) -> Touched:
        ((number,),) = self.connection.execute(
            "select id from turnabout.redrive_start('q-dead', per_second => %s, now_ms => %s)",
            [n, START],
        )
        return self.ask(
            "select (r.redrive).moved from turnabout.redrive_step(%s, %s) r", number, START
        )


CALLS: dict[str, Callable[[Life, int], Touched]] = {
    "send with new keys": lambda c, n: c.keyed(n, "window", again=False),
    "send that is suppressed": lambda c, n: c.keyed(n, "sliding", again=True),
    "send while unfinished": lambda c, n: c.keyed(n, "until_finished", again=True),
    "send that replaces": lambda c, n: c.keyed(n, "latest", again=True),
    "send while waiting": lambda c, n: c.keyed(n, "rerun", again=True),
    "ack with results": lambda c, n: c.results(n),
    "cancel": lambda c, n: c.ask(
        "select outcome from turnabout.cancel('q', %s, %s)", c.ids(n), START
    ),
    "cancel of leases": lambda c, n: c.ask(
        "select outcome from turnabout.cancel('q', %s, %s)", c.held(n)[0], START
    ),
    "retry": lambda c, n: c.ask(
        "select outcome from turnabout.retry('q', %s, %s)", c.ids(n), START
    ),
    "endings": lambda c, n: c.ask(
        "select outcome from turnabout.endings('q', %s, %s)",
        [*range(-n, 0), *c.ids(n)], START + DAY,
    ),
    "history": lambda c, n: c.ask(
        "select id from turnabout.history('q', %s, now_ms => %s)", n, START
    ),
    "history of one outcome": lambda c, n: c.ask(
        "select id from turnabout.history('q', %s, 'done', before_at => %s, before_id => 0,"
        " now_ms => %s)", n, START + LOADED // 2, START,
    ),
    "clear": lambda c, n: c.ask("select turnabout.clear('q', 'done', %s)", n),
    "clear of failed": lambda c, n: c.ask("select turnabout.clear('q', 'failed', %s)", n),
    "events": lambda c, n: c.ask("select kind from turnabout.events('q', '0', 0, %s)", n),
    "redrive": lambda c, n: c.redrive(n),
    "receive over expired ones": lambda c, n: (
        c.ids(n, ttls=[1] * n),
        c.ask("select id from turnabout.receive('q', 1, now_ms => %s)", START + 2),
    )[1],
}  # fmt: skip


def prepared(connection: Connection, made: str) -> Life:
    """The tables loaded, after plans were made on empty ones or before they are made."""
    life = Life(connection)
    create(connection, '{"events": "off"}')
    connection.execute("select turnabout.send('q', '{x}'::bytea[])")
    for _ in range(3):
        connection.execute("select turnabout.maintain_days(%s, false)", [START])
    for table in TABLES:
        connection.execute(f"alter table turnabout.{table} set (autovacuum_enabled = off)")
    if made == "made while empty":
        for call in CALLS.values():
            call(life, 1)
            call(life, 2)
    connection.execute(LOAD)
    fill(connection, Load(LOADED, 1_000, LOADED // 2, LOADED // 2))
    if made == "from statistics":
        connection.execute("analyze")
    return life


@pytest.fixture(
    scope="module", params=share_of(["made while empty", "from statistics"], 1, __name__)
)
def life(postgres_server, request) -> Iterator[Life]:
    with fresh_database(postgres_server, fill=migrate) as url, connect(url) as connection:
        yield prepared(connection, request.param)


@each("call", CALLS)
def test_what_a_call_touches_follows_its_batch(life, call):
    for n in (1, 10, 100):
        CALLS[call](life, n)  # the planner itself looks at tables, once
        seen = CALLS[call](life, n)
        assert seen.rows, call
        looked = 12 * min(1_000, 10 * n + 100) if call == "redrive" else 0  # for one that fits
        assert seen.blocks <= 150 + looked + 90 * n, f"{n}: {seen}"
        assert seen.entries <= 1_000 + looked // 2 + 40 * n, (
            f"{n}: {seen}"
        )  # of these the catalog's some 850


def test_a_tend_reads_a_bounded_share(life):
    for seed in (0.1, 0.2):  # one tend in a hundred looks for orphans as well: these two do not
        life.connection.execute("select setseed(%s)", [seed])
        seen = life.ask("select turnabout.maintain('q', %s)", START)
        assert seen.entries <= 40_000, str(seen)


def test_a_look_for_strays_reads_each_lease_once(life):
    seen = life.ask(
        "select turnabout.rescue_orphans(%s, (select min(l.ids[1]) from turnabout.lease l))", START
    )
    assert seen.rows == [(0,)]
    assert seen.entries <= 2.1 * LOADED, str(seen)


def test_expired_ones_are_found_without_a_search(life):
    """The probe that every receive makes: what expires later is not in its way."""
    connection = life.connection
    connection.execute(
        "insert into turnabout.ready (id, expires_at, queue_id, priority, limited, channel)"
        f" select i, {LATER}, q.id, 0, false, 'z'"
        " from turnabout.queue q, generate_series(1000001, 1020000) i where q.name = 'q'"
    )
    life.ask("select id from turnabout.receive('q', 1, now_ms => %s)", START)
    seen = life.ask("select id from turnabout.receive('q', 1, now_ms => %s)", START)
    assert seen.entries_of("ready_expiry") <= 1, str(seen)
