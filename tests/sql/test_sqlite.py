"""Sending to a file without the library: the view `turnabout_inbox`, by any program with SQLite."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.sql.wrong import AT_THE_LIMIT, WRONG
from turnabout.sqlite import install
from turnabout.words import limits

BY_PYTHON = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(sys.stdin.read())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def mq(path: Path) -> Iterator[turnabout.Turnabout]:
    with turnabout.connect(f"sqlite:///{path}") as mq:
        mq.stats()
        yield mq


@pytest.fixture
def db(mq: turnabout.Turnabout, path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of somebody who knows nothing of Turnabout."""
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def insert(db: sqlite3.Connection, **arguments: Any) -> None:
    given = {"queue": "work", "payload": "x"} | arguments
    if isinstance(given.get("headers"), (dict, list)):
        given["headers"] = json.dumps(given["headers"])
    db.execute(
        f"insert into turnabout_inbox ({', '.join(given)}) values ({', '.join('?' * len(given))})",
        list(given.values()),
    )


def shell(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    """SQLite's own shell; where that is missing, or too old, Python's module in another process."""
    program = shutil.which("sqlite3")
    if program is not None:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        if tuple(map(int, said.stdout.split()[0].split("."))) < (3, 38, 0):
            program = None
    command = [program, "-bail"] if program else [sys.executable, "-c", BY_PYTHON]
    return subprocess.run(
        [*command, str(path)], input=text, capture_output=True, text=True, check=False
    )


def test_from_the_shell(mq, path):
    said = shell(
        path,
        "insert into turnabout_inbox (queue, payload, created_at)"
        " values ('emails', '{\"a\":1}', '2026-01-01');\n"
        "insert into turnabout_inbox (queue, payload, channel, headers)"
        " values ('emails', 'hello', 'ada', '{\"trace\":\"7\"}');\n"
        "insert into turnabout_inbox (queue, payload)"
        " values ('emails', json_object('n', 1)), ('emails', x'ff00'), ('emails', '1');\n",
    )
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    seen = {m.id: m for m in mq.queue("emails").receive(10)}
    assert {m.id: m.content_type for m in seen.values()} == {
        1: "application/json",
        2: "text/plain; charset=utf-8",
        3: "application/json",
        4: "application/octet-stream",
        5: "text/plain; charset=utf-8",
    }
    assert (seen[1].json(), seen[3].json(), seen[4].payload) == ({"a": 1}, {"n": 1}, b"\xff\x00")
    assert (seen[2].channel, seen[2].headers) == ("ada", {"trace": "7"})
    stats = mq.queue("emails").stats()
    assert (stats.sent, stats.leased) == (5, 5)

    said = shell(path, "insert into turnabout_inbox (queue, payload) values ('no name', 'x');")
    assert said.returncode != 0
    assert "turnabout: a queue's name is" in said.stderr


def test_a_receiver_that_waits_sees_it(mq, path):
    mq.queue("work").create()
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(mq.queue("work").receive(wait_seconds=20))
    )
    thread.start()
    time.sleep(0.2)
    begun = time.monotonic()
    assert (
        shell(path, "insert into turnabout_inbox (queue, payload) values ('work', 'x');").returncode
        == 0
    )
    thread.join(20)
    assert len(found) == 1
    assert time.monotonic() - begun < 15


def test_at_its_limits(db, mq):
    for number, arguments in enumerate(AT_THE_LIMIT, 1):
        insert(db, **arguments)
        (peeked,) = mq.queue(arguments.get("queue", "work")).peek(1, after_id=number - 1)
        assert peeked.id == number
        for name in ("channel", "priority", "headers", "content_type"):
            if name in arguments:
                assert getattr(peeked, name) == arguments[name]


OF_ANOTHER_TYPE = [
    ({"queue": 1}, "queue"),
    ({"queue": "a\0"}, "queue"),
    ({"payload": 1}, "payload"),
    ({"payload": 1.5}, "payload"),
    ({"channel": 1}, "channel"),
    ({"channel": b"x"}, "channel"),
    ({"channel": "a\0b"}, "channel"),
    ({"priority": "1"}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"delay_seconds": "soon"}, "delay_seconds"),
    ({"due_at": "soon"}, "due_at"),
    ({"due_at": -1}, "due_at"),
    ({"due_at": 1.5}, "due_at"),
    ({"due_at": 0, "delay_seconds": 0}, "due_at"),
    ({"due_at": limits.FOREVER_MS}, "due_at is at most 366 days ahead"),
    ({"ttl_seconds": b"1"}, "ttl_seconds"),
    ({"headers": "no json"}, "headers"),
    ({"headers": 1}, "headers"),
    ({"headers": '{"a": "\\u0000"}'}, "headers"),
    ({"headers": '{"a": {"b": "c"}}'}, "headers"),
    ({"content_type": 1}, "content type"),
    ({"content_type": "a\0"}, "content type"),
    ({"dedup_key": 1}, "dedup key"),
    ({"dedup_key": "a\0"}, "dedup key"),
    ({"dedup_key": "k", "dedup_mode": 1}, "dedup_mode"),
    ({"dedup_key": "k", "dedup_window_seconds": "1"}, "dedup_window_seconds"),
]


def test_what_is_refused(db):
    for arguments, text in WRONG + OF_ANOTHER_TYPE:
        with pytest.raises(sqlite3.IntegrityError, match=rf"^turnabout: .*{text}"):
            insert(db, **arguments)
        assert db.execute("select count(*) from turnabout_message").fetchone() == (0,), arguments
        assert db.execute("select count(*) from turnabout_queue").fetchone() == (0,), arguments
        assert db.execute("select count(*) from turnabout_sending").fetchone() == (0,)


def test_it_shows_nothing_and_takes_nothing_back(db):
    insert(db)
    assert db.execute("select * from turnabout_inbox").fetchall() == []
    for statement in ("delete from turnabout_inbox", "update turnabout_inbox set payload = 'y'"):
        with pytest.raises(sqlite3.OperationalError, match="cannot modify turnabout_inbox"):
            db.execute(statement)


def test_a_full_channel_or_queue_says_so_and_takes_nothing(db, mq):
    queue = mq.queue("work")
    queue.create(max_messages=3)
    queue.channel("small").change_policy(max_size=1)
    insert(db, channel="small")
    with pytest.raises(sqlite3.IntegrityError, match="the channel is full: nothing was sent"):
        insert(db, channel="small")
    insert(db)
    insert(db)
    with pytest.raises(sqlite3.IntegrityError, match="the queue is full: nothing was sent"):
        insert(db)
    assert (queue.stats().ready, queue.stats().sent) == (3, 3)


def test_it_commits_and_rolls_back_with_the_rows_beside_it(db, mq):
    db.execute("create table mine (id integer)")
    for end in ("rollback", "commit"):
        db.execute("begin immediate")
        db.execute("insert into mine values (1)")
        insert(db)
        db.execute(end)
    assert db.execute("select count(*) from mine").fetchone() == (1,)
    assert mq.queue("work").stats().sent == 1
    with pytest.raises(sqlite3.IntegrityError, match="priority is"):
        db.execute(
            "insert into turnabout_inbox (queue, payload, priority)"
            " values ('work', 'x', 0), ('work', 'x', 99999)"
        )
    assert mq.queue("work").stats().sent == 1


# --- it is a send like any other -----------------------------------------------------------------

TABLES = ("queue", "message", "channel", "dedup", "event", "history")
QUEUES: list[dict[str, Any]] = [
    {},
    {"delay_seconds": 60, "ttl_seconds": 3600},
    {"fifo": True, "delay_seconds": 60},
    {"policy": turnabout.Policy(max_concurrency=2), "events": "all"},
    {"policy": turnabout.Policy(weight=2, max_size=4), "dedup_mode": "latest"},
    {
        "policy": turnabout.Policy(rate=turnabout.Rate(1, 3600, burst=3)),
        "max_messages": 12,
        "events": "all",
    },
    {"dedup_scope": "channel", "dedup_mode": "until_finished", "events": "hints"},
    {"fifo": True, "dedup_window_seconds": 1800, "ttl_seconds": 7200, "events": "all"},
]
MODES = [None, "window", "sliding", "until_started", "until_finished", "latest", "rerun"]


def options(chance: random.Random) -> dict[str, Any]:
    """Options of a send, most of them left out."""
    chosen: dict[str, Any] = {
        "channel": chance.choice(["", "a", "b", "small"]),
        "priority": chance.choice([0, 0, 1, -1]),
        "delay_seconds": chance.choice([None, None, 0, 600, 900.5]),
        "headers": chance.choice([None, {}, {"a": "1", "ü": "2"}]),
        "content_type": chance.choice(["text/csv", "text/plain; charset=utf-8"]),
        "ttl_seconds": chance.choice([None, None, 5400]),
    }
    if chosen["delay_seconds"] == 900.5:
        in_an_hour = round(time.time() * 1000) + 3_600_000
        chosen |= {"delay_seconds": None, "due_at": in_an_hour if chosen["channel"] else 0}
    if chance.random() < 0.5:
        chosen |= {
            "dedup_key": chance.choice(["k", "l", "m"]),
            "dedup_mode": chance.choice(MODES),
            "dedup_window_seconds": chance.choice([None, 7000]),
            "dedup_scope": chance.choice([None, "queue", "channel"]),
        }
    return chosen


def all_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that is in a file, its instants as hundreds of seconds since the message was sent."""
    connection = sqlite3.connect(path)
    try:
        return {table: sorted(rows(connection, table)) for table in TABLES}
    finally:
        connection.close()


def rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, ...]]:
    """The rows of a table, but for the random `version` of a queue, and dedup entries that hold no
    longer: they are swept at any time.
    """
    holds = " where until_ms is not null or message_id in (select id from turnabout_message)"
    cursor = connection.execute(
        f"select * from turnabout_{table}{holds if table == 'dedup' else ''}"
    )
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield tuple(coarse(x) for name, x in zip(names, row, strict=True) if name != "version")


def coarse(value: Any) -> str:
    """Instants lie far above every other number; two files are written within seconds."""
    if isinstance(value, int) and value > 4_000_000_000_000_000:
        return "never"
    if isinstance(value, int) and value > 4_000_000_000_000:
        value //= 1000  # microseconds
    if isinstance(value, int) and value > 1_500_000_000_000:
        return f"{(value - round(time.time() * 1000)) / 300_000:.0f}"
    return json.loads(value).__repr__() if str(value).startswith("{") else repr(value)


@pytest.mark.slow
@pytest.mark.parametrize("settings", QUEUES, ids=str)
def test_it_leaves_what_the_library_leaves(tmp_path, settings):
    """The same random sends to two files, by library and by view, with acks and failures between:
    after each, every row of every table is the same.
    """
    chance = random.Random(str(settings))
    paths = [tmp_path / "library.db", tmp_path / "view.db"]
    stores = [turnabout.connect(f"sqlite:///{path}") for path in paths]
    queues = [mq.queue("work") for mq in stores]
    view = sqlite3.connect(paths[1], isolation_level=None)
    for queue in queues:
        queue.create(**settings, backoff_jitter=0.0, backoff_seconds=0)
        queue.channel("small").change_policy(max_size=3)
    refused = 0
    for number in range(40):
        given = options(chance)
        outcome = queues[0].send(f"{number}", **given)
        if isinstance(outcome, turnabout.Sent):
            insert(view, payload=f"{number}", **given)
        else:
            refused += 1
            with pytest.raises(sqlite3.IntegrityError, match="is full"):
                insert(view, payload=f"{number}", **given)
        assert all_rows(paths[0]) == all_rows(paths[1]), given
        step = chance.choice(["", "", "ack", "fail", "hold"])
        if step:
            for queue in queues:
                for message in queue.receive(chance.choice([1]), lease_seconds=900):
                    if step != "hold":
                        (message.ack if step == "ack" else message.fail)()
            assert all_rows(paths[0]) == all_rows(paths[1])
    assert refused or settings.get("fifo") or not settings
    view.close()
    for mq in stores:
        mq.close()


@pytest.mark.parametrize("name", ["emails", "emails-dead", "-dead"[1:]])
def test_a_missing_queue_is_made_as_the_library_makes_it(tmp_path, name):
    paths = [tmp_path / "library.db", tmp_path / "view.db"]
    with turnabout.connect(f"sqlite:///{paths[0]}") as mq:
        mq.queue(name).send("x", content_type="text/plain; charset=utf-8")
    install.up(f"sqlite:///{paths[1]}")
    connection = sqlite3.connect(paths[1], isolation_level=None)
    insert(connection, queue=name)
    connection.close()
    assert all_rows(paths[0]) == all_rows(paths[1])


def test_an_entry_that_no_longer_holds_suppresses_nothing(db, mq):
    for mode in ("window", "sliding"):
        insert(db, dedup_key=mode, dedup_mode=mode)
    db.execute("update turnabout_dedup set until_ms = 1000")
    for mode in ("window", "sliding"):
        insert(db, dedup_key=mode, dedup_mode=mode)
    assert mq.queue("work").stats().ready == 4
    insert(db, dedup_key="expired", dedup_mode="until_finished", ttl_seconds=0.001)
    time.sleep(0.02)
    insert(db, dedup_key="expired", dedup_mode="until_finished")
    assert mq.queue("work").stats().sent == 6


def test_seconds_are_rounded_up_to_whole_milliseconds(db):
    for seconds, wanted in (
        (0.0015, 2),
        (0.001, 1),
        (1e-9, 0),
        (1.0000001, 1001),
        (7, 7000),
        (0.3, 300),
    ):
        insert(db, ttl_seconds=max(seconds, 0.001), delay_seconds=seconds)
        row = db.execute(
            "select at - sent_at, expires_at - sent_at from turnabout_message"
            " order by id desc limit 1"
        ).fetchone()
        assert row == (wanted, max(wanted, 1)) or seconds == 1e-9
