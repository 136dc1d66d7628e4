"""What is this store's own in the life of a message: its migration, remembered settings, sweeps."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tests.sqlite.support import held_at_commit, one, sent_in, until
from tests.support.doors import START, Clock
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Failure, Outgoing
from turnabout.words.errors import QueueNotFound
from turnabout.words.outcomes import Retrying
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import (
    Ack,
    Cancel,
    Clear,
    Fail,
    History,
    Maintain,
    Peek,
    QueueCreate,
    QueueUpdate,
    Receive,
    RedriveStart,
    Send,
    Stats,
)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timed(url, clock):
    store = SqliteStore(url, clock=clock)
    yield store
    store.close()


@pytest.fixture
def memory(clock):
    """In memory, nothing but this process makes news."""
    store = SqliteStore("sqlite://", clock=clock)
    yield store
    store.close()


def by_hand(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


# --- settings that are remembered ---


def lease_of(store):
    return store.run(Receive("q", 1)).deliveries[0].lease_ms


def test_settings_are_those_of_now_whoever_has_changed_them(store, url, path):
    store.run(Send("q", tuple(Outgoing(b"x") for _ in range(9))))
    assert lease_of(store) == 30_000
    with closing(SqliteStore(url)) as other:
        other.run(QueueUpdate("q", {"lease_seconds": 5.0}))
        assert lease_of(store) == 5_000
        store.run(QueueUpdate("q", {"lease_seconds": 6.0}))
        assert lease_of(other) == 6_000
    by_hand(path, "update turnabout_queue set lease_ms = 7000")
    assert lease_of(store) == 7_000


def test_settings_that_were_rolled_back_are_forgotten(store):
    store.run(Send("q", tuple(Outgoing(b"x") for _ in range(9))))
    undone = (QueueUpdate("q", {"lease_seconds": 5.0}), Receive("q", 1), Receive("nosuch", 1))
    with pytest.raises(QueueNotFound):
        store.run_transaction(undone)
    assert lease_of(store) == 30_000
    store.run(QueueUpdate("q", {"delay_seconds": 1.0}))
    assert lease_of(store) == 30_000


def test_a_queue_made_in_vain_is_not_taken_for_the_next_one(store):
    slow = QueueCreate("q", QueueSettings(lease_seconds=99))
    with pytest.raises(QueueNotFound):
        store.run_transaction((slow, Send("q", (Outgoing(b"x"),)), Receive("nosuch", 1)))
    store.run(one())
    assert lease_of(store) == 30_000


# --- together ---


async def test_a_cancelled_batch_gives_back_what_it_leased(url) -> None:
    store = AsyncSqliteStore(url)
    await store.run(one())
    with held_at_commit(store) as committing:
        task = asyncio.create_task(store.run_transaction((one(), Receive("q", 2))))
        await until(committing.is_set)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        while (await store.run(Stats("q")))[0].ready != 2:  # noqa: ASYNC110 - a thread does it
            await asyncio.sleep(0.001)
    assert (await store.run(Peek("q")))[0].attempt == 1
    await store.close()


# --- news ---


def test_an_ending_is_news_whichever_verb_finds_it(memory, clock):
    memory.run(QueueCreate("q", QueueSettings(max_attempts=1)))
    memory.run(Send("q", (Outgoing(b"x"), Outgoing(b"y", ttl_ms=1))))
    seen = [memory.signal("q")]
    memory.run(Receive("q", 1, lease_ms=1_000))
    memory.run(Maintain("q"))
    assert memory.signal("q") == seen[0], "a lease alone is none"
    clock.now += 1
    memory.run(Maintain("q"))  # one has expired
    seen.append(memory.signal("q"))
    clock.now += 1_000
    memory.run(Receive("q", 1))  # the other is dead
    seen.append(memory.signal("q"))
    assert len(set(seen)) == 3


def test_a_redrive_is_news_of_both_queues(memory):
    memory.run(one())
    receipt = memory.run(Receive("q", 1)).deliveries[0].receipt
    memory.run(Fail("q", (Failure(receipt, retry=False),)))
    seen = [memory.signal("q"), memory.signal("q-dead")]
    memory.run(RedriveStart("q-dead"))
    memory.run(Maintain("q-dead"))
    assert sent_in(memory) == 2
    assert memory.signal("q") != seen[0]
    assert memory.signal("q-dead") != seen[1]


# --- sweeps ---


def ended(store, *, well):
    store.run(one())
    receipt = store.run(Receive("q", 1)).deliveries[0].receipt
    store.run(Ack("q", (receipt,)) if well else Fail("q", (Failure(receipt, retry=False),)))


def outcomes(store):
    return [entry.outcome for entry in store.run(History("q")).entries]


def test_what_stays_for_longer_is_in_nobody_s_way(timed, clock):
    timed.run(QueueCreate("q", QueueSettings(history_seconds=10, history_failed_seconds=100)))
    for well in (False, True, False, True):
        ended(timed, well=well)
    clock.now += 10_001
    ended(timed, well=True)
    timed.run(Maintain("q"))
    assert outcomes(timed) == ["done", "dead", "dead"]
    clock.now += 10_001
    timed.run(Maintain("q"))
    assert outcomes(timed) == ["dead", "dead"]
    clock.now += 90_000
    timed.run(Maintain("q"))
    assert outcomes(timed) == []


def test_what_stays_for_less_goes_before_the_others(timed, clock):
    timed.run(QueueCreate("q", QueueSettings(history_seconds=100, history_failed_seconds=10)))
    for well in (True, False, True):
        ended(timed, well=well)
    clock.now += 10_001
    timed.run(Maintain("q"))
    assert outcomes(timed) == ["done", "done"]
    timed.run(QueueUpdate("q", {"history_seconds": 5.0}))
    timed.run(Maintain("q"))
    assert outcomes(timed) == []


def test_maintain_writes_nothing_when_there_is_nothing_to_do(timed, clock, path):
    timed.run(QueueCreate("q", QueueSettings(events="all", history_seconds=10)))
    key = Outgoing(b"x", dedup_key="k", dedup_mode="until_finished")
    timed.run(Send("q", (Outgoing(b"x", ttl_ms=60_000), key)))
    ended(timed, well=True)
    timed.run(Maintain("q"))
    with closing(sqlite3.connect(path)) as other:
        (before,) = other.execute("pragma data_version").fetchone()
        timed.run(Maintain("q"))
        assert other.execute("pragma data_version").fetchone() == (before,)


def test_dedup_entries_go_with_what_they_stand_for(timed, clock, path):
    messages = [
        Outgoing(b"x", dedup_key="w", dedup_mode="window", dedup_window_ms=10_000),
        Outgoing(b"x", dedup_key="f", dedup_mode="until_finished"),
        Outgoing(b"x", dedup_key="stays", dedup_mode="until_finished"),
    ]
    ids = timed.run(Send("q", tuple(messages))).ids
    timed.run(Cancel("q", ids[:2]))
    clock.now += 10_000
    for _ in range(20):  # it looks from a place that chance chooses
        timed.run(Maintain("q"))
    assert by_hand(path, "select key from turnabout_dedup") == [("stays",)]


def test_a_clear_reaches_below_its_limit(timed):
    for well in (True, False, True):
        ended(timed, well=well)
    assert timed.run(Clear("q", "done", 10)).messages == 2
    assert outcomes(timed) == ["dead"]


def test_a_failed_attempt_of_a_joined_batch_is_seen_by_the_next_verb_of_it(timed):
    timed.run(one())
    receipt = timed.run(Receive("q", 1)).deliveries[0].receipt
    failed, again = timed.run_transaction(
        (Fail("q", (Failure(receipt, delay_ms=0),)), Receive("q", 1))
    )
    assert failed == (Retrying(START),)
    assert [d.attempt for d in again.deliveries] == [2]
