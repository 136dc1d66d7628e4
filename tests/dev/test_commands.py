"""`bench` and `dev`, here and as programs of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import turnabout
from tests.support.doors import Clock
from turnabout._sync.upkeep import Upkeep
from turnabout.dev import bench as bench_module
from turnabout.dev.commands import _keep_up

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.mark.slow
def test_bench(run, opened):
    opened.queue("mine").send("stays")
    ran = run("bench", "--seconds", "1", "--threads", "2", "--batch", "10", "--json")
    document = ran.document()
    names = [row["name"] for row in document["results"]]
    assert names == [
        "send", "send ×10", "receive", "ack", "receive ×10", "ack ×10", "send to receive",
    ]  # fmt: skip
    for row in document["results"]:
        assert row["calls"] > 0
        assert row["p50_seconds"] <= row["p99_seconds"] <= row["max_seconds"]
    assert "which is deleted afterwards" in ran.err
    assert [entry.name for entry in opened.queues()] == ["mine", "mine-dead"]
    table = run("bench", "--seconds", "0.5", "--threads", "1").out
    heads = ["CALL", "MESSAGES/S", "CALLS", "P50", "P95", "P99", "MAX"]
    assert table.splitlines()[0].split() == heads


@pytest.mark.parametrize("error", [KeyboardInterrupt(), turnabout.Busy("later")])
def test_bench_leaves_nothing_behind(run, opened, monkeypatch, error):
    opened.queue("mine").create()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(bench_module.Bench, "_receiving", fail)
    run("bench", "--seconds", "0.5", code=130 if isinstance(error, KeyboardInterrupt) else 3)
    assert [entry.name for entry in opened.queues()] == ["mine", "mine-dead"]


def test_ctrl_c_while_bench_starts_its_threads(run, opened, monkeypatch):
    """None of them goes on and makes the deleted queue anew."""

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            signal.raise_signal(signal.SIGINT)

    opened.queue("mine").create()
    monkeypatch.setattr(bench_module.threading, "Thread", Interrupted)
    run("bench", "--seconds", "3", "--threads", "1", code=130)
    monkeypatch.undo()
    assert not [thread for thread in threading.enumerate() if isinstance(thread, Interrupted)]
    assert [entry.name for entry in opened.queues()] == ["mine", "mine-dead"]


def test_dev_says_what_it_can_start(run):
    assert "--postgres" in run("dev", code=2).err


def test_on_windows_dev_says_what_it_needs(run, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    assert "needs Linux or macOS" in run("dev", "--postgres", code=2).err


def test_dev_does_what_workers_would_do():
    clock = Clock()
    with turnabout.connect("sqlite://", clock=clock) as mq:
        queue = mq.queue("q")
        queue.create(max_attempts=1)
        queue.send("crashed")
        queue.receive(lease_seconds=1)
        mq.schedules.set("tick", "q", "due", at=clock.now + 1000)
        clock.advance(1)
        _keep_up(mq, Upkeep(mq._shared))
        stats = queue.stats()
    assert (stats.dead, stats.ready) == (1, 1)


@pytest.mark.slow
def test_dev_postgres(program, tmp_path):
    psycopg = pytest.importorskip("psycopg")
    pgserver = pytest.importorskip("turnabout.dev.pgserver")
    try:
        pgserver.find_binaries(None)
    except pgserver.PostgresError as error:
        pytest.skip(str(error))
    server = program("dev", "--postgres", "--json")
    assert server.stdout is not None
    facts = json.loads(server.stdout.readline())
    try:
        assert any("tables" in name for name in facts["applied"])
        assert (tmp_path / ".turnabout" / ".gitignore").read_text() == "*\n"
        with psycopg.connect(facts["url"]) as connection:
            (count,) = connection.execute("select count(*) from turnabout.queue").fetchone()
        assert count == 0
        send = program("send", "q", "x", "--url", facts["url"])
        send.communicate(timeout=60)
        assert send.returncode == 0
    finally:
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=60)
    assert server.returncode == 0, err
    assert Path(facts["data"]).is_dir()
