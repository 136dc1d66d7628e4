"""Opening stores by URL: the only file that names them. Each is imported when needed.

sqlite:///relative/app.db     a file, made if missing (four slashes: an absolute path)
sqlite://                     in memory, private to this connection
postgresql://user@host/db     a PostgreSQL database that `turnabout migrate up` was run on
http://host:8080              a server (`turnabout serve`), with a token if it wants one
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

from turnabout import slices
from turnabout._sync import Turnabout
from turnabout.slices import Slice
from turnabout.store import AsyncStore, Store
from turnabout.words import limits
from turnabout.words.errors import Unavailable, UsageError
from turnabout.words.extras import install_hint
from turnabout.words.findings import Finding, Question
from turnabout.words.verbs import QueueList

if TYPE_CHECKING:
    from turnabout._async import AsyncTurnabout

Tracing = Literal["off", "link", "parent"]
"""Relation of a handler's span to the sender's: linked, in a trace of its own, or its child."""

Clock = Callable[[], int]
"""Milliseconds since 1970; given by tests. Unless given, time is the database's."""

AWAY_SECONDS = 0.5
"""Time between two checks whether a database is back."""

_DATABASES = "give it sqlite:///path/to/file.db or postgresql://user@host/db"


def connect(
    url: str,
    *,
    clock: Clock | None = None,
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX,
    token: str | None = None,
    tracing: Tracing = "off",
) -> Turnabout:
    """Open a store for blocking callers; close it, or use it in a `with` block.

    An SQLite file is made and migrated when it is opened. PostgreSQL is not touched until the
    first call, and must have been migrated (`turnabout migrate up --url …`); nor is a server.

    token:  for a server (`http://…`, `https://…`). It may also be in the URL, as
            `https://tbt_…@host`, or in the environment, as TURNABOUT_TOKEN.
    tracing: `link` or `parent`: spans, and their context in messages' headers, by OpenTelemetry; a
            worker's handler is in a trace of its own, linked to the sender's, or in the sender's.
    Raises: UsageError for a URL that names no store; Forbidden, Unavailable, WrongVersion.
    """
    spans = _spans(tracing, url)  # or refused before a file is made
    store = _store(url, clock, token)
    if spans is not None:
        store = spans.traced(store)
    return Turnabout(store, max_payload_bytes=max_payload_bytes)


def connect_async(
    url: str,
    *,
    clock: Clock | None = None,
    max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX,
    token: str | None = None,
    tracing: Tracing = "off",
) -> AsyncTurnabout:
    """`connect` for asyncio, for an `async with` block. Opens nothing until the first call."""
    from turnabout._async import AsyncTurnabout

    spans = _spans(tracing, url)
    store = _async_store(url, clock, token)  # opens nothing yet
    if spans is not None:
        store = spans.traced_async(store)
    return AsyncTurnabout(store, max_payload_bytes=max_payload_bytes)


def database(url: str, clock: Clock | None = None) -> Store:
    """The store of a database itself, for slices: it carries out verbs of theirs that no
    server does.

    Opens as `connect` does. Raises: UsageError for a server, and for memory.
    """
    _database_kind(url, clock)
    return _store(url, clock, None)


def place(url: str) -> tuple[Literal["sqlite", "postgresql"], str]:
    """Return a database's place, for programs that read it in bulk by other means: the absolute
    path of a file, or a libpq connection string. Opens nothing. Raises: as `database`.
    """
    kind = _database_kind(url)
    if kind == "sqlite":
        from turnabout.sqlite.store import path_of

        return kind, path_of(url)
    from turnabout.postgres.url import parse

    return kind, parse(url).conninfo


def tracing_slice() -> ModuleType:
    """The part of a slice that traces. Raises: UsageError where there is none."""
    for module in slices.modules("tracing"):
        return module
    raise UsageError("this installation lacks what traces: leave `tracing` out")


def _spans(tracing: Tracing, url: str) -> Any:
    """The maker of spans; None without tracing. Raises: UsageError."""
    limits.choice(tracing, "tracing", get_args(Tracing))
    if tracing == "off":
        return None
    return tracing_slice().Spans(parent=tracing == "parent", url=url)


def _store(url: str, clock: Clock | None, token: str | None) -> Store:
    kind = _kind(url, clock, token)
    if kind == "sqlite":
        from turnabout.sqlite.store import SqliteStore

        return SqliteStore(url, clock=clock)
    if kind == "http":
        from turnabout.remote._sync.store import RemoteStore

        return RemoteStore(url, token=token)
    from turnabout.postgres._sync.store import PostgresStore

    return PostgresStore(url, clock=clock)


def _async_store(url: str, clock: Clock | None, token: str | None) -> AsyncStore:
    kind = _kind(url, clock, token)
    if kind == "sqlite":
        from turnabout.sqlite.async_store import AsyncSqliteStore

        return AsyncSqliteStore(url, clock=clock)
    if kind == "http":
        from turnabout.remote._async.store import AsyncRemoteStore

        return AsyncRemoteStore(url, token=token)
    from turnabout.postgres._async.store import AsyncPostgresStore

    return AsyncPostgresStore(url, clock=clock)


def _database_kind(url: str, clock: Clock | None = None) -> Literal["sqlite", "postgresql"]:
    kind = _kind(url, clock)
    if kind == "http":
        raise UsageError(f"this works on the database itself, not on a server: {_DATABASES}")
    if kind == "sqlite":
        from turnabout.sqlite.store import is_in_memory

        if is_in_memory(url):
            raise UsageError(f"no other process reaches a database in memory: {_DATABASES}")
    return kind


def installer(url: str) -> ModuleType:
    """The store's module that keeps its schema: `migrations`, `up`, `status`, `script`."""
    kind = _kind(url)
    if kind == "sqlite":
        from turnabout.sqlite import install as sqlite_install

        return sqlite_install
    if kind == "http":
        raise UsageError(
            "a server keeps no schema: name the database behind it, sqlite:///path or "
            "postgresql://…"
        )
    from turnabout.postgres import install as postgres_install

    return postgres_install


def findings(url: str) -> Iterator[Finding]:
    """The findings of a store's doctor in a file, or on a PostgreSQL server."""
    return _doctor(url).findings(url)


def counts_of(url: str, slice_: Slice, questions: Mapping[str, Question]) -> Iterator[Finding]:
    """The counts of a slice's questions. Its tables must be there: the schema is up to date."""
    return _doctor(url).counts_of(url, slice_, questions)


def _doctor(url: str) -> ModuleType:
    if _kind(url) == "sqlite":
        from turnabout.sqlite import doctor as sqlite_doctor

        return sqlite_doctor
    from turnabout.postgres import doctor as postgres_doctor

    return postgres_doctor


def _kind(
    url: object, clock: Clock | None = None, token: str | None = None
) -> Literal["sqlite", "postgresql", "http"]:
    """The kind of store; refused, without showing secrets, if its package is missing."""
    if not isinstance(url, str):
        raise UsageError(f"a URL is a str, not {type(url).__name__}")
    scheme = _scheme(url)
    if scheme in ("http", "https"):
        _need("httpx2", "http://…", "client")
        if clock is not None:
            raise UsageError("a server has its own clock: leave `clock` out")
        return "http"
    if token is not None and scheme in ("sqlite", "postgresql", "postgres"):
        raise UsageError("a token is for a server, http://… or https://…: a database has none")
    if scheme == "sqlite":
        return "sqlite"
    if scheme in ("postgresql", "postgres"):
        _need("psycopg", "PostgreSQL", "postgres")
        return "postgresql"
    ours, plus, driver = scheme.partition("+")
    if plus and ours in ("sqlite", "postgresql", "postgres"):
        raise UsageError(f"{scheme}://… is SQLAlchemy's form: leave out +{driver}")
    what = f"no store for {scheme!r}" if scheme else "the URL has no scheme"
    raise UsageError(
        f"{what}: use sqlite:///path, sqlite:// (memory), postgresql://… or http://host:port"
    )


def reach(url: str, *, migrate: bool, tell: Callable[[Unavailable], None]) -> None:
    """Return when the database is there, with `migrate` brought to this version's schema first;
    `tell` hears why it was not, once. Raises: as `connect` and `Installer.up`, but Unavailable.
    """
    for number in count():
        try:
            if migrate:
                installer(url).up(url)
            with connect(url) as turnabout:
                turnabout._store.run(QueueList(limit=1))
        except Unavailable as error:
            if not number:
                tell(error)
            time.sleep(AWAY_SECONDS)
        else:
            return


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:
        # Its text would quote the URL, secrets and all.
        raise UsageError("the URL cannot be read: it has a stray bracket or character") from None


def _need(package: str, what: str, extra: str) -> None:
    if find_spec(package) is None:
        raise UsageError(f"{what} needs the {package} package: {install_hint(extra)}")
