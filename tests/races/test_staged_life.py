"""Interleavings staged on PostgreSQL: dedup keys, events, cancels and moves in open transactions.

A transaction that holds a key makes others wait for that key alone, not for ever, and never in a
circle (P13). How it is staged is in `stage.py`.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import turnabout
from tests.conformance.steps import counts, do, finished, grave_of, maintained, sent, texts
from tests.races.stage import Cursor, opposite, soon, sql_ack, sql_receive, transaction
from tests.support import postgres
from tests.support.doors import migrate
from turnabout import Acked, Busy, Failure, LeaseLost, Released, Sent, message
from turnabout.words import verbs as v
from turnabout.words.outcomes import Cancelled, NotWaiting, Retried

pytestmark = [pytest.mark.slow, pytest.mark.real_time]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A database on the newest server: the locks are the same on all."""
    server = postgres._servers.get(max(postgres.VERSIONS))
    with postgres.fresh_database(server, fill=migrate) as url:
        yield url


@pytest.fixture
def queue(url, request) -> Iterator[Any]:
    with turnabout.connect(url) as mq:
        queue = mq.queue(f"q{abs(hash(request.node.nodeid))}")
        queue.create(events="all", max_attempts=1)
        yield queue


def sql_keyed(connection: Cursor, queue: str, *keys: str, text: str = "open") -> list[int]:
    """Send a message for each key; their ids."""
    row = connection.execute(
        "select ids from turnabout.send(queue => %s, payloads => %s::bytea[], dedup_keys => %s)",
        [queue, [text.encode()] * len(keys), list(keys)],
    ).fetchone()
    assert row is not None
    return row[0]


def keyed(queue: Any, *keys: str, **options: Any) -> Any:
    """The same through the library."""
    return queue.send_many([message("late", dedup_key=key, **options) for key in keys])


# --- an open transaction that holds a key ---


def test_whoever_does_not_name_the_key_goes_on(url, queue):
    with transaction(url) as producer:
        sql_keyed(producer, queue.name, "held")
        assert isinstance(soon(keyed, queue, "other", "more"), Sent)
        assert isinstance(soon(queue.send, "no key"), Sent)
        batch = soon(queue.receive, 10)
        assert len(batch) == 3
        assert soon(queue.ack, [m.receipt for m in batch]) == (Acked(),) * 3
        soon(queue.channel("c").pause)
        soon(maintained, queue)
        soon(queue.purge)
        soon(queue.clear, "all")
        soon(queue.stats)
        producer.commit()
    assert texts(queue.receive(10)) == ["open"]


def test_the_same_key_waits_no_longer_than_five_seconds(url, queue):
    with transaction(url) as producer:
        sql_keyed(producer, queue.name, "held")
        began = time.monotonic()
        with pytest.raises(Busy):
            soon(keyed, queue, "held", seconds=12)
        assert time.monotonic() - began < 9
        assert isinstance(soon(keyed, queue, "other"), Sent), "and the connection is as good as new"
        producer.rollback()
    assert not soon(keyed, queue, "held").duplicates


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_who_waits_for_a_key_sees_how_it_ended(url, queue, end):
    answers: list[Any] = []
    with transaction(url) as producer:
        (first,) = sql_keyed(producer, queue.name, "held")
        waiter = threading.Thread(target=lambda: answers.append(keyed(queue, "free", "held")))
        waiter.start()
        until_somebody_waits(url)
        getattr(producer, end)()
        waiter.join(60)
    (outcome,) = answers
    if end == "commit":
        assert (outcome.ids[1], outcome.duplicates) == (first, (1,))
        assert queue.stats().sent == 2
    else:
        assert outcome.duplicates == ()
        assert outcome.ids[1] != first


def until_somebody_waits(url: str) -> None:
    """Until the server itself says that somebody waits for an advisory lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(500):
            row = connection.execute(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            ).fetchone()
            if row is not None and row[0]:
                return
            time.sleep(0.01)
    pytest.fail("nobody waits")


def test_a_transaction_that_holds_something_does_not_wait_for_a_key(url, queue):
    with transaction(url) as one, transaction(url) as two:
        sql_keyed(one, queue.name, "a")
        sql_keyed(two, queue.name, "b")
        began = time.monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            sql_keyed(two, queue.name, "a")
        assert time.monotonic() - began < 4
        two.rollback()
        one.commit()
    assert queue.stats().sent == 1


def test_two_that_send_keys_in_opposite_orders_both_end(url, queue):
    """At most one of them is told to come back later."""

    def send(key: str) -> Any:
        def one_key(connection: Cursor) -> None:
            try:
                sql_keyed(connection, queue.name, key)
            except psycopg.errors.LockNotAvailable:
                connection.rollback()

        return one_key

    opposite(url, send("a"), send("b"))
    assert queue.stats().sent <= 2
    assert postgres.deadlocks(url) == 0
    assert isinstance(keyed(queue, "a", "b"), Sent)
    assert queue.stats().sent == 2


def test_many_with_the_same_keys_in_all_orders_all_end(url, queue):
    """In one call the keys are taken in one order, whatever the caller's."""
    keys = [f"k{n}" for n in range(40)]
    answers: list[Any] = []

    def produce(turn: int) -> None:
        with turnabout.connect(url) as mq:
            mine = keys[turn:] + keys[:turn]
            mine = mine[::-1] if turn % 2 else mine
            answers.extend((mine, keyed(mq.queue(queue.name), *mine).ids) for _ in range(5))

    threads = [threading.Thread(target=produce, args=(turn * 5,)) for turn in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert queue.stats().sent == 40
    assert len(answers) == 30
    assert {frozenset(zip(mine, ids, strict=True)) for mine, ids in answers} == {
        frozenset(zip(*answers[0], strict=True))
    }
    assert postgres.deadlocks(url) == 0


def test_a_huge_send_of_keys_has_them_all_and_nothing_else(url, queue):
    with transaction(url) as producer:
        sql_keyed(producer, queue.name, *map(str, range(1_000)))
        assert isinstance(soon(queue.send, "no key"), Sent)
        producer.commit()
    assert soon(keyed, queue, "7").duplicates == (0,)


# --- events ---


def test_no_event_is_lost_behind_an_open_transaction(url, queue):
    cursor = do(queue, v.Events).cursor
    with transaction(url) as producer:
        (first,) = sql_keyed(producer, queue.name, "early")
        (second,) = sent(queue, "after it, committed before it")
        early = do(queue, v.Events, cursor)
        assert first not in [e.id for e in early.events]
        producer.commit()
    late = do(queue, v.Events, early.cursor)
    told = [e.id for e in (*early.events, *late.events)]
    assert sorted(told) == [first, second], "each of them once, and none left out"


def test_what_was_rolled_back_is_no_event(url, queue):
    cursor = do(queue, v.Events).cursor
    with transaction(url) as producer:
        sql_keyed(producer, queue.name, "never")
        producer.rollback()
    (number,) = sent(queue, "x")
    assert [e.id for e in do(queue, v.Events, cursor).events] == [number]


def test_a_cursor_of_now_does_not_stand_behind_what_is_open(url, queue):
    with transaction(url) as producer:
        (number,) = sql_keyed(producer, queue.name, "open")
        cursor = do(queue, v.Events).cursor
        producer.commit()
    assert number in [e.id for e in do(queue, v.Events, cursor).events]


# --- rows that another transaction holds ---


def test_who_cancels_or_retries_a_held_message_does_not_wait_for_long(url, queue):
    first, second, third = sent(queue, "1", "2", "3")
    with transaction(url) as worker:
        (taken,) = sql_receive(worker, queue.name)
        held = taken[0]
        assert held == first
        for verb in (queue.cancel, queue.retry):
            answers = soon(verb, [first, third])
            assert len(answers) == 2
            assert isinstance(answers[1], (Cancelled, Retried, NotWaiting))
        worker.rollback()
    assert queue.retry([first, second])[1] == Retried()


def test_a_cancel_that_is_not_committed_blocks_nobody(url, queue):
    first, _ = sent(queue, "1", "2")
    with transaction(url) as person:
        person.execute("select turnabout.cancel(%s, %s)", [queue.name, [first]])
        batch = soon(queue.receive, 10)
        assert texts(batch) == ["2"]
        assert isinstance(soon(queue.send, "3"), Sent)
        soon(maintained, queue)
        person.rollback()
    assert texts(queue.receive(10)) == ["1", "3"]
    assert queue.stats().cancelled == 0


def test_an_open_ack_and_a_cancel_end_it_once(url, queue):
    (number,) = sent(queue, "1")
    (held,) = queue.receive()
    with transaction(url) as worker:
        assert sql_ack(worker, queue.name, held.receipt) == [None]
        soon(queue.cancel, [number])
        worker.commit()
    assert [row.outcome for row in finished(queue)] == ["done"]
    assert isinstance(held.release(), LeaseLost)
    assert counts(queue).done == 1


def test_a_redrive_goes_around_what_another_transaction_holds(url, queue):
    sent(queue, *"abc")
    queue.fail([Failure(m.receipt) for m in queue.receive(3)])
    grave = grave_of(queue)
    with transaction(url) as person:
        sql_receive(person, grave.name)
        ended = soon(grave.redrive_start)
        for _ in range(3):
            ended = soon(queue._store.run, v.RedriveStep(ended.id))
        moved = ended.moved
        assert moved <= 2
        person.rollback()
    assert queue.stats().ready == moved
    assert grave.stats().ready == 3 - moved, "what was held is still there for the next redrive"
    (held,) = queue.receive()
    assert held.release() == Released()
