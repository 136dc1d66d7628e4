"""An application's file that is ours, too: whatever its own tables are called, in either order."""

import gc
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import turnabout
from turnabout import Sent, Unavailable

THEIRS = (
    *("queue", "message", "channel", "history", "dedup", "event", "redrive", "schedule"),
    *("namespace", "token", "stage", "sink_batch", "watermark", "log_floor", "migration"),
    *("inbox", "orders"),
)
"""Names that we use ourselves, with a prefix."""


def their_tables(path):
    """The application's own tables, by names that ours could have had, and its own marks."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in THEIRS:
            connection.execute(f"create table {name} (id integer primary key, body text)")
            connection.execute(f"create index {name}_ready on {name} (body)")
        connection.execute("pragma user_version = 7")
        connection.execute("pragma application_id = 42")


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_its_tables_may_have_any_names(tmp_path, first):
    path = tmp_path / "app.db"
    if first == "theirs":
        their_tables(path)
    with turnabout.connect(f"sqlite:///{path}") as mq:
        if first == "ours":
            assert isinstance(mq.queue("emails").send("before"), Sent)
            their_tables(path)
        with closing(sqlite3.connect(path)) as connection:
            for undone in (True, False):
                connection.execute("begin immediate")
                for name in THEIRS:
                    connection.execute(f"insert into {name} (body) values ('{name}')")
                sent = mq.queue("emails").within(connection).send("x", channel="c")
                assert isinstance(sent, Sent)
                connection.rollback() if undone else connection.commit()
            assert [connection.execute(f"select body from {n}").fetchall() for n in THEIRS] == [
                [(name,)] for name in THEIRS
            ]
            connection.execute(
                "insert into turnabout_inbox (queue, payload) values ('emails', 'y')"
            )
            connection.commit()
    with turnabout.connect(
        f"sqlite:///{path}"
    ) as mq:  # the file as it is found by the next process
        messages = mq.queue("emails").receive(10)
        wanted = ["x", "y"] if first == "theirs" else ["before", "x", "y"]
        assert sorted(m.text() for m in messages) == sorted(wanted)
        assert all(m.ack() == turnabout.Acked() for m in messages)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma user_version").fetchone() == (7,)
        ours = connection.execute(
            "select name from sqlite_schema where name not like 'turnabout\\_%' escape '\\'"
            " and name not like 'sqlite\\_%' escape '\\'"
        ).fetchall()
        assert {name for (name,) in ours} == {*THEIRS, *(f"{name}_ready" for name in THEIRS)}


def test_a_file_that_was_removed_or_replaced_takes_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("turnabout.sqlite._turnstile._TURN_SECONDS", 0)
    path, away = tmp_path / "app.db", tmp_path / "away.db"
    with turnabout.connect(f"sqlite:///{path}") as mq:
        queue = mq.queue("q")
        queue.send("before")
        path.rename(away)
        with pytest.raises(Unavailable, match="removed or replaced"):
            queue.send("lost")
        path.touch()
        with pytest.raises(Unavailable, match="removed or replaced"):
            queue.receive()
        away.replace(path)
        assert isinstance(queue.send("after"), Sent)
        assert [m.text() for m in queue.receive(3)] == ["before", "after"]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_not_one_send_is_told_as_sent_to_a_file_without_a_name(tmp_path, monkeypatch, how):
    """Also in the turn of a few milliseconds in which nobody looks whether it is still there."""
    monkeypatch.setattr("turnabout.sqlite._turnstile._TURN_SECONDS", 1_000)
    path = tmp_path / "app.db"
    with turnabout.connect(f"sqlite:///{path}") as mq:
        queue = mq.queue("q")
        queue.send("before")
        if how == "replaced":
            (tmp_path / "other.db").touch()
            (tmp_path / "other.db").replace(path)
        else:
            path.unlink()
        for _ in range(2):
            with pytest.raises(Unavailable, match="removed or replaced"):
                queue.send("lost")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it is read there")
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_a_handle_that_is_dropped_leaves_nothing_open(tmp_path):
    def opened() -> list[str]:
        links = [str(one.readlink()) for one in Path("/proc/self/fd").glob("*") if one.is_symlink()]
        return [link for link in links if str(tmp_path) in link]

    queue = turnabout.connect(f"sqlite:///{tmp_path}/app.db").queue("q")
    queue.send("x" * 10_000)
    assert queue.receive()
    assert len(opened()) > 3
    del queue
    gc.collect()
    assert opened() == []


FILLS = """
import resource, sys, turnabout
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
queue = turnabout.connect(sys.argv[1]).queue("q")
try:
    while queue.send("x" * 100_000):
        pass
except turnabout.StorageFull:
    print(queue.stats().ready)
for message in queue.receive(3):  # what empties the file finds room in the log
    assert message.ack() == turnabout.Acked()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of that kind")
def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path):
    url = f"sqlite:///{tmp_path}/app.db"
    ran = subprocess.run(
        [sys.executable, "-c", FILLS, url], capture_output=True, text=True, check=True
    )
    with turnabout.connect(url) as mq:
        assert mq.queue("q").stats().ready == int(ran.stdout) - 3 > 0
        assert isinstance(mq.queue("q").send("y"), Sent)
