"""The one writer: locks between processes, group commit between threads and between tasks."""

import asyncio
import sqlite3
import threading
import time

import pytest

from tests.sqlite.support import full, held_at_commit, one, sent_in, until
from turnabout.sqlite._writer import Pending
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing, Receipt
from turnabout.words.errors import Busy, QueueNotFound, StorageFull, UsageError
from turnabout.words.outcomes import Acked, LeaseLost, Sent
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import (
    Ack,
    Maintain,
    Peek,
    QueueCreate,
    QueueDelete,
    QueueGet,
    Receive,
    Send,
    Stats,
)

# --- locks ---


def test_a_held_lock_is_busy_after_busy_seconds_and_nothing_happened(url, path):
    store = SqliteStore(f"{url}?busy_seconds=0.2")
    store.run(one())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    begun = time.monotonic()
    with pytest.raises(Busy, match="busy_seconds"):
        store.run(one())
    assert 0.2 <= time.monotonic() - begun < 4
    assert sent_in(store) == 1, "reading waits for nobody"
    other.execute("rollback")
    other.close()
    store.run(one())
    assert sent_in(store) == 2
    store.close()


# --- group commit ---


def hold_writer(store: SqliteStore, callers: list[threading.Thread]) -> list[int]:
    """Let all callers hang their tickets on the line, then let go. The sizes of the commits."""
    writer = store._opened.writer
    sizes: list[int] = []
    committed = writer._committed

    def counted(tickets):
        sizes.append(len(tickets))
        committed(tickets)

    writer._committed = counted
    with writer._using:
        for caller in callers:
            caller.start()
        while len(writer._waiting) < len(callers) - 1:
            time.sleep(0.001)
    for caller in callers:
        caller.join()
    return sizes


def test_an_error_in_a_group_undoes_its_own_verb_alone(store):
    store.run(QueueCreate("x", QueueSettings()))
    errors = []

    def fails():
        try:
            store.run(QueueDelete("x-dead"))  # refused: it is the dead-letter queue of x
        except UsageError as error:
            errors.append(error)

    good = [threading.Thread(target=lambda: store.run(one())) for _ in range(5)]
    bad = [threading.Thread(target=fails) for _ in range(3)]
    sizes = hold_writer(store, [*good[:3], *bad, *good[3:]])
    assert sizes == [1, 7]
    assert len(errors) == 3
    assert sent_in(store) == 5


def carried_together(store: SqliteStore, *verbs) -> tuple[list, int]:
    """The answers or errors of verbs in one transaction, and how many were carried out for that."""
    writer = store._opened.writer
    carry, count = writer._run, [0]

    def counted(connection, verb):
        count[0] += 1
        return carry(connection, verb)

    writer._run = counted
    tickets = [Pending(verb) for verb in verbs]
    writer.commit(tickets)
    writer._run = carry
    return [ticket.error or ticket.answer for ticket in tickets], count[0]


def test_all_start_over_where_a_part_has_to_be_undone(store):
    store.run(Send("q", (Outgoing(b"1"), Outgoing(b"2"))))
    first, second = (d.receipt for d in store.run(Receive("q", 2)).deliveries)
    store.run(Ack("q", (first,)))
    verbs = (one(b"3"), Ack("q", (first, second)), one(b"4"))
    (sent, acked, _), carried = carried_together(store, *verbs)
    assert carried == 2 + 3
    assert acked == (LeaseLost("gone"), Acked())
    assert [(m.id, m.payload) for m in store.run(Peek("q", 9))] == [(3, b"3"), (4, b"4")]
    assert sent == Sent((3,)), "what was undone was never there"
    (stats,) = store.run(Stats("q"))
    assert (stats.sent, stats.done, stats.leased) == (4, 2, 0)


def test_a_lost_lease_alone_lets_nobody_start_over(store):
    store.run(one())
    receipt = store.run(Receive("q", 1)).deliveries[0].receipt
    store.run(Ack("q", (receipt,)))
    answers, carried = carried_together(store, Ack("q", (receipt,)), one())
    assert answers[0] == (LeaseLost("gone"),)
    assert carried == 2


def test_nor_does_an_error_before_anything_was_written(store):
    answers, carried = carried_together(store, one(), Receive("none", 1), one())
    assert isinstance(answers[1], QueueNotFound)
    assert carried == 3
    assert sent_in(store) == 2


def test_what_an_error_leaves_behind_is_undone(store):
    to_itself = QueueCreate("x", QueueSettings(dead_letter="x"))
    for others in ((), (one(), one())):
        answers, carried = carried_together(store, *others, to_itself)
        assert isinstance(answers[-1], UsageError)
        assert carried == 2 * len(answers)
        with pytest.raises(QueueNotFound):
            store.run(QueueGet("x"))
    assert sent_in(store) == 2


def test_a_bug_in_one_verb_of_a_group_is_its_own(store):
    store.run(one())
    errors = []

    def breaks():
        try:
            store.run(Receive("q", None))  # type: ignore[arg-type]
        except TypeError as error:
            errors.append(error)

    good = [threading.Thread(target=lambda: store.run(one())) for _ in range(4)]
    hold_writer(store, [*good[:2], threading.Thread(target=breaks), *good[2:]])
    assert len(errors) == 1
    assert sent_in(store) == 5


def test_more_than_64_verbs_take_more_commits(store):
    callers = [threading.Thread(target=lambda: store.run(one())) for _ in range(100)]
    assert hold_writer(store, callers) == [1, 64, 35]


def test_a_leader_that_is_interrupted_leaves_the_others_in_line(store):
    writer = store._opened.writer
    carry, interrupted = writer._run, []

    def interrupt_once(connection, verb):
        if not interrupted:
            interrupted.append(verb)
            raise KeyboardInterrupt
        return carry(connection, verb)

    def first():
        with pytest.raises(KeyboardInterrupt):
            store.run(one(b"first"))

    writer._run = interrupt_once
    others = [threading.Thread(target=lambda: store.run(one())) for _ in range(10)]
    hold_writer(store, [threading.Thread(target=first), *others])
    assert [m.payload for m in store.run(Peek("q", 100))] == [b"x"] * 10
    store.run(one())
    assert sent_in(store) == 11


def test_an_empty_list_touches_nothing(store):
    writer = store._opened.writer
    with writer._using:  # nobody can write now
        assert store.run(Send("q", ())) == Sent(())
        assert store.run(Ack("q", ())) == ()
    with pytest.raises(QueueNotFound):
        store.run(QueueGet("q"))


def test_a_receive_that_finds_nothing_writes_nothing(store):
    store.run(one())
    store.run(Receive("q", 1))
    before = store._opened.writer.connection.total_changes
    for _ in range(3):
        assert not store.run(Receive("q", 10)).deliveries
        store.run(Maintain("q"))
    assert store._opened.writer.connection.total_changes == before


# --- asyncio ---


async def test_async_verbs_are_committed_together(url) -> None:
    store = AsyncSqliteStore(url)
    await asyncio.gather(*(store.run(one()) for _ in range(200)))
    (stats,) = await store.run(Stats("q"))
    assert stats.sent == 200
    await store.close()
    with pytest.raises(UsageError, match="closed"):
        await store.run(one())


async def test_opening_waits_for_the_first_call(url, path) -> None:
    store = AsyncSqliteStore(url)
    assert not path.exists()
    await store.close()
    assert not path.exists()


async def test_what_a_cancelled_receive_leased_is_released(url) -> None:
    store = AsyncSqliteStore(url)
    await store.run(one())
    with held_at_commit(store) as committing:
        task = asyncio.create_task(store.run(Receive("q", 1)))
        await until(committing.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(60):
        while not (again := (await store.run(Receive("q", 1))).deliveries):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    (delivery,) = again
    assert (delivery.attempt, delivery.failures, delivery.crashes) == (2, 0, 0)
    receipt = Receipt(delivery.id, delivery.attempt)
    assert await store.run(Ack("q", (receipt,))) == (Acked(),)
    await store.close()


async def test_cancelled_calls_harm_nobody(url) -> None:
    store = AsyncSqliteStore(url)
    await store.run(one())
    for _ in range(20):
        tasks = [asyncio.create_task(store.run(one())) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, Sent) for answer in done[1::2])
    (stats,) = await store.run(Stats("q"))
    assert 101 <= stats.sent <= 201
    assert stats.sent == len(await store.run(Peek("q", 1000)))
    await store.close()


def test_a_full_disk_stops_a_send_and_not_the_ack_beside_it(url):
    store = SqliteStore(url)
    store.run(QueueCreate("q", QueueSettings(history_seconds=0)))
    store.run(one(b"x" * 100_000))
    (delivery,) = store.run(Receive("q", 1)).deliveries
    full(store)
    seen = []

    def too_much():
        try:
            store.run(one(b"x" * 500_000))
        except StorageFull:
            seen.append("full")

    def ack():
        seen.extend(store.run(Ack("q", (Receipt(delivery.id, delivery.attempt),))))

    idle = threading.Thread(target=lambda: store.run(Maintain("q")))
    hold_writer(store, [idle, threading.Thread(target=too_much), threading.Thread(target=ack)])
    assert sorted(map(str, seen)) == ["Acked()", "full"]
    store.close()


def test_a_full_disk_that_ends_the_callers_transaction_says_so(store, path):
    store.run(one())
    connection = sqlite3.connect(path)
    connection.execute("begin immediate")
    (pages,) = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages}")
    many = Send("q", tuple(Outgoing(b"x" * 9_000) for _ in range(9)))
    with pytest.raises(StorageFull, match="rolled back your whole transaction"):
        store.within(connection).run(many)
    assert not connection.in_transaction
    connection.close()
    assert sent_in(store) == 1
