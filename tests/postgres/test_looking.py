"""A store looks now and then for what time has brought, and misses nothing by that."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.postgres import one_migrated_url
from turnabout.postgres.everyday import Shortcuts

START = 1_000_000


def test_at_an_instant_that_was_passed_in_it_looks_once_for_each_queue():
    shortcuts = Shortcuts()
    assert shortcuts.is_time_to_look("emails", START)
    assert not shortcuts.is_time_to_look("emails", START)
    assert shortcuts.is_time_to_look("other", START)
    assert shortcuts.is_time_to_look("emails", START + 1)


def test_without_a_given_clock_it_has_its_own():
    shortcuts = Shortcuts()
    assert {shortcuts.is_time_to_look("emails", None) for _ in range(1_000)} == {True, False}


def test_names_without_end_are_not_all_kept():
    shortcuts = Shortcuts()
    for number in range(5_000):
        shortcuts.is_time_to_look(f"q{number}", START)
    assert not shortcuts.is_time_to_look("q4999", START)
    assert shortcuts.is_time_to_look("q0", START)


url = one_migrated_url


@pytest.fixture
def db(url) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select turnabout.queue_create('looks')")
        yield connection
        connection.execute("select turnabout.queue_delete('looks')")


def send(db: psycopg.Connection[Any], payload: str, priority: int, delay: int) -> None:
    db.execute(
        "select ids from turnabout.send('looks', array[%s]::bytea[], priorities => %s,"
        " delays => %s, now_ms => %s)",
        [payload, [priority], [delay], START],
    )


def take(db: psycopg.Connection[Any], now: int, **more: Any) -> bytes | None:
    said = "".join(f", {name} => {value}" for name, value in more.items())
    statement = f"select payload from turnabout.receive('looks', 1, now_ms => %s{said})"
    ((payload,),) = db.execute(statement.encode(), [now]).fetchall()
    return payload


@pytest.mark.slow
def test_what_is_due_is_found_without_looking_if_nothing_else_is_there(db):
    send(db, "due", 0, 5)
    assert take(db, START + 4, check_due=False) is None
    assert take(db, START + 5, check_due=False) == b"due"


@pytest.mark.slow
def test_what_is_due_and_comes_first_is_found_by_looking(db):
    send(db, "ready", 1, 0)
    send(db, "due", 0, 5)
    send(db, "ready", 1, 0)
    assert take(db, START + 5, check_due=False) == b"ready"
    assert take(db, START + 5) == b"due"


@pytest.mark.slow
def test_what_has_expired_is_handed_out_by_nobody(db):
    db.execute(
        "select ids from turnabout.send('looks', '{old}'::bytea[], ttls => '{5}', now_ms => %s)",
        [START],
    )
    assert take(db, START + 5, check_due=False) is None
    ((count,),) = db.execute("select count(*) from turnabout.message").fetchall()
    assert count == 0
