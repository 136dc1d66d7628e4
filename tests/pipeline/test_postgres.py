"""What only PostgreSQL can get wrong for a pipeline: rows that others hold, days that are dropped,
history from before there was a log.
"""

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import turnabout
from tests.support.doors import START, Clock
from tests.support.postgres import migrated_url
from turnabout.pipeline import verbs as p
from turnabout.postgres.revision import rendered
from turnabout.words import verbs as v

pytestmark = pytest.mark.slow

DAY = 86_400_000
LEASE_MS = 60_000
CRASH = """
do $$ begin
    execute (
        select 'truncate ' || string_agg(c.oid::regclass::text, ', ') from pg_class c
        where c.relnamespace = 'turnabout'::regnamespace and c.relkind = 'r'
            and c.relpersistence = 'u');
end $$
"""
"""What is left of the unlogged tables after one: nothing."""


url = migrated_url


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def mq(url, clock) -> Iterator[Any]:
    with turnabout.connect(url, clock=clock) as mq:
        yield mq


def made(mq: Any, *payloads: str) -> Any:
    """A queue that keeps a day of history, with these messages."""
    queue = mq.queue("q")
    queue.create(history_seconds=86_400)
    queue.send_many([turnabout.message(payload) for payload in payloads])
    return queue


def opened(mq: Any) -> int:
    return mq.store.run(p.SubscriptionOpen("s", "test")).generation


def lease(mq: Any, generation: int, after: int, most: int = 1000, **more: Any) -> Any:
    return mq.store.run(p.EpochLease("s", generation, ("q",), after, most, LEASE_MS, **more))


def log(mq: Any, after: str, **more: Any) -> Any:
    return mq.store.run(p.LogNext(after, **more))


# --- the log --------------------------------------------------------------------------------------


def test_a_day_that_is_dropped_is_lost_to_who_has_not_read_it(mq, url, clock):
    queue = made(mq, "a", "b", "c")
    with psycopg.connect(url, autocommit=True) as own:

        def maintained() -> None:
            for _ in range(8):  # a call makes or drops one; here the install's own days as well
                own.execute("select turnabout.maintain_days(%s, false)", [clock.now])

        maintained()
        for days in (0, 1, 0):
            clock.advance(ms=days * DAY)
            queue.receive(1)[0].ack()
        first = log(mq, p.START, limit=1)
        second = log(mq, first.until, limit=1)
        clock.advance(ms=7 * DAY)  # what a queue's dead letters keep of their history
        maintained()
        assert log(mq, first.until).messages == 2, "the first day is gone, and was read"
        clock.advance(ms=DAY)
        maintained()
    answer = log(mq, second.until)
    assert isinstance(answer, p.LogLost)
    assert log(mq, answer.floor) == p.LogRange(answer.floor, answer.floor, 0)
    assert mq.store.run(p.LogLook()) == p.LogState(answer.floor, answer.floor, None)


def test_the_notes_of_what_is_gone_stay_few(mq, url):
    queue = made(mq, *map(str, range(30)))
    for _ in range(10):
        for message in queue.receive(3):
            message.ack()
        mq.store.run(v.Clear("q", "all"))
    with psycopg.connect(url) as own:
        assert own.execute("select count(*) from turnabout.history_floor").fetchone() == (1,)


# --- leases ---------------------------------------------------------------------------------------


def test_rows_that_others_hold_for_a_moment_are_acknowledged_all_the_same(mq, url):
    queue = made(mq, "a", "b")
    generation = opened(mq)
    lease(mq, generation, 0)
    with psycopg.connect(url) as other:
        other.execute("select from turnabout.message for update")
        threading.Timer(0.02, other.rollback).start()
        assert lease(mq, generation, 1) == p.Leased(1, 0, acked=2)
    assert queue.stats().done == 2


def test_rows_that_others_hold_for_long_keep_nobody(mq, url):
    queue = made(mq, "a", "b")
    generation = opened(mq)
    lease(mq, generation, 0)
    with psycopg.connect(url) as other:
        other.execute("select from turnabout.message where payload = 'a' for update")
        assert lease(mq, generation, 1) == p.Leased(1, 0, acked=1, lost=1)
        assert mq.store.run(p.EpochExtend("s", generation, 2 * LEASE_MS)) == p.Renewed(0, 0)
        other.rollback()
    assert queue.stats().done == 1


def test_a_reader_that_comes_while_another_leases_waits_and_fences_it(mq, url):
    made(mq, "a", "b")
    generation = opened(mq)
    with psycopg.connect(url) as slow:
        slow.execute(
            rendered("select turnabout_pipeline.epoch_lease('s', %s, '{q}', 0, 1, %s)"),
            [generation, LEASE_MS],
        )
        answers: list[Any] = []
        newer = threading.Thread(target=lambda: answers.append(opened(mq)))
        newer.start()
        slow.commit()
        newer.join(60)
    assert isinstance(lease(mq, generation, 0), p.Superseded)
    assert lease(mq, answers[0], 0, 0) == p.Leased(1, 1), "what the older one has leased"


def counts(url: str, *tables: str) -> list[int]:
    with psycopg.connect(url) as own:
        count = "select count(*) from turnabout."
        return [own.execute(count + table).fetchone()[0] for table in tables]  # type: ignore[index]


def test_a_lease_goes_with_its_epoch_and_is_extended_as_a_whole(mq, url):
    queue = made(mq, *map(str, range(30)))
    generation = opened(mq)
    assert lease(mq, generation, 0, 20, parts=2) == p.Leased(1, 20)
    assert mq.store.run(p.EpochExtend("s", generation, 2 * LEASE_MS)) == p.Renewed(20, 0)
    assert counts(url, "lease", "extension") == [2, 0]
    assert lease(mq, generation, 1) == p.Leased(2, 10, acked=20)
    for _ in range(2):
        plan = mq.store.run(p.EpochPlan("s", generation, 2, 3 * LEASE_MS, 1, "why"))
    assert (plan.returned, [part.messages for part in plan.parts]) == (9, [1])
    assert counts(url, "lease", "extension") == [1, 0]
    assert lease(mq, generation, 2, 0) == p.Leased(2, 0, acked=1)
    assert counts(url, "lease", "extension", "ready") == [0, 0, 9]
    assert queue.stats().done == 21


@pytest.mark.parametrize("first", ["plan", "extend", "lease", "release"])
def test_recorded_epochs_outlive_a_crash_that_empties_unlogged_tables(mq, url, first):
    queue = made(mq, "a", "b", "c")
    generation = opened(mq)
    assert lease(mq, generation, 0, 2) == p.Leased(1, 2)
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(CRASH)
        read = "select value from turnabout.epoch_rows order by place"
        assert own.execute(read).fetchall() == [(b"a",), (b"b",)], "by an executor, at once"
    if first == "plan":
        plan = mq.store.run(p.EpochPlan("s", generation, 1, LEASE_MS, 3, "why"))
        assert [part.messages for part in plan.parts] == [2]
    elif first == "extend":
        assert mq.store.run(p.EpochExtend("s", generation, LEASE_MS)) == p.Renewed(2, 0)
    elif first == "release":
        assert mq.store.run(p.SubscriptionRelease("s")) == 2
        assert len(queue.receive(9)) == 3
        return
    assert [m.text() for m in queue.receive(9)] == ["c"]
    assert lease(mq, generation, 1) == p.Leased(1, 0, acked=2)


def test_history_of_a_server_that_was_further_is_refused_and_can_be_mended(mq, url):
    queue = made(mq, "a", "b")
    for message in queue.receive(2):
        message.ack()
    repair = (
        "update turnabout.history set xid = pg_current_xact_id()"
        " where xid >= pg_snapshot_xmax(pg_current_snapshot())"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update turnabout.history set xid = '99999999999'")
        assert isinstance(log(mq, p.START), p.LogAhead)
        connection.execute(repair)
    found = log(mq, p.START)
    assert isinstance(found, p.LogRange)
    assert found.messages == 2
