"""`doctor` on a PostgreSQL server: what it finds, and that it finds nothing where all is well."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

import turnabout
from tests.support.postgres import Server, migrated_url
from turnabout.cli import main
from turnabout.cli._check import check_of
from turnabout.postgres import doctor

pytestmark = pytest.mark.slow


url = migrated_url
NOW = 1_700_000_000_000
EMPTY = """
truncate turnabout.built, turnabout.ready, turnabout.scheduled, turnabout.lease,
    turnabout.extension, turnabout.slot
"""
"""What a crash of the server does."""


@pytest.fixture
def used(url: str) -> str:
    """A database with messages of every kind, limited and not."""
    with turnabout.connect(url) as opened:
        queue = opened.queue("q")
        queue.create(max_attempts=1)
        queue.channel("c").set_policy(turnabout.Policy(max_concurrency=1))
        queue.send_many([turnabout.message(str(n), channel="cd"[n % 2]) for n in range(8)])
        first, second, *_ = queue.receive(4)
        first.ack()
        second.fail(retry=False)
    return url


def levels(url: str, code: int = 0) -> dict[str, str]:
    result = CliRunner().invoke(main, ["doctor", "--json", "--url", url])
    assert result.exit_code == code, result.output
    found: dict[str, str] = {}
    for check in json.loads(result.stdout)["checks"]:
        if found.get(check["name"]) != "fail":
            found[check["name"]] = check["level"]
    return found


def test_all_is_well(used: str) -> None:
    found = levels(used)
    assert "fail" not in found.values()
    for name in ("PostgreSQL", "pooler", "LISTEN", "counts", "leases", "way out", "schema"):
        assert found[name] == "ok", name


def test_a_database_that_is_not_migrated(postgres_url: str) -> None:
    found = levels(postgres_url, code=1)
    assert found["schema"] == "fail"
    assert "counts" not in found


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (
            "insert into turnabout.tally (queue_id, sent) select id, 1 from turnabout.queue",
            "counts",
        ),
        (
            "delete from turnabout.message where id = (select max(id) from turnabout.message)",
            "counts",
        ),
        ("delete from turnabout.channel; delete from turnabout.wake", "way out"),
        ("update turnabout.message set queue_id = 99", "way out"),
        (
            (
                "update turnabout.channel set awake = false, wake_at = null;"
                "delete from turnabout.wake;"
                "delete from turnabout.lease;"
                "delete from turnabout.slot"
            ),
            "way out",
        ),
    ],
)
def test_damage(used: str, damage: Any, check: str) -> None:
    with psycopg.connect(used) as db:
        db.execute(damage)
    assert levels(used, code=1)[check] == "fail"


def test_leases_that_nobody_takes_back(used: str) -> None:
    with psycopg.connect(used) as db:
        db.execute("update turnabout.lease set until = 1")
        db.execute("update turnabout.message set sent_at = 1")
    found = levels(used)
    assert (found["leases"], found["waiting"]) == ("warn", "warn")


def test_an_old_transaction(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "TRANSACTION_OLD_SECONDS", -1)
    with psycopg.connect(url, application_name="forgotten") as other:
        other.execute("select 1")
        with psycopg.connect(url, autocommit=True) as db:
            check = check_of(next(doctor.of_transactions(db)))
    assert check.level == "warn"
    assert "forgotten" in check.text
    assert "pg_terminate_backend" in check.todo


def test_deadlocks_that_the_server_has_broken(url: str) -> None:
    with (
        psycopg.connect(url, application_name="one") as one,
        psycopg.connect(url) as other,
        psycopg.connect(url, autocommit=True) as db,
    ):
        assert "deadlocks" in {found.name for found in doctor.of_transactions(db)}
        one.execute("set deadlock_timeout = '1s'")
        other.execute("set deadlock_timeout = '5ms'")  # so it is this one that is broken
        one.execute("select pg_advisory_xact_lock(1)")
        other.execute("select pg_advisory_xact_lock(2)")
        waits = threading.Thread(target=one.execute, args=["select pg_advisory_xact_lock(2)"])
        waits.start()
        while not db.execute("select 1 from pg_locks where not granted").fetchone():
            pass
        with pytest.raises(psycopg.errors.DeadlockDetected):
            other.execute("select pg_advisory_xact_lock(1)")
        broken = other.info.backend_pid
        other.close()  # tells its counts when its server's process ends
        waits.join(20)
        gone = "select not exists (select from pg_stat_activity where pid = %s)"
        while db.execute(gone, [broken]).fetchone() != (True,):
            pass
        *_, found = doctor.of_transactions(db)
        check = check_of(found)
    assert check.level == "warn"
    assert "has broken 1 deadlock in" in check.text


def test_two_clients_that_share_a_session_have_a_pooler(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        (check,) = map(check_of, doctor.of_pooler(db, db))
    assert "transaction pooler" in check.text


class Forgetful:
    """The second client of a pooler that gives the first one another server meanwhile, and forgets
    what was prepared.
    """

    def __init__(self, first: doctor.Db, second: doctor.Db) -> None:
        self._first, self.execute = first, second.execute
        self._transaction = second.transaction

    def transaction(self) -> Any:
        self._first.pgconn.exec_(b"deallocate all")
        return self._transaction()


def test_a_pooler_that_forgets_what_was_prepared(url: str) -> None:
    with (
        psycopg.connect(url, autocommit=True) as first,
        psycopg.connect(url, autocommit=True) as second,
    ):
        other: Any = Forgetful(first, second)
        for prepares, level in ((True, "warn"), (False, "ok")):
            first.execute("prepare _pg3_0 as select 1")  # another client's
            (check,) = map(check_of, doctor.of_pooler(first, other, prepares=prepares))
            assert (check.name, check.level) == ("pooler", level)
            assert "prepare=off" in check.text + check.todo


def test_notifications_that_do_not_arrive(
    url: str, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay within a database, so another one is as deaf as a pooler."""
    monkeypatch.setattr(doctor, "NOTIFY_SECONDS", 0.1)
    with (
        psycopg.connect(url, autocommit=True) as first,
        psycopg.connect(postgres_server.url(), autocommit=True) as second,
    ):
        (check,) = map(check_of, doctor.of_listen(first, second))
    assert check.level == "warn"
    assert "poll instead" in check.todo


def test_after_a_crash_of_the_server(used: str) -> None:
    with psycopg.connect(used) as db:
        db.execute(EMPTY)
    found = levels(used)
    assert found["unlogged tables"] == "warn"
    assert {found[name] for name in ("counts", "way out", "orphans", "entries")} == {"ok"}
    with turnabout.connect(used) as opened:
        opened.queue("q").peek()
    assert levels(used)["unlogged tables"] == "ok"


def test_messages_that_stand_nowhere_are_put_back_as_doctor_says(used: str) -> None:
    with psycopg.connect(used, autocommit=True) as db:
        db.execute("delete from turnabout.ready where not limited")
        (found,) = [one for one in doctor.of_queues(db, NOW) if one.name == "orphans"]
        check = check_of(found)
        assert (check.level, check.text[-3:]) == ("warn", ": 2")
        db.execute(check.todo.partition("At once: ")[2].encode())
    assert levels(used)["orphans"] == "ok"


def test_doctor_changes_nothing(used: str) -> None:
    look = (
        "select count(*), max(at), (select max(until) from turnabout.lease) from turnabout.message"
    )
    with psycopg.connect(used) as db:
        before = db.execute(look).fetchone()
    levels(used)
    with psycopg.connect(used) as db:
        assert db.execute(look).fetchone() == before
