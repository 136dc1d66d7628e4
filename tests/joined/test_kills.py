"""Killed at every step of a transaction, business row and message never disagree."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from tests.joined.conftest import postgres_place, sqlite_place
from tests.joined.libraries import file_of
from tests.joined.victim import ROUNDS, STEPS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
EVERY_STEP = [
    pytest.param(library, scenario, step, id=f"{library}-{scenario}-{step}")
    for library in ("psycopg", "sqlite3")
    for scenario, steps in STEPS.items()
    for step in steps
]
ONE_STEP = [
    pytest.param(library, scenario, step, id=f"{library}-{scenario}-{step}")
    for library in ("asyncpg", "session-psycopg2", "django-postgresql", "session-aiosqlite")
    for scenario, step in (("producer", "sent"), ("consumer", "acked"))
]


@contextlib.contextmanager
def place_of(library: str, folder: Path) -> Iterator[str]:
    if "sqlite" in library:
        yield sqlite_place(folder)
    else:
        with postgres_place() as url:
            yield url


def rows(url: str) -> set[int]:
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(file_of(url))) as connection:
            return {row[0] for row in connection.execute("select id from business")}
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("select id from business")}


def killed(url: str, *words: str) -> None:
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.run(
        [sys.executable, "-m", "tests.joined.victim", url, *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.mark.parametrize(("client", "scenario", "step"), [*EVERY_STEP, *ONE_STEP])
def test_row_and_message_agree(client: str, scenario: str, step: str, tmp_path: Path) -> None:
    with place_of(client, tmp_path) as url, penstock.connect(url) as ps:
        queue: Any = ps.queue("q")
        if scenario == "consumer":
            queue.send_many(penstock.message(str(n)) for n in range(ROUNDS + 2))
        killed(url, client, scenario, step)
        done = ROUNDS + (step == "committed")
        assert rows(url) == set(range(done))

        # What is in the queue can be had at once: no lease is left behind, no attempt was counted.
        left = queue.receive(100)
        assert {m.attempt for m in left} <= {1}
        wanted = range(done) if scenario == "producer" else range(done, ROUNDS + 2)
        assert sorted(int(m.text()) for m in left) == list(wanted)
        stats = queue.stats()
        assert stats.sent == stats.leased + stats.done
