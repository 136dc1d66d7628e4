"""From a URL to a store: the only file that names the stores. Each is imported when asked for.

sqlite:///relative/app.db     a file, made if missing (four slashes: an absolute path)
sqlite://                     in memory, private to this connection
postgresql://user@host/db     a PostgreSQL database that `penstock migrate up` was run on
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from penstock._sync import Penstock
from penstock.words import limits
from penstock.words.errors import UsageError

if TYPE_CHECKING:
    from penstock._async import AsyncPenstock

Clock = Callable[[], int]
"""Milliseconds since 1970; given by tests. Unless given, time is the database's."""


def connect(
    url: str, *, clock: Clock | None = None, max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
) -> Penstock:
    """Open a store for blocking callers; close it, or use it in a `with` block.

    An SQLite file is made and migrated when it is opened; PostgreSQL is not touched until the
    first call, and must have been migrated (`penstock migrate up --url …`).

    Raises: UsageError for a URL that names no store; Forbidden, Unavailable, WrongVersion.
    """
    if _is_sqlite(url):
        from penstock.sqlite.store import SqliteStore

        return Penstock(SqliteStore(url, clock=clock), max_payload_bytes=max_payload_bytes)
    _need_psycopg()
    from penstock.postgres.store import PostgresStore

    return Penstock(PostgresStore(url, clock=clock), max_payload_bytes=max_payload_bytes)


def connect_async(
    url: str, *, clock: Clock | None = None, max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
) -> AsyncPenstock:
    """`connect` for asyncio, for an `async with` block. Opens nothing until the first call."""
    from penstock._async import AsyncPenstock

    if _is_sqlite(url):
        from penstock.sqlite.async_store import AsyncSqliteStore

        return AsyncPenstock(
            AsyncSqliteStore(url, clock=clock), max_payload_bytes=max_payload_bytes
        )
    _need_psycopg()
    from penstock.postgres.async_store import AsyncPostgresStore

    return AsyncPenstock(AsyncPostgresStore(url, clock=clock), max_payload_bytes=max_payload_bytes)


def installer(url: str) -> ModuleType:
    """The store's module that keeps its schema: `migrations`, `up`, `status`, `script`."""
    if _is_sqlite(url):
        from penstock.sqlite import install as sqlite_install

        return sqlite_install
    _need_psycopg()
    from penstock.postgres import install as postgres_install

    return postgres_install


def _is_sqlite(url: object) -> bool:
    """True for SQLite, False for PostgreSQL; anything else is refused, its password not shown."""
    if not isinstance(url, str):
        raise UsageError(f"a URL is a str, not {type(url).__name__}")
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return True
    if scheme in ("postgresql", "postgres"):
        return False
    _refuse(scheme)


def _refuse(scheme: str) -> NoReturn:
    raise UsageError(
        f"no store for {scheme or 'a URL without a scheme'!r}: "
        "use sqlite:///path, sqlite:// (memory) or postgresql://…"
    )


def _need_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs the psycopg package: pip install 'penstock[postgres]'")
