"""Many processes bring one database up at once; and it is killed in the middle, and run again."""

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from penstock._connect import installer
from tests.support.doors import migrate
from tests.support.postgres import fresh_database, only_newest
from tests.upgrade import catalog
from tests.upgrade.first import first_postgres, first_sqlite

UP = """
import sys
from penstock._connect import installer
install = installer(sys.argv[1])
install.migrations()
print("ready", flush=True)
sys.stdin.readline()
print("applied", *install.up(sys.argv[1]), flush=True)
"""
KILLS = 10


def start(url: str) -> subprocess.Popen[str]:
    """A process that has loaded everything and waits for a line to begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", UP, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def ten_at_once(url: str) -> None:
    """All end well, one of them applies each step, and then all is there."""
    wanted = installer(url).status(url).pending
    assert wanted
    started = [start(url) for _ in range(10)]
    for process in started:
        begin(process)
    ended = [(process.communicate(timeout=50), process.returncode) for process in started]
    assert [code for _, code in ended] == [0] * 10, [errors for (_, errors), _ in ended]
    assert installer(url).status(url).pending == ()


def killed(url: str, seconds: float) -> bool:
    """Kill it after so long, and run it again. Whether it had to be run again.

    After the kill each step has happened or has not; after the second run all is done.
    """
    install = installer(url)
    before = install.status(url)
    process = start(url)
    begin(process)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    after = install.status(url)
    assert before.current <= after.current <= after.wanted
    assert len(after.pending) <= len(before.pending) + 1  # and maybe the functions
    assert bool(install.up(url)) == bool(after.pending)
    assert install.status(url).pending == ()
    return bool(after.pending)


def moments(longest: float) -> list[float]:
    """When to kill: all through the time that it may take, and never quite at the same instant."""
    return [longest * (n + random.random()) / KILLS for n in range(KILLS)]


@pytest.mark.slow
@only_newest
@pytest.mark.parametrize("fill", [None, first_postgres], ids=["new", "first"])
def test_ten_processes_on_one_database(postgres_server: Any, fill: Callable[[str], None] | None):
    with fresh_database(postgres_server, fill=fill) as url:
        ten_at_once(url)


@pytest.mark.slow
@only_newest
@pytest.mark.parametrize("fill", [None, first_postgres], ids=["new", "first"])
def test_killed_on_postgresql(postgres_server: Any, fill: Callable[[str], None] | None):
    with fresh_database(postgres_server, fill=migrate) as new:
        wanted = catalog.of_postgres(new)
    again: list[bool] = []
    for seconds in moments(0.12):
        with fresh_database(postgres_server, fill=fill) as url:
            again.append(killed(url, seconds))
            assert catalog.of_postgres(url) == wanted
    assert any(again), "no kill came before the end"


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 1], ids=["new", "first"])
def test_ten_processes_on_one_file(tmp_path, begun):
    path = tmp_path / "app.db"
    if begun:
        first_sqlite(path)
    ten_at_once(f"sqlite:///{path}")


@pytest.mark.slow
@pytest.mark.parametrize("begun", [0, 1], ids=["new", "first"])
def test_killed_on_sqlite(tmp_path, begun):
    installer("sqlite://").up(f"sqlite:///{tmp_path}/new.db")
    wanted = catalog.of_sqlite(tmp_path / "new.db")
    again: list[bool] = []
    for number, seconds in enumerate(moments(0.015)):
        path = tmp_path / f"{number}.db"
        if begun:
            first_sqlite(path)
        again.append(killed(f"sqlite:///{path}", seconds))
        assert catalog.of_sqlite(path) == wanted
    assert any(again), "no kill came before the end"
