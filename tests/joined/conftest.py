"""`joined`: a library's connection to a database with queues and a table `business`.

Like `door`, it runs a test by each database's own driver, and a `driving` one by every library:
PostgreSQL on 18, and on 16 by one of them. Where `TURNABOUT_DOORS` names one database only, so it
is here.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import turnabout
from tests.joined.libraries import ON_POSTGRES, ON_SQLITE, Connected
from tests.support import postgres
from tests.support.doors import chosen, migrate
from tests.support.files import put_file
from tests.support.seeds import EVERYTHING

BUSINESS = "create table business (id integer primary key, name text)"


def _with_business(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUSINESS)


@contextlib.contextmanager
def postgres_place(version: int = 18) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database with our tables and `business`."""
    server = postgres._servers.get(0 if postgres.GIVEN else version)
    with postgres.fresh_database(server, fill=_with_business) as url:
        yield url


def sqlite_place(folder: Path) -> str:
    """The URL of a fresh SQLite file with our tables and `business`."""
    return put_file(folder / "app.db", BUSINESS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "library" not in metafunc.fixturenames:
        return
    every = EVERYTHING or metafunc.definition.get_closest_marker("driving") is not None
    doors = chosen()
    rounds: list[tuple[str, str]] = []
    if any(name.startswith("sqlite") for name in doors):
        rounds += [("sqlite", name) for name in ON_SQLITE]
    if any(name.startswith("postgres") for name in doors):
        rounds += [("18", name) for name in ON_POSTGRES]
        rounds += [("16", "psycopg")] * (not postgres.GIVEN)
    full = [("sqlite", "sqlite3"), ("18", "psycopg")]
    cases = [
        pytest.param(
            case,
            id=case[1] + "-16" * (case[0] == "16"),
            marks=[] if case in full else [pytest.mark.slow],
        )
        for case in rounds
        if every or case in full
    ]
    metafunc.parametrize("library", cases, indirect=True)


@pytest.fixture
def place(library: tuple[str, str], tmp_path: Path) -> Iterator[str]:
    """The URL of a database with queues and the table `business`."""
    if library[0] == "sqlite":
        yield sqlite_place(tmp_path)
        return
    with postgres_place(int(library[0])) as url:
        yield url


@pytest.fixture
def library(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Which database, and which library."""
    return request.param


@pytest.fixture
def joined(library: tuple[str, str], place: str) -> Iterator[Connected]:
    """A connection of that library to that database."""
    opener = ON_SQLITE[library[1]] if library[0] == "sqlite" else ON_POSTGRES[library[1]]
    with opener(place) as connected:
        yield connected


@pytest.fixture
def mq(place: str) -> Iterator[turnabout.Turnabout]:
    """A Turnabout on connections of its own: what others see."""
    with turnabout.connect(place) as mq:
        yield mq
