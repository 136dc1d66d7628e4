"""History in days: partitions are made ahead and dropped, and nobody waits for either."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import turnabout
from tests.support.doors import START, Clock
from tests.support.postgres import migrated_url
from tests.support.until import until

pytestmark = pytest.mark.slow  # a database for each

Connection = psycopg.Connection[Any]
DAY = 86_400_000
TODAY = START // DAY * DAY
numbers = itertools.count(1)


url = migrated_url


@pytest.fixture
def db(url) -> Iterator[Connection]:
    """Without the days that the install has made: here it is 2027."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in days(connection):
            if name != "history_default":
                connection.execute(f"drop table turnabout.{name}")
        create(connection)
        yield connection


def create(db: Connection, queue: str = "q", settings: str = "{}") -> None:
    db.execute("select turnabout.queue_create(%s, %s)", [queue, settings])


def maintained(db: Connection, now: int, times: int = 4) -> None:
    """The days, without the haste that leaves dropping to one `maintain` in fifty."""
    for _ in range(times):
        db.execute("select turnabout.maintain_days(%s, false)", [now])


def days(db: Connection) -> list[str]:
    rows = db.execute(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'turnabout.history'::regclass order by 1"
    )
    return [name for (name,) in rows]


def ended(db: Connection, at: int, queue: str = "q") -> str:
    """One message, done at that time; the partition that has it."""
    db.execute("select turnabout.send(%s, %s::bytea[], now_ms => %s)", [queue, [b"x"], at])
    ((number, attempt),) = db.execute(
        "select id, attempt from turnabout.receive(%s, 1, now_ms => %s)", [queue, at]
    )
    db.execute("select turnabout.ack(%s, %s, %s, %s)", [queue, [number], [attempt], at])
    ((name,),) = db.execute(
        "select tableoid::regclass::text from turnabout.history where id = %s", [number]
    )
    return name.removeprefix("turnabout.")


def known(db: Connection, now: int, queue: str = "q") -> int:
    (row,) = db.execute(
        "select count(*) from turnabout.history(%s, 1000, now_ms => %s)", [queue, now]
    )
    return row[0]


def test_three_days_are_made_and_history_goes_there(db):
    assert days(db) == ["history_default"]
    assert ended(db, START - 5 * DAY) == "history_default"
    maintained(db, START)
    made = days(db)[:-1]
    assert made == ["history_20270115", "history_20270116", "history_20270117"]
    for n, name in enumerate(made):
        assert ended(db, TODAY + n * DAY) == name
        assert ended(db, TODAY + (n + 1) * DAY - 1) == name
    assert ended(db, TODAY + 3 * DAY) == "history_default"
    assert known(db, START) == 8


def test_every_maintain_makes_them(db):
    for _ in range(3):
        db.execute("select turnabout.maintain('q', %s)", [START])
    assert len(days(db)) == 4


def test_a_day_that_has_rows_elsewhere_is_not_made(db):
    ended(db, START)
    maintained(db, START)
    assert "history_20270115" not in days(db)
    assert ended(db, START) == "history_default"
    assert ended(db, START + DAY) == "history_20270116", "the days after it are made"


def test_an_install_makes_the_first_days(url):
    with psycopg.connect(url, autocommit=True) as fresh:
        ((today,),) = fresh.execute(
            "select split_part(turnabout.day_name(turnabout.clock_ms()), '.', 2)"
        )
        made = days(fresh)
        assert len(made) == 4
        assert made[0] <= today <= made[1], "unless midnight has just passed, the first"


def test_what_no_queue_keeps_is_dropped(db):
    create(db, "other", '{"history_ms": 0, "history_failed_ms": 864000000}')
    maintained(db, START)
    ended(db, START)
    maintained(db, TODAY + 10 * DAY)
    assert "history_20270115" in days(db), "the other queue keeps what failed for ten days"
    maintained(db, TODAY + 11 * DAY + 1)
    assert "history_20270115" not in days(db)
    assert "history_20270116" in days(db)
    assert "history_default" in days(db)


def test_rows_too_old_are_not_shown_before_their_day_is_dropped(db):
    maintained(db, START)
    ended(db, START)
    week = 7 * DAY
    assert known(db, START + week) == 1
    assert known(db, START + week + 1) == 0
    ((outcome,),) = db.execute(
        "select outcome from turnabout.endings('q', array(select id from turnabout.history), %s)",
        [START + week + 1],
    )
    assert outcome == "unknown"
    db.execute("select turnabout.maintain('q', %s)", [START + week + 1])
    ((left,),) = db.execute("select count(*) from turnabout.history")
    assert left == 1, "it goes with its day"
    db.execute("select turnabout.maintain('q', %s)", [START + week + 2 * DAY + 1])
    ((left,),) = db.execute("select count(*) from turnabout.history")
    assert left == 0, "or alone, if its day could not be dropped for long"


def test_short_histories_are_swept_row_by_row(db):
    create(db, "short", '{"history_ms": 1000, "history_failed_ms": 5000}')
    ended(db, START, "short")
    ((number,),) = db.execute(
        "select unnest(ids) from turnabout.send('short', '{x}'::bytea[], now_ms => %s)", [START]
    )
    db.execute("select turnabout.cancel('short', %s, %s)", [[number], START])
    for now, left in ((1_000, 2), (1_001, 1), (5_000, 1), (5_001, 0)):
        db.execute("select turnabout.maintain('short', %s)", [START + now])
        ((rows,),) = db.execute("select count(*) from turnabout.history")
        assert rows == left, now


def test_an_open_transaction_keeps_nobody(db, url):
    """Making and dropping give up at once, and those who write history go on."""
    maintained(db, START)
    with psycopg.connect(url) as other:
        ended(other, START)  # holds what a drop needs
        other.execute("select from turnabout.history_default")  # and what making a day needs
        before = days(db)
        db.execute("set statement_timeout = '2s'")
        maintained(db, TODAY + 30 * DAY, times=2)
        assert days(db) == before
        assert ended(db, START)
        other.rollback()
    maintained(db, TODAY + 30 * DAY)
    assert days(db) != before


def test_an_end_that_meets_a_day_being_made_is_repeated(db, url):
    """It was to stand in the default partition, which may no longer have it."""
    with (
        turnabout.connect(url, clock=Clock()) as mq,
        psycopg.connect(url) as maker,
        ThreadPoolExecutor(1) as other,
    ):
        mq.queue("q").send("x")
        (held,) = mq.queue("q").receive()
        maker.execute("select turnabout.make_day(%s)", [TODAY])
        acked = other.submit(held.ack)
        waits = "select count(*) from pg_locks where not granted"
        until(lambda: acked.done() or db.execute(waits).fetchone() != (0,))
        maker.commit()
        assert acked.result(10) == turnabout.Acked()
        assert [e.outcome for e in mq.queue("q").history().entries] == ["done"]


def test_who_is_not_the_owner_leaves_days_alone(db):
    role = f"turnabout_days_{next(numbers)}"
    db.execute(f"create role {role}")
    try:
        db.execute(f"grant usage on schema turnabout to {role}")
        db.execute(f"grant execute on all functions in schema turnabout to {role}")
        db.execute(f"grant select on all tables in schema turnabout to {role}")
        db.execute(f"set role {role}")
        db.execute("select turnabout.maintain_days(%s, false)", [START])
        db.execute("reset role")
        assert days(db) == ["history_default"]
    finally:
        db.execute("reset role")
        db.execute(f"drop owned by {role}")
        db.execute(f"drop role {role}")


def test_a_cursor_of_an_earlier_library_goes_on(db, url):
    """It has two numbers, and a page goes on behind all endings of that message then."""
    for _ in range(3):
        ended(db, START)
    with turnabout.connect(url, clock=Clock()) as mq:
        page = mq.queue("q").history(limit=1)
        assert page.cursor is not None
        at, number, rest = page.cursor.split(".", 2)
        assert rest.endswith(".1.1"), "the attempt, and the outcome's number"
        rest = mq.queue("q").history(cursor=f"{at}.{number}")
        assert rest == mq.queue("q").history(cursor=page.cursor)
        assert len(rest.entries) == 2
