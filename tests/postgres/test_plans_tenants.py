"""A tenant costs what it has: no list and no count of its own reads what others have.

Plans are made in a database without statistics and in one that knows its load: see `test_plans`.
"""

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.probe import Connection, Touched, touched
from tests.support.doors import START
from tests.support.each import each
from tests.support.postgres import migrated
from tests.support.seeds import share_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TENANTS = 1_000
BACKLOG = 20_000
LOAD = f"""
select turnabout.queue_create('t' || i || '/q') from generate_series(1, {TENANTS}) i;
select turnabout.queue_create('plain'), turnabout.queue_create('t1/fifo', '{{"fifo": true}}');
insert into turnabout.schedule (
    name, queue, template, payload, every_ms, zone, anchor, missed, overlap, gap, fold, paused,
    next_at
)
select q.name, q.name, '{{}}', '', 1000, 'UTC', 0, 'once', 'allow', 'after', 'first', false, 1
from turnabout.queue q;
insert into turnabout.redrive (queue_id, queue, max_redrives, state, created_at)
select q.id, q.name, 3, 'done', 0 from turnabout.queue q;
insert into turnabout.tally (queue_id, sent)
select q.id, 1 from turnabout.queue q, generate_series(1, 5);
insert into turnabout.message (sent_at, queue_id, priority, channel, content_type, payload)
select {START}, q.id, 0, 'c' || i % 100, 'text', 'xyz'
from turnabout.queue q, generate_series(1, {BACKLOG}) i where q.name in ('t1/q', 't1/fifo');
insert into turnabout.ready (id, queue_id, priority, limited, channel)
select m.id, m.queue_id, m.priority, q.limited, m.channel
from turnabout.message m join turnabout.queue q on q.id = m.queue_id;
select turnabout.send('t7/q', array['x', 'xyz']::bytea[], now_ms => {START});
"""


@pytest.fixture(scope="module", params=share_of(["blind", "analyzed"], 1, __name__))
def loaded(request: pytest.FixtureRequest) -> Iterator[Connection]:
    with migrated() as url, psycopg.connect(url, autocommit=True) as connection:
        for table in ("message", "ready"):
            connection.execute(f"alter table turnabout.{table} set (autovacuum_enabled = off)")
        connection.execute(LOAD.encode())
        if request.param == "analyzed":
            connection.execute("analyze")
        yield connection


def asked(connection: Connection, sql: str) -> Touched:
    """What the last of many calls touches: by then its plans are those that stay."""
    for _ in range(7):
        found = touched(connection, sql)
    return found


@each(
    ("sql", "rows"),
    [
        ("select name from turnabout.queue_list(null, 't7')", 2),
        ("select name from turnabout.queue_list(null, '')", 2),
        ("select name from turnabout.schedule_list(namespace => 't7')", 2),
        ("select name from turnabout.schedule_list(namespace => '')", 2),
        ("select id from turnabout.redrive_list(namespace => 't7')", 2),
        ("select id from turnabout.redrive_list(most => 1, namespace => '')", 1),
        ("select name from turnabout.stats(namespace => 't7')", 2),
        ("select name from turnabout.totals('t7')", 2),
        ("select name from turnabout.totals('t7', measure => true)", 2),
    ],
)
def test_a_tenant_s_lists_and_counts_touch_what_it_has(
    loaded: Connection, sql: str, rows: int
) -> None:
    found = asked(loaded, sql)
    assert len(found.rows) == rows
    assert found.entries < 100, found


def test_totals_of_a_backlog_cost_as_little(loaded: Connection) -> None:
    found = asked(
        loaded,
        f"select name, sent, oldest_ready_ms from turnabout.totals('t1', false, {START} + 5)",
    )
    ages = {name: age for name, _, age in found.rows}
    assert (ages["t1/q"], ages["t1/fifo"], ages["t1/q-dead"]) == (5, 5, None)
    assert found.entries < 200, found


def test_what_is_due_is_found_among_many_queues(loaded: Connection) -> None:
    """What the others have, tallies, a backlog, schedules, costs nothing."""
    loaded.execute(f"select turnabout.send('t9/q', array['x']::bytea[], delays => '{{5}}',"
                   f" now_ms => {START})".encode())  # fmt: skip
    for late, names in ((4, []), (5, [("t9/q",)])):
        found = asked(loaded, f"select turnabout.queues_due(false, 10, {START + late})")
        assert found.rows == names
        assert found.blocks < 60, found
        assert found.entries < 40, found


def test_old_rows_are_found_by_a_few_entries_of_each_queue(loaded: Connection) -> None:
    found = asked(loaded, f"select turnabout.queues_due(true, 5, {START})")
    assert len(found.rows) == 5
    assert found.entries < 6 * TENANTS * 2, found


def test_a_queue_s_upkeep_does_not_look_at_the_others(loaded: Connection) -> None:
    found = asked(loaded, f"select turnabout.maintain('t8/q', {START})")
    assert found.entries_of("queue") == 0, "never read through"
    few = TENANTS // 10  # what other tests' snapshots keep of dead entries is passed by, too
    assert found.entries_of("queue_longest_history") < few, found


def test_bytes_are_counted_of_all_kinds(loaded: Connection) -> None:
    rows = loaded.execute("select name, bytes from turnabout.totals(measure => true)").fetchall()
    assert dict(rows)["t1/q"] == dict(rows)["t1/fifo"] == 3 * BACKLOG
    assert dict(rows)["t7/q"] == 4
