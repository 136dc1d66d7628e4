"""Many processes bring one database up at once; and it is killed in the middle, and run again."""

import random
from typing import Any

import pytest

from tests.support.doors import migrate
from tests.support.postgres import fresh_database, only_newest
from tests.support.seeds import EVERYTHING
from tests.upgrade import catalog
from tests.upgrade.up import ended, start
from turnabout._connect import installer

KILLS = 10 if EVERYTHING else 4


def ten_at_once(nursery: Any, url: str) -> list[str]:
    """All end well, and then all is there. What they say that they have applied."""
    wanted = installer(url).status(url).pending
    assert wanted
    started = [start(nursery, url) for _ in range(10)]
    for _, pipe in started:
        pipe.send("begin")
    applied = [step for born in started for step in ended(*born)]
    assert set(wanted) <= set(applied)
    assert installer(url).status(url).pending == ()
    return applied


def killed(nursery: Any, url: str, seconds: float) -> bool:
    """Kill it after so long, and run it again. Whether it had to be run again.

    After the kill each step has happened or has not; after the second run all is done.
    """
    install = installer(url)
    before = install.status(url)
    process, pipe = start(nursery, url)
    pipe.send("begin")
    process.join(seconds)
    process.kill()
    process.join()
    process.close()
    pipe.close()
    after = install.status(url)
    assert before.current <= after.current <= after.wanted
    steps = [name for name in after.pending if not name.startswith("functions")]
    assert set(steps) <= set(before.pending)
    assert bool(install.up(url)) == bool(after.pending)
    assert install.status(url).pending == ()
    return bool(after.pending)


def moments(longest: float) -> list[float]:
    """When to kill: all through the time that it may take, and never quite at the same instant."""
    return [longest * (n + random.random()) / KILLS for n in range(KILLS)]


@pytest.mark.slow
@only_newest
def test_ten_processes_on_one_database(nursery: Any, postgres_server: Any):
    with fresh_database(postgres_server) as url:
        applied = ten_at_once(nursery, url)
    assert len(applied) == len(set(applied)), "two have applied the same"


@pytest.mark.slow
@only_newest
def test_killed_on_postgresql(nursery: Any, postgres_server: Any):
    with fresh_database(postgres_server, fill=migrate) as new:
        wanted = catalog.of_postgres(new)
    again: list[bool] = []
    for seconds in moments(0.12):
        with fresh_database(postgres_server) as url:
            again.append(killed(nursery, url, seconds))
            assert catalog.of_postgres(url) == wanted
    assert any(again), "no kill came before the end"


@pytest.mark.slow
def test_ten_processes_on_one_file(nursery, tmp_path):
    ten_at_once(nursery, f"sqlite:///{tmp_path}/app.db")


@pytest.mark.slow
def test_killed_on_sqlite(nursery, tmp_path):
    installer("sqlite://").up(f"sqlite:///{tmp_path}/new.db")
    wanted = catalog.of_sqlite(tmp_path / "new.db")
    again: list[bool] = []
    for number, seconds in enumerate(moments(0.015)):
        path = tmp_path / f"{number}.db"
        again.append(killed(nursery, f"sqlite:///{path}", seconds))
        assert catalog.of_sqlite(path) == wanted
    assert any(again), "no kill came before the end"
