"""The doors: every place where Turnabout can be used, opened for a test, with a clock of its own.

A test asks for `door` (or for `queue`, a fresh queue behind it) and runs at the full doors: SQLite
in memory and the newest PostgreSQL, which are the two places where the verbs are written. The other
doors share that code and differ in how it is reached; at them run the tests marked `driving`, which
meet every outcome of every verb, and those that need several connections. `dev.py test --all` runs
every test at every door, and so does `TURNABOUT_DOORS=sqlite,postgres-16` at a choice of doors.

A test never asks which door it is. What not every door has, it states: `@pytest.mark.needs(…)`.
Time stands still until a test moves it. A door that cannot be opened fails its tests.
"""

import asyncio
import contextlib
import inspect
import itertools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import turnabout
import turnabout.aio
from tests.support import postgres
from tests.support.postgres import migrate
from tests.support.seeds import EVERYTHING

START: Final = 1_800_000_000_000
"""The time at which every door's clock starts: in 2027, so that no wall clock can pass for it."""


class Clock:
    """Milliseconds since 1970, which pass when a test says so."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float = 0, *, ms: int = 0) -> None:
        self.now += round(seconds * 1000) + ms


def blocking(runner: asyncio.Runner, thing: Any) -> Any:
    """An asyncio face for blocking callers. Nothing else in the tests knows a colour."""
    is_face = type(thing).__module__.startswith("turnabout._async")
    if is_face or inspect.iscoroutinefunction(getattr(thing, "run", None)):
        return Blocking(runner, thing)
    if isinstance(thing, turnabout.Batch):
        messages = [blocking(runner, m) for m in thing]
        return turnabout.Batch(messages, thing.retry_after_ms, thing.acked)
    if inspect.iscoroutine(thing):
        return blocking(runner, runner.run(thing))
    if inspect.isasyncgen(thing):
        return _iterate(runner, thing)
    if inspect.ismethod(thing):
        return lambda *args, **kw: blocking(runner, thing(*args, **kw))
    return thing


class Blocking:
    """What `blocking` puts around an object of the asyncio face."""

    def __init__(self, runner: asyncio.Runner, thing: Any) -> None:
        self._runner, self._thing = runner, thing

    def __getattr__(self, name: str) -> Any:
        return blocking(self._runner, getattr(self._thing, name))

    def __iter__(self) -> Any:
        return _iterate(self._runner, self._thing)

    def __enter__(self) -> Any:
        return blocking(self._runner, self._thing.__aenter__())

    def __exit__(self, *error: object) -> Any:
        return blocking(self._runner, self._thing.__aexit__(*error))

    def __repr__(self) -> str:
        return repr(self._thing)


def beside(queue: Any, name: str) -> Any:
    """Another queue, over the same connection."""
    if isinstance(queue, Blocking):
        return Blocking(queue._runner, beside(queue._thing, name))
    return type(queue)(queue._shared, name)


def _iterate(runner: asyncio.Runner, source: Any) -> Iterator[Any]:
    with contextlib.suppress(StopAsyncIteration):
        while True:
            yield blocking(runner, runner.run(anext(source)))


# --- recipes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """How to come to a door: a context with its URL, the colour, and what it can do."""

    place: Callable[[Path], AbstractContextManager[str]]
    asynchronous: bool = False
    has: frozenset[str] = frozenset({"sharing"})
    lives: int = 100  # random ones, in `test_life`
    full: bool = False  # each test runs here, not only the driving ones
    served: bool = False  # over HTTP: the URL is the database's, and we reach it by a server
    by_name: bool = False  # only where TURNABOUT_DOORS names it

    @property
    def offers(self) -> frozenset[str]:
        """What a test may need: where the database is reached itself, its administration, too."""
        return self.has if self.served else self.has | {"administration"}


def _file(folder: Path) -> AbstractContextManager[str]:
    return contextlib.nullcontext(f"sqlite:///{folder}/app.db")


def _unsynced(folder: Path) -> AbstractContextManager[str]:
    return contextlib.nullcontext(f"sqlite:///{folder}/app.db?synchronous=off")


def _memory(_: Path) -> AbstractContextManager[str]:
    return contextlib.nullcontext("sqlite://")


def _postgres(version: int) -> Callable[[Path], AbstractContextManager[str]]:
    def place(_: Path) -> AbstractContextManager[str]:
        return postgres.fresh_database(postgres._servers.get(version), fill=migrate)

    return place


# The others that nobody has to name: a file, with group commit and other processes; the older
# PostgreSQL; asyncio; each database behind a server, by a client of either colour.
DOORS: Final[dict[str, Recipe]] = {
    "sqlite-memory": Recipe(_memory, has=frozenset(), lives=100 if EVERYTHING else 48, full=True),
    "sqlite": Recipe(_file, lives=160),
    "sqlite-async": Recipe(_file, asynchronous=True, lives=60, by_name=True),
    "sqlite-unsynced": Recipe(_unsynced, by_name=True),
    "http-sqlite": Recipe(_file, lives=24, served=True),
    "http-sqlite-async": Recipe(_file, asynchronous=True, lives=24, served=True, by_name=True),
}
_NEWEST: Final = "postgres" if postgres.GIVEN else "postgres-18"
_newest: Final = _postgres(0 if postgres.GIVEN else 18)
DOORS |= {
    _NEWEST: Recipe(_newest, lives=60 if EVERYTHING else 16, full=True),
    f"{_NEWEST}-async": Recipe(_newest, asynchronous=True, lives=60),
    f"http-{_NEWEST}": Recipe(_newest, lives=24, served=True, by_name=True),
    f"http-{_NEWEST}-async": Recipe(_newest, asynchronous=True, lives=24, served=True),
}
if not postgres.GIVEN:
    DOORS["postgres-16"] = Recipe(_postgres(16), lives=30)


def chosen() -> list[str]:
    """The names of the doors of this run: the default ones, unless `TURNABOUT_DOORS` names some."""
    given = os.environ.get("TURNABOUT_DOORS")
    names = given.split(",") if given else [n for n, recipe in DOORS.items() if not recipe.by_name]
    if unknown := [name for name in names if name not in DOORS]:
        raise pytest.UsageError(f"TURNABOUT_DOORS: no door {unknown}; there are {list(DOORS)}")
    return names


# --- an open door --------------------------------------------------------------------------------


@dataclass
class Door:
    """A door, open: `mq` is the blocking face behind it, whatever its colour."""

    name: str
    url: str
    """The database's, also where it is reached by a server."""
    asynchronous: bool = False
    has: frozenset[str] = frozenset()
    lives: int = 100
    clock: Clock = field(default_factory=Clock)
    served: bool = False

    def __post_init__(self) -> None:
        self._close = contextlib.ExitStack()
        self._number = itertools.count(1)
        self._servers: dict[bool, str] = {}
        self._lock = threading.Lock()
        self.mq = self._close.enter_context(self.open())

    @contextlib.contextmanager
    def open(self, *, real_time: bool = False) -> Iterator[Any]:
        """One more connection to the same place (`needs("sharing")`), perhaps without our clock."""
        url, clock = self.url, None if real_time else self.clock
        if self.served:
            url, clock = self._server(real_time), None
        if not self.asynchronous:
            with turnabout.connect(url, clock=clock) as mq:
                yield mq
            return
        with asyncio.Runner() as runner:
            mq = blocking(runner, turnabout.aio.connect(url, clock=clock))
            try:
                yield mq
            finally:
                mq.close()

    def _server(self, real_time: bool) -> str:
        """The URL of a server with our clock, or of another one that has the database's."""
        from tests.support.served import served  # it takes half a second, which few need

        with self._lock:  # tests open connections in threads
            if real_time not in self._servers:
                clock = None if real_time else self.clock
                server = self._close.enter_context(served(self.url, clock=clock, background=False))
                self._servers[real_time] = server.url
            return self._servers[real_time]

    def name_of_a_queue(self) -> str:
        """A name that no other test at this door has."""
        return f"q{next(self._number)}"

    def fresh(self, **settings: Any) -> Any:
        """A new queue behind this door."""
        queue = self.mq.queue(self.name_of_a_queue())
        assert isinstance(queue.create(**settings), turnabout.Created)
        return queue

    def close(self) -> None:
        self._close.close()


@contextlib.contextmanager
def opened(name: str, folder: Path) -> Iterator[Door]:
    """The door of that name, over a fresh database."""
    recipe = DOORS[name]
    with recipe.place(folder) as url:
        door = Door(name, url, recipe.asynchronous, recipe.has, recipe.lives, served=recipe.served)
        with contextlib.closing(door):
            yield door


# --- what pytest gets ----------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(what): runs only at doors that have it: sharing, administration"
    )
    config.addinivalue_line("markers", "real_time: waits for the clock on the wall")


def pytest_report_header() -> str:
    return f"doors: {', '.join(chosen())} (SQLite {sqlite3.sqlite_version})"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One round for each door that has what the test needs. One door serves the whole run."""
    if "door" not in metafunc.fixturenames:
        return
    needed = {what for mark in metafunc.definition.iter_markers("needs") for what in mark.args}
    anywhere = EVERYTHING or "TURNABOUT_DOORS" in os.environ or "sharing" in needed
    anywhere = anywhere or metafunc.definition.get_closest_marker("driving") is not None
    rounds = [
        pytest.param(name, marks=[] if DOORS[name].full else [pytest.mark.slow])
        for name in chosen()
        if needed <= DOORS[name].offers and (anywhere or DOORS[name].full)
    ]
    if not rounds:  # only when TURNABOUT_DOORS names none that would do
        reason = f"none of the chosen doors has {', '.join(sorted(needed))}"
        rounds = [pytest.param("none", marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize("door", rounds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def door(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    """A place where Turnabout can be used. Tests share it: each works in queues of its own."""
    with opened(request.param, tmp_path_factory.mktemp("door")) as door:
        yield door


@pytest.fixture
def clock(door: Door) -> Iterator[Clock]:
    """The clock of the door. A test that sets it back must move it past the start again: until
    then a SQLite file's time runs at half speed, in the next test too (`sqlite/_clock.py`).
    """
    began = door.clock.now
    yield door.clock
    assert door.clock.now >= began


@pytest.fixture
def queue(door: Door) -> Any:
    """A new queue with default settings, but for a back-off without chance."""
    return door.fresh(backoff_jitter=0.0)
