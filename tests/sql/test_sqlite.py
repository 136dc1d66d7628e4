"""Sending to a file without the library: the table `turnabout_inbox`, by any program."""

import contextlib
import json
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
from turnabout.words import limits
from turnabout.words.administration import QueuesDue, Totals
from turnabout.words.verbs import Maintain

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

    said = shell(path, "insert into turnabout_inbox (queue, payload) values ('work', null);")
    assert said.returncode != 0
    assert "NOT NULL" in said.stderr


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


def refused(db: sqlite3.Connection) -> list[str]:
    """Why rows were refused, in their order."""
    found = db.execute("select reason from turnabout_inbox_refused order by id")
    return [reason for (reason,) in found]


def test_at_its_limits(db, mq):
    for arguments in AT_THE_LIMIT:
        insert(db, **arguments)
        assert mq.stats()
        assert refused(db) == []
        *_, peeked = mq.queue(arguments.get("queue", "work")).peek(100)
        for name in ("channel", "priority", "headers", "content_type"):
            if name in arguments:
                assert getattr(peeked, name) == arguments[name]


OF_ANOTHER_TYPE: list[dict[str, Any]] = [
    {"queue": b"a"},
    {"payload": 1},
    {"payload": 1.5},
    {"channel": b"x"},
    {"priority": 1.5},
    {"delay_seconds": "soon"},
    {"due_at": 1.5},
    {"ttl_seconds": b"1"},
]

WRONG_BESIDES = [
    ({"queue": "a\0"}, "queue"),
    ({"channel": "a\0b"}, "channel"),
    ({"due_at": -1}, "due_at"),
    ({"due_at": 0, "delay_seconds": 0}, "due_at"),
    ({"due_at": limits.FOREVER_MS}, "due_at is at most 366 days ahead"),
    ({"delay_seconds": 1e999}, "delay_seconds is"),
    ({"headers": "no json"}, "headers"),
    ({"headers": "[" * 100_000}, "headers"),
    ({"headers": 1}, "headers"),
    ({"headers": '{"a": "\\u0000"}'}, "header"),
    ({"headers": '{"a": "\\ud800"}'}, "header"),
    ({"headers": '{"a": {"b": "c"}}'}, "header"),
    ({"content_type": "a\0"}, "content type"),
    ({"dedup_key": "a\0"}, "dedup key"),
    ({"dedup_key": "k", "dedup_mode": 1}, "dedup_mode"),
]


def test_what_is_refused_is_kept_with_the_reason(db, mq):
    mq.queue("other").create()
    for arguments, text in WRONG + WRONG_BESIDES:
        if None in arguments.values():
            with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"):
                insert(db, **arguments)
            continue
        insert(db, **arguments)
        given = {"queue": "work", "payload": "x"} | arguments
        insert(db, queue="other")
        mq.stats()
        (reason,) = refused(db)
        assert text.split()[0].removesuffix("s") in reason.replace(",", ""), reason
        (kept,) = db.execute("select queue, payload from turnabout_inbox_refused")
        assert kept == (given["queue"], given["payload"])
        db.execute("delete from turnabout_inbox_refused")
        assert db.execute("select name from turnabout_queue where name <> 'other'").fetchall() in (
            [],
            [("other-dead",)],
        )
    assert mq.queue("other").stats().ready == len(WRONG) + len(WRONG_BESIDES) - 2
    for arguments in OF_ANOTHER_TYPE:
        with pytest.raises(sqlite3.IntegrityError, match=r"turnabout_inbox|CHECK"):
            insert(db, **arguments)


def test_text_that_is_no_text_stops_nobody(db, mq):
    for column in ("queue", "channel", "headers", "content_type", "dedup_key", "dedup_mode"):
        given = {"queue": "'work'", "payload": "'x'", "dedup_key": "'k'"}
        given[column] = "cast(x'ff' as text)"
        db.execute(
            f"insert into turnabout_inbox ({', '.join(given)}) values ({', '.join(given.values())})"
        )
    db.execute(
        "insert into turnabout_inbox (queue, payload) values ('work', cast(x'22ff' as text))"
    )
    (message,) = mq.queue("work").receive(10)
    assert (message.payload, message.content_type) == (b"\x22\xff", "text/plain; charset=utf-8")
    assert len(refused(db)) == 6


@pytest.mark.parametrize("by", ["receive", "maintain", "stats", "totals", "channels", "due"])
def test_the_next_call_sends_it_in_order_a_share_each_time(db, mq, by):
    queue = mq.queue("work")
    queue.create()
    mq.queue("idle").create()
    db.executemany(
        "insert into turnabout_inbox (queue, payload) values ('work', ?)",
        [(str(n),) for n in range(1_001)],
    )
    call = {
        "receive": lambda: mq.queue("idle").receive(),
        "maintain": lambda: mq.store.run(Maintain("idle")),
        "stats": mq.stats,
        "totals": lambda: mq.store.run(Totals()),
        "channels": queue.channels,
        "due": lambda: mq.store.run(QueuesDue()),
    }[by]
    assert not queue.peek(1)
    for left in (1, 0):
        call()
        assert db.execute("select count(*) from turnabout_inbox").fetchone() == (left,)
    assert [m.text() for m in queue.receive(1_000)] == [str(n) for n in range(1_000)]
    assert (queue.stats().sent, queue.stats().ready) == (1_001, 1)


def test_a_large_share_is_cut_by_its_bytes(db, mq):
    for _ in range(17):
        insert(db, payload=b"x" * limits.PAYLOAD_BYTES_MAX)
    assert mq.queue("work").create()
    assert mq.queue("work").stats().ready == 16


def test_what_is_full_says_so_and_takes_nothing(db, mq):
    queue = mq.queue("work")
    queue.create(max_messages=3)
    queue.channel("small").change_policy(max_size=1)
    for channel in ("small", "small", "", "", ""):
        insert(db, channel=channel)
    assert (queue.stats().ready, queue.stats().sent) == (3, 3)
    channel, whole = refused(db)
    assert "ChannelFull(channel='small', max_size=1, size=1)" in channel
    assert "QueueFull(max_messages=3, size=3)" in whole


def test_it_commits_and_rolls_back_with_the_rows_beside_it(db, mq):
    db.execute("create table mine (id integer)")
    for end in ("rollback", "commit"):
        db.execute("begin immediate")
        db.execute("insert into mine values (1)")
        insert(db)
        db.execute(end)
    assert db.execute("select count(*) from mine").fetchone() == (1,)
    assert [s.sent for s in mq.stats() if s.queue == "work"] == [1]


def test_stats_wait_for_no_writer_long(tmp_path):
    path = tmp_path / "busy.db"
    with turnabout.connect(f"sqlite:///{path}?busy_seconds=0.2") as mq:
        mq.queue("work").create()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            insert(db)
            db.execute("begin immediate")
            assert mq.queue("work").stats().sent == 0
            db.execute("commit")
        assert mq.queue("work").stats().sent == 1


def test_a_call_in_a_transaction_of_the_callers_leaves_it(db, mq):
    queue = mq.queue("work")
    queue.create()
    insert(db)
    db.execute("begin immediate")
    assert not queue.within(db).receive()
    db.execute("commit")
    assert queue.receive()


async def test_for_asyncio(db, path):
    async with turnabout.aio.connect(f"sqlite:///{path}") as mq:
        insert(db)
        assert (await mq.queue("work").stats()).ready == 1
        insert(db, queue="a b")
        assert not await mq.queue("work-dead").receive()
    assert len(refused(db)) == 1


def test_it_is_a_send_like_any_other(db, mq):
    queue = mq.queue("work")
    queue.create(events="all", fifo=True)
    for number, mode in enumerate(["window", "latest", "until_finished"]):
        insert(db, payload="first", dedup_key=mode, dedup_mode=mode, channel=str(number))
        insert(db, payload="second", dedup_key=mode, dedup_mode=mode, channel=str(number))
    insert(db, delay_seconds=60, ttl_seconds=120.0005)
    assert queue.stats().sent == 4
    assert [m.text() for m in queue.receive(4)] == ["first", "second", "first"]
    (later,) = queue.peek(1, state="scheduled")
    assert later.due_at == later.sent_at + 60_000
    (expires,) = db.execute(
        "select expires_at - sent_at from turnabout_message where at > 0 and id = ?", (later.id,)
    ).fetchone()
    assert expires == 120_001


@pytest.mark.parametrize("name", ["emails", "emails-dead", "dead"])
def test_a_missing_queue_is_made_as_the_library_makes_it(db, mq, name):
    insert(db, queue=name)
    mq.stats()
    made = mq.queue(name).settings()
    with turnabout.connect("sqlite://") as other:
        other.queue(name).send("x")
        assert other.queue(name).settings() == made


def test_a_full_disk_keeps_its_last_room_for_acks(db, mq):
    insert(db)
    writer = mq.store._opened.writer.connection

    def full() -> None:
        raise turnabout.StorageFull("full")

    writer.need_room = full
    mq.queue("idle").create()
    assert not mq.queue("idle").receive()
    writer.need_room = lambda: None
    assert not mq.queue("idle").receive()
    assert mq.queue("work").stats().ready == 1
