"""A queue is changed while others are at work there: what they decided under its old settings, and
commit after the change, is settled by the new ones (sql/time/settle_changes.sql).

The one that is overtaken is an open transaction, so nothing here depends on who is quicker.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import finished, is_empty, maintained, sent
from tests.support.postgres import one_migrated_url
from turnabout import Acked, Busy, Policy

pytestmark = pytest.mark.slow  # a database

url = one_migrated_url
numbers = itertools.count(1)
ISOLATIONS = ["read committed", "repeatable read"]
MOST = {
    "a channel's policy": lambda queue: queue.channel("c").set_policy(Policy(max_concurrency=1)),
    "the default policy": lambda queue: queue.update(policy=Policy(max_concurrency=1)),
    "the queue's own limit": lambda queue: queue.update(queue_max_concurrency=1),
}
KEPT = {
    "history": lambda queue: queue.update(history_seconds=3600),
    "events": lambda queue: queue.update(events="all"),
}


def overtaken(
    url: str, isolation: str, queue: Any, act: Callable[[Any], Any], change: Callable[[Any], Any]
) -> Any:
    """What `act` answers in a transaction that commits after `change`. Above `read committed` it
    comes after the change, and does not see it.
    """
    with psycopg.connect(url) as connection:
        connection.execute(f"set transaction isolation level {isolation}".encode())
        connection.execute("select from turnabout.queue")
        if isolation == "read committed":
            answer = act(queue.within(connection))
            change(queue)
        else:
            change(queue)
            answer = act(queue.within(connection))
    return answer


@contextmanager
def settled_by_nobody(url: str) -> Iterator[None]:
    with psycopg.connect(url) as busy:
        key = "hashtextextended('turnabout.settle_changes', 0)"
        busy.execute(f"select pg_advisory_xact_lock({key})".encode())
        yield


@pytest.fixture
def queue(url) -> Iterator[Any]:
    with turnabout.connect(url) as mq:
        queue = mq.queue(f"changed{next(numbers)}")
        queue.create(history_seconds=0)
        yield queue


def rows_of_no_queue(url: str) -> list[tuple[str, int]]:
    tables = ("message", "ready", "scheduled", "lease", "slot", "tally", "wake", "channel")
    count = "select '{0}', count(*) from turnabout.{0} where queue_id not in"
    count += " (select id from turnabout.queue)"
    with psycopg.connect(url) as connection:
        return connection.execute(" union all ".join(map(count.format, tables)).encode()).fetchall()


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("most", [1, 5, 30])
@pytest.mark.parametrize("change", MOST)
def test_leases_that_are_just_made_count_against_a_new_limit(queue, url, change, most, isolation):
    sent(queue, *map(str, range(40)), channel="c")
    held = overtaken(url, isolation, queue, lambda joined: joined.receive(most), MOST[change])
    with settled_by_nobody(url):
        assert is_empty(queue), "the limit is reached"
    assert is_empty(queue)
    assert queue.stats().leased == most
    assert queue.ack([m.receipt for m in held]) == (Acked(),) * most
    assert len(queue.receive(10)) == 1
    assert is_empty(queue)


def test_slots_that_were_just_put_count_against_a_new_limit_of_the_queue(queue, url):
    """Those of a limited channel, where the queue had no limit of its own: nobody notes them."""
    queue.channel("c").set_policy(Policy(max_concurrency=9))
    sent(queue, *map(str, range(10)), channel="c")
    counted = []

    def change(queue: Any) -> None:
        queue.update(queue_max_concurrency=1)
        sent(queue, "x", channel="d")
        counted.extend(queue.receive(10))

    held = overtaken(url, "read committed", queue, lambda joined: joined.receive(5), change)
    (one,) = counted
    with settled_by_nobody(url):
        assert one.ack() == Acked()
        assert is_empty(queue)
    queue.ack([m.receipt for m in held])
    assert len(queue.receive(10)) == 1


def test_a_policy_holds_before_its_row_has_it(queue, url):
    """Whoever holds the channel's row keeps the change waiting; nobody goes by the old one."""
    queue.channel("c").set_policy(Policy(weight=2))
    sent(queue, "a", channel="c")
    with psycopg.connect(url) as connection:
        assert len(queue.within(connection).receive(3)) == 1, "and it puts the row to sleep"
        queue.channel("c").set_policy(Policy(max_concurrency=1))
        sent(queue, "b", "d", channel="c")
        assert is_empty(queue)
    assert is_empty(queue)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("change", KEPT)
def test_what_is_acked_after_the_change_is_kept(queue, url, change, isolation):
    sent(queue, "a", "b", "c")
    since = queue.events_cursor()
    held = overtaken(url, isolation, queue, lambda joined: joined.receive(3), KEPT[change])
    one, *others = (m.receipt for m in held)
    assert [*queue.ack([one]), *queue.ack(others)] == [Acked()] * 3
    if change == "history":
        assert {done.id for done in finished(queue)} == {m.id for m in held}
    else:
        assert [event.kind for event in queue.events(after=since, idle_seconds=0.1)] == ["done"] * 3


SENDS: dict[str, Callable[[Any], Any]] = {
    "one": lambda queue: queue.send("x"),
    "many": lambda queue: queue.send_many([turnabout.message(t) for t in "xy"]),
    "keyed": lambda queue: queue.send("x", dedup_key="k"),
    "delayed": lambda queue: queue.send("x", delay_seconds=0.001),
}


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", SENDS)
def test_what_is_just_sent_to_a_deleted_queue(queue, url, kind, isolation, is_made_again):
    """It goes to the queue that has its name by then; with none it goes as the others did."""
    before = rows_of_no_queue(url)
    with turnabout.connect(url) as mq:
        other = mq.queue("other")
        other.create()
        try:
            ids = overtaken(url, isolation, queue, SENDS[kind], lambda q: q.delete()).ids
        except Busy:  # an older snapshot still sees the queue, and must not send to it
            ids = ()
        assert bool(ids) == (isolation == "read committed")
        if is_made_again:
            queue.create()
            assert {m.id for m in queue.receive(10, wait_seconds=0.1)} == set(ids)
        maintained(other)
    assert rows_of_no_queue(url) == before
