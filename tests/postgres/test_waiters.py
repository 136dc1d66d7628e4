"""Who waits says so in the database; only then others notify, as many as there is something for."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import turnabout
from tests.postgres.asking import ask, eventually
from tests.postgres.probe import touched
from tests.postgres.test_snapshot import snapshot
from tests.postgres.test_store import OTHERS, Beside
from tests.postgres.test_url import and_also
from tests.support.postgres import one_migrated_url
from turnabout.postgres.notices import (
    ALONE_PAUSE_SECONDS,
    ENDS_PAUSE_SECONDS,
    PAUSE_SECONDS,
    Notice,
    Notices,
)
from turnabout.postgres.notifier import ListeningNotifier
from turnabout.words.verb import Change

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

PATIENT = "poll_seconds=30"  # so that only a notification can be the reason
SOON = 15.0
ROWS = "select process, changes from turnabout.waiter where queue = %s order by process"

url = one_migrated_url


@pytest.fixture
def queue(url: str, name: str) -> Iterator[Any]:
    """A queue over a connection that does not wait."""
    with turnabout.connect(url) as mq:
        queue = mq.queue(name)
        queue.create()
        yield queue


@contextmanager
def waiting(url: str, name: str, call: Any = None) -> Iterator[Beside]:
    """A call on another connection that waits by now."""
    before = ask(url, ROWS, name)
    with turnabout.connect(and_also(url, PATIENT)) as mq:
        queue = mq.queue(name)
        called = Beside(lambda: (call or (lambda q: q.receive(wait_seconds=20)))(queue))
        give_up = time.monotonic() + 20
        while ask(url, ROWS, name) == before:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        time.sleep(0.1)  # from its row to its sleep
        yield called


@contextmanager
def heard(url: str, *processes: str) -> Iterator[list[str]]:
    """The notifications that anybody sends to these processes meanwhile."""
    notes: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for process in processes:
            connection.execute(f"listen turnabout_{process}".encode())
        yield notes
        time.sleep(3 * PAUSE_SECONDS + 0.1)
        notes += [note.payload for note in connection.notifies(timeout=0.2)]


def processes(url: str, name: str) -> list[str]:
    return [process for process, _ in ask(url, ROWS, name)]


def test_a_message_is_notified_to_one_of_those_who_wait(url, name, queue) -> None:
    with waiting(url, name) as first, waiting(url, name) as second:
        both = processes(url, name)
        assert len(both) == 2
        with heard(url, *both) as notes:
            queue.send("x")
            eventually(url, f"select 1 where (select count(*) from ({ROWS}) r) = 1", name)
        assert notes == [f"1 {name}"]
        queue.send("y")
        got = [message.text() for call in (first, second) for message in call.answer()]
        assert sorted(got) == ["x", "y"]
        assert max(first.took, second.took) < SOON + 1


def test_many_messages_are_notified_to_as_many(url, name, queue) -> None:
    with waiting(url, name) as first, waiting(url, name) as second, waiting(url, name) as third:
        queue.send_many([turnabout.message("a"), turnabout.message("b")])
        calls = (first, second, third)
        give_up = time.monotonic() + SOON
        while sum(call.ended for call in calls) < 2:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        assert sum(call.ended for call in calls) == 2
        queue.send("c")


def test_nobody_is_notified_where_nobody_waits(url, name, queue) -> None:
    """A receiver that finds messages says nothing to others, and nothing is said to it."""
    with turnabout.connect(url) as mq:
        busy = mq.queue(name)
        for _ in range(5):
            queue.send("x")
            assert busy.receive(wait_seconds=5)
    assert ask(url, ROWS, name) == []
    assert ask(url, f"select query {OTHERS} and query like 'listen %%'") == []


def test_acks_are_for_those_who_wait_for_ends(url, name, queue) -> None:
    one = queue.send("x").id
    (message,) = queue.receive(lease_seconds=600)
    with (
        waiting(url, name) as receiver,
        waiting(url, name, lambda q: q.wait([one], timeout_seconds=20)) as waiter,
    ):
        listed = dict(ask(url, ROWS, name))
        with heard(url, *listed) as notes:
            message.ack(result="done")
        (ending,) = waiter.answer()
        assert ending.result.text() == "done"
        assert waiter.took < SOON
        assert not receiver.ended
        assert notes in ([f"2 {name}"], [])  # []: its row was renewed between two looks
        queue.send("y")


def test_a_slot_that_an_ack_frees_is_for_a_receiver(url, name, queue) -> None:
    queue.channel("a").set_policy(turnabout.Policy(max_concurrency=1))
    queue.send_many([turnabout.message(text, channel="a") for text in "12"])
    (message,) = queue.receive(lease_seconds=600)
    with waiting(url, name) as receiver:
        message.ack()
        assert [m.text() for m in receiver.answer()] == ["2"]
        assert receiver.took < SOON


def test_a_notification_for_somebody_who_went_is_passed_on(url, name, queue) -> None:
    with turnabout.connect(and_also(url, PATIENT)) as mq:
        assert not mq.queue(name).receive(wait_seconds=0.5)
        (gone,) = processes(url, name)  # its row is still there, and nobody waits
        with waiting(url, name) as receiver:
            ask(url, "update turnabout.waiter set until = until + 60000 where process = %s", gone)
            queue.send("x")
            assert [m.text() for m in receiver.answer()] == ["x"]
            assert receiver.took < SOON


def test_what_a_killed_process_left_behind_costs_one_poll_and_is_swept(url, name, queue) -> None:
    insert = "insert into turnabout.waiter (process, queue, changes, until) values (%s, %s, 1, %s)"
    now = time.time_ns() // 1_000_000
    ask(url, insert, "dead", name, now + 600_000)
    ask(url, insert, "long-dead", name, now - 600_000)
    with turnabout.connect(and_also(url, "poll_seconds=0.2")) as mq:
        call = Beside(lambda: mq.queue(name).receive(wait_seconds=20))
        eventually(
            url,
            f"select 1 where not exists (select from ({ROWS}) r where process = 'long-dead')",
            name,
        )
        queue.send("x")
        assert len(call.answer()) == 1
        assert call.took < SOON
    assert processes(url, name) == []


def test_what_plain_sql_sends_is_found_by_polling_and_may_be_notified(url, name, queue) -> None:
    with turnabout.connect(url) as mq:
        call = Beside(lambda: mq.queue(name).receive(wait_seconds=20))
        eventually(url, ROWS, name)
        ask(url, "select turnabout.send(%s, 'x'::text, delay_seconds => 0.5)", name)
        assert len(call.answer()) == 1
        assert call.took < SOON
    with waiting(url, name) as receiver:
        ask(url, "select turnabout.send(%s, 'y'::text)", name)
        ask(url, "select turnabout.notify_waiters(%s)", name)
        assert len(receiver.answer()) == 1
        assert receiver.took < SOON


def test_an_open_transaction_that_sends_takes_nobody_from_others(url, name, queue) -> None:
    with psycopg.connect(url) as connection, waiting(url, name) as receiver:
        held = queue.within(connection)
        held.send("held")
        queue.send("free")
        assert [m.text() for m in receiver.answer()] == ["free"]
        assert receiver.took < SOON
        connection.commit()
        assert [m.text() for m in queue.receive()] == ["held"]


def test_a_crash_of_the_server_s_memory_is_survived(url, name, queue) -> None:
    """The table of those who wait is unlogged: as after a crash, it is empty."""
    with turnabout.connect(and_also(url, "poll_seconds=0.2")) as mq:
        call = Beside(lambda: mq.queue(name).receive(wait_seconds=20))
        eventually(url, ROWS, name)
        time.sleep(0.1)
        ask(url, "truncate turnabout.waiter")
        queue.send("x")
        assert len(call.answer()) == 1
        assert call.took < SOON


def test_who_does_not_listen_has_one_connection(url, name) -> None:
    with turnabout.connect(and_also(url, "application_name=alone")) as mq:
        queue = mq.queue(name)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            queue.send("x")
            (message,) = queue.receive()
            message.ack()
            time.sleep(0.001)
        time.sleep(5 * PAUSE_SECONDS)
        assert ask(url, f"select count(*) {OTHERS} and application_name = 'alone'") == [(1,)]
    names = {thread.name for thread in threading.enumerate()}
    assert not any("Timer" in one for one in names)


def test_the_row_is_gone_with_the_connection(url, name, queue) -> None:
    with waiting(url, name) as receiver:
        assert processes(url, name)
    assert processes(url, name) == []
    assert len(receiver.answer()) == 0


def test_under_a_held_snapshot_rows_that_were_taken_do_not_pile_up(url: str, queue: Any) -> None:
    """Each sleep writes one, and each send takes one away."""
    row = ["me", [queue.name], [1]]
    waits = "select turnabout.add_waiters(%s, %s, %s, %s)"
    notify = "select * from turnabout.notify_waiters(%s, %s, array[1], array[null::text])"

    def blocks() -> int:
        asleep = touched(connection, waits, [*row, 60_000])
        return asleep.blocks + touched(connection, notify, row[1:]).blocks

    with psycopg.connect(url, autocommit=True) as connection, snapshot(url):
        blocks()
        few = blocks()
        for _ in range(1_000):
            connection.execute(waits, [*row, 20])
            connection.execute(notify, row[1:])
        connection.execute("select pg_sleep(0.03)")  # none of them would still be valid
        assert blocks() < few + 30


# --- what a process keeps to itself: no database is asked -----------------------------------------


def test_notices_of_a_moment_are_told_together() -> None:
    notices = Notices("me")
    assert notices.take(1.0) is None
    notices.add([Notice("b", Change.READY, 1)])
    assert notices.take(1.0) == (["b"], [1], [1], [None])
    notices.add([Notice("b", Change.READY, 2), Notice("a", Change.ENDED, 3)])
    notices.add([Notice("b", Change.READY, 3), Notice("a", Change.ENDED)])
    assert notices.take(1.0 + PAUSE_SECONDS / 2) is None
    assert notices.due_at == 1.0 + PAUSE_SECONDS
    told = notices.take(1.0 + PAUSE_SECONDS)
    assert told == (["a", "b"], [2, 1], [None, 5], [None, None])
    notices.add([Notice("b", Change.READY, 1, was_notified=True)])
    assert notices.take(9.0) == (["b"], [1], [1], ["me"])
    assert notices.due_at == math.inf
    notices.add([Notice("b", Change.ENDED, 1)])
    assert notices.due_at == 9.0 + ENDS_PAUSE_SECONDS
    notices.add([Notice("b")])
    assert notices.due_at == 9.0 + PAUSE_SECONDS
    notices.found(waiters=False)
    assert notices.due_at == 9.0 + ALONE_PAUSE_SECONDS
    notices.found(waiters=True)
    assert notices.due_at == 9.0 + PAUSE_SECONDS
    notices.forget()
    assert notices.take(9.0) is None


def test_a_row_is_written_again_once_it_was_taken() -> None:
    notifier = ListeningNotifier()
    place = ("q", Change.READY)
    assert notifier.want(place)
    places = notifier.to_write()
    assert places == [place]
    notifier.were_written(places)
    assert not notifier.want(place)
    assert not notifier.notified("q", Change.READY), "nobody waits: it is for somebody else"
    assert notifier.want(place)
    places = notifier.to_write()
    notifier.notified("q", Change.READY)  # before we know that it was written
    notifier.were_written(places)
    assert notifier.want(place)
