"""PostgreSQL for the tests: the servers of this test run, and a fresh database for each test.

Each test process (each worker of xdist) has a server of its own per version, started at its first
use and stopped at the end; a start takes a tenth of a second. `TURNABOUT_TEST_POSTGRES`, the URL of
a server where databases may be created, takes the place of ours: then nothing is started, and each
database made there has a name of this run's own and is dropped afterwards.

A test that wants tables takes a copy of a database that was filled once:

    with fresh_database(postgres_server, fill=migrate) as url: ...
"""

import contextlib
import itertools
import os
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, LiteralString, Protocol, cast
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.support.seeds import EVERYTHING

GIVEN: Final = os.environ.get("TURNABOUT_TEST_POSTGRES")
VERSIONS: Final = (16, 18)

Fill = Callable[[str], None]

_run: Final = f"turnabout_test_{os.getpid()}_{secrets.token_hex(3)}"
_number: Final = itertools.count(1)


class Server(Protocol):
    """What a test may ask of a server, ours or a given one."""

    @property
    def version(self) -> int:
        """The major version."""
        ...

    def url(self, database: str = ...) -> str:
        """The address of a database."""
        ...


class GivenServer:
    """The server that `TURNABOUT_TEST_POSTGRES` names. It isn't ours: only databases are made."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("postgresql", "postgres"):
            message = "TURNABOUT_TEST_POSTGRES has to be a URL: postgresql://user@host/database"
            raise pytest.UsageError(message)
        self._url = url
        with psycopg.connect(url) as connection:
            self.version = connection.info.server_version // 10_000

    def url(self, database: str = "") -> str:
        """The address of a database on that server."""
        if not database:
            return self._url
        return urlsplit(self._url)._replace(path="/" + quote(database, safe="")).geturl()


class Servers:
    """The servers of this test process, each started at its first use."""

    def __init__(self) -> None:
        self._open: dict[int, Server] = {}
        self._templates: dict[tuple[str, Fill], str] = {}
        self._masons: dict[str, psycopg.Connection] = {}

    def get(self, version: int) -> Server:
        """The server of that version; the given one, whatever its version, when there is one."""
        if version not in self._open:
            self._open[version] = GivenServer(GIVEN) if GIVEN else self._start(version)
        return self._open[version]

    def template(self, server: Server, fill: Fill) -> str:
        """The name of a database on that server which `fill(url)` was called on, once."""
        key = (server.url(), fill)
        if key not in self._templates:
            name = f"{_run}_template_{next(_number)}"
            self.create_database(server, name)
            self._templates[key] = name  # noted first: dropped even when filling it fails
            fill(server.url(name))
        return self._templates[key]

    def create_database(self, server: Server, name: str, template: str = "template1") -> None:
        """Make a database, as a copy of another, which nobody may be connected to."""
        # The other way writes every page to the log.
        by = " strategy file_copy" if server.version >= 15 else ""
        self._build(server, "create database {} template {}" + by, name, template)

    def drop_database(self, server: Server, name: str) -> None:
        """Remove a database, with whoever is connected to it."""
        self._build(server, "drop database if exists {} with (force)", name)

    def _build(self, server: Server, statement: LiteralString, *names: str) -> None:
        """By a connection that is kept, as there are hundreds of databases to make."""
        mason = self._masons.get(server.url())
        if mason is None or mason.closed:
            mason = self._masons[server.url()] = psycopg.connect(server.url(), autocommit=True)
        mason.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def close(self) -> None:
        """Stop our servers; on a given one, drop the templates."""
        for server in self._open.values():
            if not isinstance(server, GivenServer):
                cast("Any", server).close()
                continue
            for (url, _), name in self._templates.items():
                if url == server.url():
                    self.drop_database(server, name)
        for mason in self._masons.values():
            mason.close()
        self._open.clear()
        self._templates.clear()
        self._masons.clear()

    @staticmethod
    def _start(version: int) -> Server:
        # A vacuum's transaction holds back the log and the events of every database, for a moment
        # that no test can foresee.
        server = own_server(version, settings={"autovacuum": "off"})
        server.start()
        return server


def own_server(version: int = VERSIONS[-1], **how: Any) -> Any:
    """A server of one test's own, to be stopped and killed: it starts and ends as a context."""
    if find_spec("turnabout.dev") is None:
        pytest.skip("the slice `dev`, which starts PostgreSQL, is not here")
    from turnabout.dev.pgserver import PostgresNotFound, PostgresServer

    try:
        return PostgresServer(version, **how)
    except PostgresNotFound as error:
        # Not a skip: a run that left out PostgreSQL must not look like one that passed it.
        pytest.fail(str(error), pytrace=False)


def program(server: Any, name: str, *words: str) -> None:
    """Run one of the programs that come with a server of our own, as the user that it runs as."""
    from turnabout.dev.pgserver._programs import runner

    done = runner().run(server.binaries / name, *words)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def programs_folder() -> Iterator[Path]:
    """A folder for what they write."""
    from turnabout.dev.pgserver._programs import runner

    with tempfile.TemporaryDirectory(prefix="turnabout-copy-") as folder:
        runner().own(Path(folder))
        yield Path(folder)


def psql(server: Any, url: str, text: str) -> subprocess.CompletedProcess[str]:
    """What PostgreSQL's own client says of statements."""
    if isinstance(server, GivenServer):
        pytest.skip("psql comes with our own servers")
    return subprocess.run(
        [server.binaries / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def deadlocks(url: str) -> int:
    """How many PostgreSQL has broken in that database."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select deadlocks from pg_stat_database where datname = current_database()"
        ).fetchone()
    assert row is not None
    return row[0]


_servers: Final = Servers()


def template(server: Server, fill: Fill) -> str:
    """The name of a database on that server which `fill(url)` was called on, once per test run.

    `fill` must close its connections: PostgreSQL copies no database that somebody is using.
    """
    return _servers.template(server, fill)


@contextlib.contextmanager
def fresh_database(server: Server, fill: Fill | None = None) -> Iterator[str]:
    """The URL of a database for one test, empty or as `fill(url)` leaves it; dropped at the end."""
    name = f"{_run}_{next(_number)}"
    _servers.create_database(server, name, "template1" if fill is None else template(server, fill))
    try:
        yield server.url(name)
    finally:
        _servers.drop_database(server, name)


@pytest.fixture(scope="session", autouse=True)
def _stop_servers() -> Iterator[None]:
    yield
    _servers.close()


# Not a server per parameter in the fixture itself: pytest would stop and start servers whenever
# two tests of different versions follow one another.
@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Server:
    """A running PostgreSQL: the newest, or the given one; where a test is `driving`, or all of
    them run, each version in turn.
    """
    return _servers.get(cast("int", request.param))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = list(metafunc.definition.iter_markers())
    chosen = any("postgres_server" in mark.args[0] for mark in marks if mark.name == "parametrize")
    if "postgres_server" not in metafunc.fixturenames or chosen:
        return
    wide = EVERYTHING or any(mark.name == "driving" for mark in marks)
    rounds = [
        pytest.param(version, marks=[] if version == VERSIONS[-1] else [pytest.mark.slow])
        for version in (VERSIONS if wide else VERSIONS[-1:])
    ]
    metafunc.parametrize(
        "postgres_server",
        [0] if GIVEN else rounds,
        ids=lambda version: f"pg{version or ''}",
        indirect=True,
        scope="session",
    )


only_newest = pytest.mark.parametrize(
    "postgres_server", [0] if GIVEN else VERSIONS[-1:], ids=lambda v: f"pg{v or ''}", indirect=True
)
"""For tests that take long and hold for every version if for one."""


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    with fresh_database(postgres_server) as url:
        yield url


def migrate(url: str) -> None:
    """Put our tables and functions into an empty PostgreSQL database."""
    from turnabout.postgres import install

    install.up(url)


@contextlib.contextmanager
def migrated(version: int = VERSIONS[-1], fill: Fill | None = migrate) -> Iterator[str]:
    """The URL of a fresh database with our tables and functions, of that version or as given."""
    with fresh_database(_servers.get(0 if GIVEN else version), fill) as url:
        yield url


@pytest.fixture
def migrated_url(postgres_server: Server) -> Iterator[str]:
    """The same on the server of the test."""
    with fresh_database(postgres_server, fill=migrate) as url:
        yield url


@pytest.fixture(scope="module")
def one_migrated_url(postgres_server: Server) -> Iterator[str]:
    """The same, one for all tests of a module."""
    with fresh_database(postgres_server, fill=migrate) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def either_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database, once of each kind."""
    if request.param == "sqlite":
        yield "sqlite://"
        return
    with migrated() as url:
        yield url
