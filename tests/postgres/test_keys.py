"""Dedup keys in open transactions: who waits for whom, for how long, and what they see then."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from tests.support.doors import START, migrate
from tests.support.postgres import fresh_database
from turnabout.postgres.revision import rendered

pytestmark = pytest.mark.slow  # a database for each

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def url(postgres_server) -> Iterator[str]:
    with fresh_database(postgres_server, fill=migrate) as url:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("select turnabout.queue_create('q')")
        yield url


@pytest.fixture
def pair(url) -> Iterator[tuple[Connection, Connection]]:
    """Two connections, each in a transaction from its first statement on."""
    with psycopg.connect(url) as one, psycopg.connect(url) as two:
        for db in (one, two):
            db.execute("set statement_timeout = '40s'")
            db.commit()
        yield one, two
        one.rollback()
        two.rollback()


def keyed(db: Connection, *keys: str, mode: str = "window", queue: str = "q") -> list[Any]:
    """Ids, and the places of those that were suppressed."""
    ((ids, duplicates),) = db.execute(
        "select ids, duplicates from turnabout.send(%s, %s::bytea[], now_ms => %s,"
        " dedup_keys => %s, dedup_modes => %s)",
        [queue, [b"x"] * len(keys), START, list(keys), [mode] * len(keys)],
    )
    return [ids, duplicates]


def written(db: Connection) -> None:
    """The transaction holds something that others may wait for."""
    db.execute("select pg_current_xact_id()")


def waits(db: Connection, watched: Connection) -> None:
    """Until the server says that the other one waits for a lock."""
    for _ in range(500):
        ((waiting,),) = db.execute(
            "select count(*) from pg_locks where not granted and pid = %s",
            [watched.info.backend_pid],
        )
        if waiting:
            return
        time.sleep(0.01)
    pytest.fail("nobody waited")


def test_a_second_send_does_not_wait_even_if_the_first_wrote_nothing(pair):
    """It holds the first one's key: two that take keys in turn must not wait for each other."""
    one, two = pair
    keyed(one, "a")
    one.commit()
    assert keyed(one, "a")[1] == [0], "nothing is written"
    keyed(two, "b")
    with pytest.raises(LockNotAvailable):
        keyed(two, "a")
    two.rollback()
    assert keyed(one, "b")[1] is None


def test_thousands_of_keys_in_one_send_fit_into_the_lock_table(pair):
    one, two = pair
    many = [f"many-{n}" for n in range(10_000)]
    ids, duplicates = keyed(one, *many)
    assert (len(set(ids)), duplicates) == (10_000, None)
    ((locks,),) = one.execute("select count(*) from pg_locks where pid = pg_backend_pid()")
    assert locks < 200
    written(two)
    with pytest.raises(LockNotAvailable):  # it holds all of the queue's keys
        keyed(two, "many-5")
    two.rollback()
    one.commit()
    assert keyed(two, "many-5") == [[ids[5]], [0]]


@pytest.mark.parametrize("mode", ["rerun", "until_started", "latest"])
def test_nobody_starts_on_a_message_that_a_later_send_stands_on(pair, mode):
    """The sender's rows are not committed yet: work that began now would not see them."""
    one, two = pair
    queue = f"stands-{mode}"
    one.execute("select turnabout.queue_create(%s)", [queue])
    (number,), _ = keyed(one, "k", mode=mode, queue=queue)
    one.commit()
    assert keyed(one, "k", mode=mode, queue=queue)[0] == [number]
    take = "select id from turnabout.receive(%s, 1, now_ms => %s)"
    assert two.execute(take, [queue, START]).fetchall() == [(None,)]
    two.commit()
    one.commit()
    assert two.execute(take, [queue, START]).fetchall() == [(number,)]


@pytest.mark.parametrize("mode", ["rerun", "until_started", "latest"])
def test_a_message_that_somebody_is_taking_counts_as_taken(pair, mode):
    one, two = pair
    queue = f"taken-{mode}"
    one.execute("select turnabout.queue_create(%s)", [queue])
    (number,), _ = keyed(one, "k", mode=mode, queue=queue)
    one.commit()
    two.execute("select id from turnabout.receive(%s, 1, now_ms => %s)", [queue, START])
    (other,), duplicates = keyed(one, "k", mode=mode, queue=queue)
    assert other != number
    assert duplicates is None


def test_a_refusal_takes_all_back_and_frees_nothing_it_should_not(url):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("select turnabout.queue_create('small', '{\"max_messages\": 2}')")
        answer = db.execute(
            "select ids, full_channel, max_size, size from turnabout.send('small',"
            " '{a,b,c,d}'::bytea[], dedup_keys => array['1', '1', '2', '3'])"
        ).fetchone()
        assert answer == (None, None, 2, 0)
        ((rows, entries),) = db.execute(
            "select (select count(*) from turnabout.message m join turnabout.queue q"
            " on q.id = m.queue_id where q.name = 'small'), (select count(*) from turnabout.dedup d"
            " join turnabout.queue q on q.id = d.queue_id where q.name = 'small')"
        )
        assert (rows, entries) == (0, 0)
        ((ids,),) = db.execute(
            "select ids from turnabout.send('small', '{a,b,c}'::bytea[],"
            " dedup_keys => array['1', '1', '2'])"
        )
        assert len(set(ids)) == 2


def test_who_deletes_the_queue_waits_for_senders_and_not_between_them(url, pair):
    one, two = pair
    one.execute("select turnabout.queue_create('gone')")
    keyed(one, "a", "b", mode="sliding", queue="gone")
    one.commit()
    keyed(one, "b", mode="sliding", queue="gone")  # its entry is held
    thread = threading.Thread(target=two.execute, args=["select turnabout.queue_delete('gone')"])
    thread.start()
    with psycopg.connect(url, autocommit=True) as third:
        for _ in range(500):
            ((state,),) = third.execute(
                "select wait_event from pg_stat_activity where pid = %s", [two.info.backend_pid]
            )
            if state in ("advisory", "transactionid"):
                break
            time.sleep(0.01)
    _, duplicates = keyed(one, "a", mode="sliding", queue="gone")
    assert duplicates == [0]
    one.commit()
    thread.join(60)
    two.commit()
    assert two.execute("select from turnabout.queue where name = 'gone'").fetchone() is None


def test_publishing_has_time_to_wait_for_a_key(url, pair):
    one, two = pair
    with psycopg.connect(url, autocommit=True) as third:
        third.execute(
            rendered(
                "select turnabout_pipeline.stage('s', '{q}', '{1}', '{x}', 'text/plain',"
                " dedup_keys => '{slow}', dedup_modes => '{window}')"
            )
        )
        keyed(one, "slow")
        answer: list[Any] = []
        publish = rendered(
            "select state, duplicates from turnabout_pipeline.publish('sink', 0, '{s}', 1, %s)"
        )
        thread = threading.Thread(
            target=lambda: answer.extend(two.execute(publish, [START]).fetchall())
        )
        thread.start()
        waits(third, two)
        time.sleep(0.1)
        one.commit()
        thread.join(60)
    assert answer == [("published", 1)]
