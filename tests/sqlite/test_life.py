"""What is this store's own in the life of a message: its migration, remembered settings, sweeps."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from tests.sqlite.support import one, sent_in
from turnabout.sqlite import _schema
from turnabout.sqlite.async_store import AsyncSqliteStore
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Failure, Outgoing, Receipt
from turnabout.words.errors import QueueNotFound
from turnabout.words.outcomes import Acked, Retrying
from turnabout.words.policy import QueueSettings
from turnabout.words.records import Result
from turnabout.words.verbs import (
    Ack,
    Cancel,
    Clear,
    Endings,
    Fail,
    History,
    Maintain,
    Peek,
    QueueCreate,
    QueueGet,
    QueueUpdate,
    Receive,
    RedriveStart,
    RedriveStep,
    Send,
    Stats,
)

NOW = 1_800_000_000_000


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


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


# --- migration ---

FIRST = """
insert into queue (id, name, created_at, lease_ms, max_attempts, backoff_ms, backoff_max_ms,
  backoff_jitter_percent, delay_ms, fifo, paused, dead_letter_id, history_ms, sent, done, dead,
  cancelled)
values
  (1, 'q', 1, 30000, 5, 1000, 3600000, 10, 0, 0, 0, 2, 604800000, 5, 1, 1, 1),
  (2, 'q-dead', 1, 30000, null, 1000, 3600000, 10, 0, 0, 0, null, 604800000, 1, 0, 0, 0);
insert into message (id, queue_id, status, limited, at, attempt, channel, priority, sent_at,
  leased_at, origin, content_type, payload)
values
  (2, 2, 0, 0, 0, 1, 'c', 0, 10, null, '{"queue": "q", "reason": "refused", "failures": 1,
    "crashes": 0, "died_at": 20, "first_error": "no", "last_error": "no"}', 'text/plain', x'32'),
  (4, 1, 2, 0, 1800000009000, 3, 'c', 0, 10, 11, null, 'text/plain', x'34'),
  (5, 1, 0, 0, 0, 0, 'c', 0, 10, null, null, 'text/plain', x'35');
insert into history (queue_id, seq, id, channel, outcome, attempt, failures, crashes, sent_at,
  leased_at, finished_at, error)
values
  (1, 1, 1, 'c', 'done', 1, 0, 0, 10, 11, 1799999999000, null),
  (1, 2, 2, 'c', 'dead', 1, 1, 0, 10, 11, 1799999999500, 'no'),
  (1, 3, 3, 'c', 'cancelled', 0, 0, 0, 10, null, 1799999999700, null);
"""


@pytest.fixture
def first(path):
    """A file that the first version of the library has left, with data in it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_schema.migrations()[0].sql + FIRST)
        connection.execute(f"pragma application_id = {_schema.APPLICATION_ID}")
        connection.execute("pragma user_version = 1")


@pytest.mark.usefixtures("first")
def test_a_file_of_the_first_version_goes_on_with_all_that_is_in_it(timed):
    (stats, dead) = timed.run(Stats())
    assert (stats.sent, stats.ready, stats.leased) == (5, 1, 1)
    assert (stats.done, stats.dead, stats.cancelled, stats.expired) == (1, 1, 1, 0)
    assert dead.ready == 1
    assert timed.run(QueueGet("q")).settings == QueueSettings()
    assert [(m.id, m.expires_at) for m in timed.run(Peek("q"))] == [(4, None), (5, None)]
    assert [e.id for e in timed.run(History("q")).entries] == [3, 2, 1]
    endings = timed.run(Endings("q", (1, 2, 3, 4, 6)))
    assert [e and e.outcome for e in endings] == ["done", "dead", "cancelled", None, None]
    assert timed.run(Ack("q", (Receipt(4, 3),), (Result(b"1", "text/plain"),))) == (Acked(),)
    assert [e.id for e in timed.run(History("q")).entries] == [4, 3, 2, 1]
    redrive = timed.run(RedriveStep(timed.run(RedriveStart("q-dead")).id))
    assert (redrive.state, redrive.moved) == ("done", 1)
    assert [d.id for d in timed.run(Receive("q", 9)).deliveries] == [2, 5]


@pytest.mark.usefixtures("first")
def test_the_first_version_finds_its_place_in_the_history_of_a_later_one(timed, clock, path):
    timed.run(Send("q", (Outgoing(b"x", ttl_ms=1),)))
    clock.now += 1
    timed.run(Receive("q", 1))
    assert timed.run(Stats("q"))[0].expired == 1
    ((last, counted),) = by_hand(
        path,
        "select max(seq), done + dead + cancelled from history join queue on queue.id = queue_id"
        " where name = 'q'",
    )
    assert last == counted, "it counts on from there, and knows of no other column"


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
    by_hand(path, "update queue set lease_ms = 7000")
    assert lease_of(store) == 7_000


def test_settings_that_were_rolled_back_are_forgotten(store):
    store.run(Send("q", tuple(Outgoing(b"x") for _ in range(9))))
    undone = (QueueUpdate("q", {"lease_seconds": 5.0}), Receive("q", 1), Receive("nosuch", 1))
    with pytest.raises(QueueNotFound):
        store.run_together(undone)
    assert lease_of(store) == 30_000
    store.run(QueueUpdate("q", {"delay_seconds": 1.0}))
    assert lease_of(store) == 30_000


def test_a_queue_made_in_vain_is_not_taken_for_the_next_one(store):
    slow = QueueCreate("q", QueueSettings(lease_seconds=99))
    with pytest.raises(QueueNotFound):
        store.run_together((slow, Send("q", (Outgoing(b"x"),)), Receive("nosuch", 1)))
    store.run(one())
    assert lease_of(store) == 30_000


# --- together ---


def test_a_cancelled_batch_gives_back_what_it_leased(url):
    async def main() -> None:
        store = AsyncSqliteStore(url)
        await store.run(one())
        with store._opened.writer._using:  # the writer's thread stops before its commit
            task = asyncio.create_task(store.run_together((one(), Receive("q", 2))))
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(1_000):
            (stats,) = await store.run(Stats("q"))
            if (stats.ready, stats.leased) == (2, 0):
                break
            await asyncio.sleep(0.001)
        assert (stats.ready, stats.leased) == (2, 0)
        assert (await store.run(Peek("q")))[0].attempt == 1
        await store.close()

    asyncio.run(main())


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


def test_tend_writes_nothing_when_there_is_nothing_to_do(timed, clock, path):
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
    assert by_hand(path, "select key from dedup") == [("stays",)]


def test_a_clear_reaches_below_its_limit(timed):
    for well in (True, False, True):
        ended(timed, well=well)
    assert timed.run(Clear("q", "done", 10)).messages == 2
    assert outcomes(timed) == ["dead"]


def test_a_failed_attempt_of_a_joined_batch_is_seen_by_the_next_verb_of_it(timed):
    timed.run(one())
    receipt = timed.run(Receive("q", 1)).deliveries[0].receipt
    failed, again = timed.run_together(
        (Fail("q", (Failure(receipt, delay_ms=0),)), Receive("q", 1))
    )
    assert failed == (Retrying(NOW),)
    assert [d.attempt for d in again.deliveries] == [2]
