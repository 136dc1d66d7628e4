"""What of the pipeline's verbs is SQLite's own: its positions, its files, other programs on them.

What the verbs do on both stores is tested in tests/pipeline.
"""

import sqlite3
from contextlib import closing

import pytest

from tests.support.each import each
from turnabout import UsageError
from turnabout._connect import database
from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite import PROCEDURES
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import (
    Ack,
    QueueCreate,
    QueueDelete,
    Receive,
    Send,
)

DAY_MS = 86_400_000


class Timed:
    """A store, and its time."""

    def __init__(self, url: str) -> None:
        self.now = 1_000_000
        self.store = SqliteStore(url, clock=lambda: self.now)
        self.run = self.store.run

    def ended(self, queue: str, count: int) -> None:
        """So many messages are sent, and done."""
        self.run(Send(queue, tuple(Outgoing(b"x") for _ in range(count))))
        held = self.run(Receive(queue, count, 60_000)).deliveries
        self.run(Ack(queue, tuple(d.receipt for d in held)))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/app.db"


@pytest.fixture
def timed(url):
    made = Timed(f"{url}?synchronous=off")
    yield made
    made.store.close()


def test_every_verb_is_carried_out_and_none_is_news_of_a_queue_that_it_does_not_name():
    assert set(p.VERBS) == PROCEDURES.keys()
    assert not any(kind.notifies for kind in p.VERBS)


# --- which stores ---


@each(
    ("place", "why"),
    [
        ("sqlite://", "no other process reaches"),
        ("http://localhost:1", "the database itself, not on a server"),
        ("https://tbt_secret@host", "the database itself, not on a server"),
    ],
)
def test_what_a_pipeline_cannot_work_on(place, why):
    with pytest.raises(UsageError, match=why) as refused:
        database(place)
    assert "sqlite:///path/to/file.db or postgresql://" in str(refused.value)
    assert "secret" not in str(refused.value)


@each(
    "verb",
    [
        p.SubscriptionOpen("s", "tests"),
        p.EpochLease("s", 1, ("q",), 0, 1, 60_000),
        p.EpochPlan("s", 1, 1, 60_000, 3, ""),
        p.EpochExtend("s", 1, 60_000),
    ],
)
def test_a_file_gives_no_leases_by_the_batch_and_says_what_does(timed, verb):
    with pytest.raises(UsageError, match=r"a stream of leases needs PostgreSQL.*mode log"):
        timed.run(verb)
    assert timed.run(p.SubscriptionList()) == ()
    assert timed.run(p.SubscriptionRelease("s")) == 0


# --- positions ---


def test_a_position_names_the_queues_that_have_history_in_order_of_their_numbers(timed):
    for queue in ("b", "a", "c"):
        timed.run(QueueCreate(queue, QueueSettings()))
    timed.ended("c", 2)
    timed.ended("b", 3)
    assert timed.run(p.LogLook()) == p.LogState("1=3,5=2", "", None)
    assert timed.run(p.LogNext(p.START, 3)) == p.LogRange("", "1=2,5=1", 3, more=True)


def test_a_busy_queue_leaves_room_for_quiet_ones(timed):
    timed.ended("busy", 100)
    for n in range(4):
        timed.ended(f"quiet{n}", 2)
    span = timed.run(p.LogNext(p.START, 20))
    assert (span.messages, span.until) == (20, "1=12,3=2,5=2,7=2,9=2")


def test_fewer_rows_than_queues_are_taken_where_most_has_come_together(timed):
    timed.ended("a", 1)
    timed.ended("b", 5)
    timed.ended("c", 2)
    assert timed.run(p.LogNext(p.START, 1)).until == "3=1"


def test_places_without_a_row_are_no_rows(timed):
    timed.run(QueueCreate("q", QueueSettings(history_seconds=0)))
    timed.ended("q", 3)
    assert timed.run(p.LogNext(p.START)) == p.LogRange("", "", 0)
    with closing(sqlite3.connect(timed.store._place.path)) as file, file:
        file.execute("update turnabout_queue set history_ms = 1000, version = random()")
    timed.ended("q", 2)
    span = timed.run(p.LogNext(p.START))
    assert (span.until, span.messages) == ("1=5", 2)
    assert [part.messages for part in timed.run(p.LogCut("", "1=5", 5))] == [1, 1]


def test_a_deleted_queue_is_lost_to_who_had_not_read_it_and_no_other(timed):
    timed.ended("gone", 2)
    timed.ended("kept", 1)
    some, end = timed.run(p.LogNext(p.START, 2)).until, timed.run(p.LogLook()).end
    assert (some, end) == ("1=1,3=1", "1=2,3=1")
    timed.run(QueueDelete("gone"))
    assert timed.run(p.LogNext(some)) == p.LogLost("1=2")
    assert timed.run(p.LogNext(end)) == p.LogRange(end, end, 0)
    assert timed.run(p.LogNext("1=3,3=1")) == p.LogAhead(end)
    assert timed.run(p.LogNext(p.START)) == p.LogRange("", end, 1)
    timed.ended("kept", 1)
    assert timed.run(p.LogNext(some, ignore_loss=True)).until == "1=2,3=2"


def test_an_instant_is_found_by_halving(timed):
    for n in range(50):
        timed.ended("q", 1)
        if n % 3 == 0:
            timed.now += 10
    for at in range(1_000_000 - 1, 1_000_000 + 200):
        before = timed.run(p.LogAt(at)) or "1=0"
        with closing(sqlite3.connect(timed.store._place.path)) as file:
            statement = "select count(*) from turnabout_history where finished_at < ?"
            assert before == f"1={file.execute(statement, (at,)).fetchone()[0]}"


# --- a large file ---


def test_of_many_queues_the_next_rows_are_found_at_once(timed):
    """Each queue costs a look at its end and at its next place, whatever is in it."""
    queues, rows = 100, 300
    for n in range(queues):
        timed.run(QueueCreate(f"q{n}", QueueSettings()))
    with closing(sqlite3.connect(timed.store._place.path)) as file, file:
        file.execute(
            "insert into turnabout_history ("
            "queue_id, seq, id, channel, outcome, attempt, failures, crashes,"
            " sent_at, finished_at) with recursive n (n) as (select 1 union all select n + 1 from n"
            " where n < ?) select q.id, n, n, '', 'done', 1, 0, 0, 0, 0 from turnabout_queue q, n",
            (rows,),
        )
        file.execute("update turnabout_queue set done = ?", (rows,))
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    span = timed.run(p.LogNext(p.START, 1_000))  # opens the reader
    timed.store._opened._reader.set_progress_handler(count, 100)
    assert timed.run(p.LogNext(p.START, 1_000)) == span
    assert span.messages == 1_000
    assert steps * 100 < 100_000, "not by reading 60,000 rows"


# --- others who wait ---


def test_who_waits_for_messages_hears_of_those_that_are_published(timed):
    timed.run(p.Stage("a", (p.StagedMessages("q", [b"y"]),)))
    told = timed.store._opened.writer.connection.to_notify
    timed.run(p.Publish("sink", 0, ("a",), 1))
    assert "q" in told


def test_one_note_of_a_sink_is_kept(timed):
    for batch in range(5):
        timed.run(p.Publish("sink", batch, (), 0))
    assert timed.run(p.Publish("sink", 4, (), 0)) == p.AlreadyPublished(0)
    assert timed.run(p.Publish("sink", 2, (), 0)) == p.PublishedLater(4)
    with closing(sqlite3.connect(timed.store._place.path)) as file:
        assert file.execute("select batch from turnabout_sink_batch").fetchall() == [(4,)]
