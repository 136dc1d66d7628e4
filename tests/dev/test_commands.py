"""`dev`, here and as programs of their own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import turnabout
from tests.support.doors import Clock
from turnabout._sync.upkeep import Upkeep
from turnabout.dev.commands import _keep_up

Start = Callable[..., subprocess.Popen[bytes]]


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
