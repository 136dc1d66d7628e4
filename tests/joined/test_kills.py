"""Killed at every step of a transaction, business row and message never disagree."""

import contextlib
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import turnabout
from tests.joined import victim
from tests.joined.conftest import postgres_place, sqlite_place
from tests.joined.libraries import file_of
from tests.joined.victim import ROUNDS, STEPS

pytestmark = pytest.mark.slow
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


def killed(nursery: Any, *words: str) -> None:
    process = nursery.Process(target=victim.main, args=words)
    process.start()
    process.join(100)
    assert process.exitcode == -signal.SIGKILL, "what it said is on stderr"
    process.close()


@pytest.mark.share(12)
@pytest.mark.parametrize(("client", "scenario", "step"), [*EVERY_STEP, *ONE_STEP])
def test_row_and_message_agree(
    nursery: Any, client: str, scenario: str, step: str, tmp_path: Path
) -> None:
    with place_of(client, tmp_path) as url, turnabout.connect(url) as mq:
        queue: Any = mq.queue("q")
        if scenario == "consumer":
            queue.send_many(turnabout.message(str(n)) for n in range(ROUNDS + 2))
        killed(nursery, url, client, scenario, step)
        done = ROUNDS + (step == "committed")
        assert rows(url) == set(range(done))

        # What is in the queue can be had at once: no lease is left behind, no attempt was counted.
        left = queue.receive(100)
        assert {m.attempt for m in left} <= {1}
        wanted = range(done) if scenario == "producer" else range(done, ROUNDS + 2)
        assert sorted(int(m.text()) for m in left) == list(wanted)
        stats = queue.stats()
        assert stats.sent == stats.leased + stats.done
