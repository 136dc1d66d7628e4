"""`doctor` finds what is wrong, and says what to do. Here: in general, and in SQLite files."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import turnabout
from tests.support.command_line import Runner
from turnabout.cli._check import check_of
from turnabout.sqlite import doctor as doctor_sqlite
from turnabout.words import findings
from turnabout.words.findings import PROMISES, QueueCounts

Levels = dict[str, str]


@pytest.fixture
def levels(run: Runner) -> Callable[..., Levels]:
    """The level of each check, the worst one if it was said more than once."""

    def look(*words: str, code: int = 0) -> Levels:
        document = run("doctor", "--json", *words, code=code).document()
        assert document["ok"] is (code == 0)
        found: Levels = {}
        for check in document["checks"]:
            assert set(check) == {"name", "level", "text", "todo"}
            assert bool(check["todo"]) is (check["level"] != "ok")
            if found.get(check["name"]) != "fail":
                found[check["name"]] = check["level"]
        return found

    return look


@pytest.fixture
def used(opened: turnabout.Turnabout) -> turnabout.Queue:
    """A queue with a message of every kind, limited and not."""
    queue = opened.queue("q")
    queue.create(max_attempts=1)
    queue.channel("c").set_policy(turnabout.Policy(max_concurrency=1))
    queue.send_many([turnabout.message(str(n), channel="c" if n % 2 else "d") for n in range(8)])
    queue.send("later", delay_seconds=600)
    first, second, *_ = queue.receive(4)
    first.ack()
    second.fail(retry=False)
    return queue


@pytest.mark.usefixtures("used")
def test_all_is_well(run, levels):
    found = levels()
    assert "fail" not in found.values()
    assert {"Turnabout", "Python", "libraries", "counts", "way out", "schema"} <= set(found)
    text = run("doctor").out
    assert "add up in 2 queues" in text
    assert "ok    counts" in text


def test_no_file(levels, tmp_path):
    url = f"sqlite:///{tmp_path}/typo.db"
    assert levels("--url", url, code=1)["database"] == "fail"
    assert not (tmp_path / "typo.db").exists()


def test_a_file_that_may_not_be_looked_at(levels, tmp_path):
    assert levels("--url", f"sqlite:///{tmp_path}/{'x' * 300}.db", code=1)["database"] == "fail"


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize(("free", "level"), [(300, "warn"), (3, "fail")])
def test_a_disk_that_is_full(levels, monkeypatch, free, level):
    def usage(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(free=free * 1_000_000)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert levels(code=1 if level == "fail" else 0)["disk"] == level


def test_memory(levels):
    assert levels("--url", "sqlite://")["database"] == "ok"


def test_no_url_of_a_store(run, levels):
    assert levels("--url", "mysql://u:s3cret@h/db", code=1)["database"] == "fail"
    assert "s3cret" not in run("doctor", "--url", "mysql://u:s3cret@h/db", code=1).out


def test_a_server_that_is_away(run, levels):
    pytest.importorskip("psycopg")
    url = "postgresql://u:s3cret@127.0.0.1:1/db"
    found = levels("--url", url, code=1)
    assert found["database"] == "fail"
    assert "schema" not in found
    assert "s3cret" not in run("doctor", "--url", url, code=1).out


def test_a_file_that_is_no_database(levels, tmp_path):
    (tmp_path / "x.db").write_text("no database " * 100)
    assert levels("--url", f"sqlite:///{tmp_path}/x.db", code=1)["database"] == "fail"


def test_a_file_that_is_not_migrated(levels, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.execute("create table other (id int)")
    found = levels("--url", f"sqlite:///{tmp_path}/x.db", code=1)
    assert found["schema"] == "fail"
    assert found["durability" if "durability" in found else "journal mode"] == "warn"


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        ("update turnabout_queue set sent = sent + 1", "counts"),
        (
            "delete from turnabout_message where id = (select min(id) from turnabout_message)",
            "counts",
        ),
        ("delete from turnabout_channel", "way out"),
        ("update turnabout_message set queue_id = 99", "way out"),
        ("update turnabout_channel set leased = leased + 1", "channels"),
        (("update turnabout_channel set wake_at = null, leased = 0;"
         " delete from turnabout_message where status = 2"),
         "way out"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("used")
def test_damage_in_a_file(levels, tmp_path, damage, check):
    with contextlib.closing(sqlite3.connect(tmp_path / "queues.db")) as db:
        db.executescript(damage)
    assert levels(code=1)[check] == "fail"


@pytest.mark.usefixtures("used")
def test_leases_that_nobody_takes_back(levels, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "queues.db")) as db:
        db.executescript(
            "update turnabout_message set at = 1 where status = 2;"
            "update turnabout_message set sent_at = 1 where status = 0"
        )
    found = levels()
    assert found["leases"] == "warn"
    assert found["waiting"] == "warn"


def test_doctor_changes_nothing(run, used, tmp_path):
    before = used.stats()
    run("doctor")
    after = used.stats()
    assert (before.sent, before.ready, before.leased) == (after.sent, after.ready, after.leased)


def test_weak_durability(levels, door_url, used):
    assert levels("--url", f"{door_url}?synchronous=off")["durability"] == "warn"


@pytest.mark.parametrize(
    ("version", "level"), [((3, 51, 2), "warn"), ((3, 51, 3), "ok"), ((3, 60, 0), "ok")]
)
def test_the_wal_reset_bug(monkeypatch, version, level):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert doctor_sqlite.version().level == level


def test_a_network_file_system(levels, used, monkeypatch):
    monkeypatch.setattr(doctor_sqlite, "file_system", lambda _: "nfs4")
    assert levels(code=1)["file system"] == "fail"


def test_counts_that_do_not_add_up():
    good = QueueCounts(
        "a", False, sent=5, finished=2, live=3, overdue_leases=0, oldest_ready_ms=None
    )
    bad = QueueCounts(
        "b", False, sent=5, finished=2, live=2, overdue_leases=0, oldest_ready_ms=None
    )
    (failed,) = [f for f in findings.of_counts([good, bad]) if f.level == "fail"]
    assert check_of(failed).text == "b: 5 were sent, but 2 unfinished and 2 finished make 4"
    assert [f.level for f in findings.of_counts([])] == ["ok", "ok"]


def test_each_answer_is_a_sentence():
    for name, question in PROMISES.items():
        good, bad = (check_of(findings.of_zero(name, number, question)) for number in (0, 2_000))
        assert (good.level, good.todo, bad.level) == ("ok", "", question.level)
        assert "2,000" in bad.text
        assert bad.todo


def test_a_clock_that_was_set_back(levels, door_url):
    with turnabout.connect(door_url, clock=lambda: round(time.time() + 3600) * 1000) as ahead:
        ahead.queue("q").send("later", delay_seconds=1)
        ahead.queue("q").send("x")
        ahead.queue("q").receive()
    found = levels()
    assert found.pop("clock") == "warn"
    assert "fail" not in found.values()


def test_its_work_grows_as_the_channels_do(tmp_path):
    """Not as their square: with five thousand of them it took longer than anybody waits."""
    path = tmp_path / "many.db"
    with turnabout.connect(f"sqlite:///{path}") as mq:
        queue = mq.queue("many")
        queue.create(policy=turnabout.Policy(max_concurrency=1))

        def steps_with(channels: range) -> int:
            queue.send_many([turnabout.message("x", channel=f"c{n}") for n in channels])
            steps = [0]

            def step() -> None:
                steps[0] += 1

            with contextlib.closing(sqlite3.connect(path)) as db:
                db.set_progress_handler(step, 100)
                list(doctor_sqlite.of_queues(db, 0))
            return steps[0]

        few = steps_with(range(200))
        assert steps_with(range(200, 800)) < 8 * few  # for four times as many channels
