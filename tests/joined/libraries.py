"""Every library whose connections Turnabout joins, opened on either database, for blocking tests.

A test says `execute`, `commit` and `rollback`; the library does it in its own way. `handle` is what
the test gives to `queue.within`.
"""

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

import aiosqlite
import asyncpg
import django
import django.db
import psycopg
import psycopg2
import sqlalchemy
import sqlalchemy.orm
from django.conf import settings
from django.db import transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import turnabout
import turnabout.aio
from tests.support.doors import blocking

_number = itertools.count(1)


@dataclass
class Connected:
    """A connection of some library to the database where the queues live."""

    mq: Any
    """Turnabout, in the library's colour, spoken to by blocking callers."""
    handle: Any
    execute: Callable[[str], Any]
    """Run a statement of the business's own; what it selects."""
    commit: Callable[[], Any]
    rollback: Callable[[], Any]

    def queue(self, name: str) -> Any:
        """The queue, joined to the library's transaction."""
        return self.mq.queue(name).within(self.handle)


Opener = Callable[[str], contextlib.AbstractContextManager[Connected]]
Kind = Literal["connection", "session"]


def file_of(url: str) -> Path:
    """The file of an SQLite URL."""
    return Path(url.removeprefix("sqlite:///"))


def _all(cursor: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


# --- blocking ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _psycopg(url: str) -> Iterator[Connected]:
    with turnabout.connect(url) as mq, psycopg.connect(url, row_factory=psycopg.rows.dict_row) as c:

        def execute(sql: str) -> Any:
            with c.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
                return _all(cursor.execute(sql))

        yield Connected(mq, c, execute, c.commit, c.rollback)
        c.rollback()


@contextlib.contextmanager
def _psycopg2(url: str) -> Iterator[Connected]:
    from psycopg2.extras import RealDictCursor

    with turnabout.connect(url) as mq:
        c = psycopg2.connect(url, cursor_factory=RealDictCursor)

        def execute(sql: str) -> Any:
            with c.cursor(cursor_factory=psycopg2.extensions.cursor) as cursor:
                cursor.execute(sql)
                return _all(cursor)

        yield Connected(mq, c, execute, c.commit, c.rollback)
        c.close()


def _sqlalchemy_url(url: str, driver: str) -> sqlalchemy.URL:
    """SQLAlchemy wants the folder of a socket as an option."""
    if url.startswith("sqlite"):
        return sqlalchemy.make_url(url.replace("sqlite:", f"sqlite+{driver}:"))
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", None)
    if driver == "asyncpg" and host:
        options["host"] = host
    made = sqlalchemy.make_url(parts._replace(query="", scheme=f"postgresql+{driver}").geturl())
    return made.update_query_dict({"host": host} if host else {})


def _alchemy(driver: str, kind: Kind = "connection") -> Opener:
    @contextlib.contextmanager
    def opened(url: str) -> Iterator[Connected]:
        engine = sqlalchemy.create_engine(
            _sqlalchemy_url(url, driver), poolclass=sqlalchemy.NullPool
        )
        made = engine.connect() if kind == "connection" else sqlalchemy.orm.Session(engine)
        with turnabout.connect(url) as mq, made as c:

            def execute(sql: str) -> Any:
                if isinstance(c, sqlalchemy.Connection):
                    return _selected(c.exec_driver_sql(sql))
                return _selected(c.execute(sqlalchemy.text(sql)))

            yield Connected(mq, c, execute, c.commit, c.rollback)
        engine.dispose()

    return opened


def _selected(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


if not settings.configured:
    settings.configure(USE_TZ=True)
    django.setup()


def _django(engine: str) -> Opener:
    @contextlib.contextmanager
    def opened(url: str) -> Iterator[Connected]:
        alias = f"joined_{next(_number)}"
        parts = urlsplit(url)
        connections = django.db.connections
        connections.databases[alias] = connections.configure_settings(
            {
                "default": {},
                alias: {
                    "ENGINE": f"django.db.backends.{engine}",
                    "NAME": str(file_of(url)) if engine == "sqlite3" else parts.path[1:],
                    "USER": parts.username or "",
                    "PASSWORD": parts.password or "",
                    "HOST": parts.hostname or dict(parse_qsl(parts.query)).get("host", ""),
                    "PORT": parts.port or "",
                },
            }
        )[alias]
        connection = connections[alias]
        block: list[Any] = []

        def begin() -> None:
            block.append(transaction.atomic(using=alias))
            block[-1].__enter__()

        def execute(sql: str) -> Any:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return _all(cursor)

        def end(*, back: bool) -> None:
            transaction.set_rollback(back, using=alias)
            block.pop().__exit__(None, None, None)
            begin()

        with turnabout.connect(url) as mq:
            begin()
            yield Connected(
                mq, connection, execute, lambda: end(back=False), lambda: end(back=True)
            )
            transaction.set_rollback(True, using=alias)
            block.pop().__exit__(None, None, None)
            connection.close()

    return opened


@contextlib.contextmanager
def _sqlite3(url: str) -> Iterator[Connected]:
    with turnabout.connect(url) as mq, contextlib.closing(sqlite3.connect(file_of(url))) as c:
        c.row_factory = lambda cursor, row: dict(
            zip([column[0] for column in cursor.description], row, strict=True)
        )

        def execute(sql: str) -> Any:
            return [tuple(row.values()) for row in c.execute(sql).fetchall()]

        yield Connected(mq, c, execute, c.commit, c.rollback)


# --- asyncio -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _running(url: str) -> Iterator[tuple[asyncio.Runner, Any]]:
    with asyncio.Runner() as runner:
        mq = turnabout.aio.connect(url)
        try:
            yield runner, blocking(runner, mq)
        finally:
            runner.run(mq.close())


def _spoken_to(
    runner: asyncio.Runner, mq: Any, connection: Any, execute: Callable[[str], Any]
) -> Connected:
    return Connected(
        mq,
        connection,
        lambda sql: runner.run(execute(sql)),
        lambda: runner.run(connection.commit()),
        lambda: runner.run(connection.rollback()),
    )


@contextlib.contextmanager
def _psycopg_async(url: str) -> Iterator[Connected]:
    with _running(url) as (runner, mq):
        c: Any = runner.run(psycopg.AsyncConnection.connect(url))

        async def execute(sql: str) -> Any:
            cursor = await c.execute(sql)
            return await cursor.fetchall() if cursor.description else []

        yield _spoken_to(runner, mq, c, execute)
        runner.run(c.close())


@contextlib.contextmanager
def _asyncpg(url: str) -> Iterator[Connected]:
    with _running(url) as (runner, mq):
        c = runner.run(asyncpg.connect(url))

        async def execute(sql: str) -> Any:
            return [tuple(record) for record in await c.fetch(sql)]

        async def end(word: str) -> None:
            await c.execute(word)
            await c.execute("begin")

        runner.run(c.execute("begin"))
        yield Connected(
            mq,
            c,
            lambda sql: runner.run(execute(sql)),
            lambda: runner.run(end("commit")),
            lambda: runner.run(end("rollback")),
        )
        runner.run(c.close())


def _alchemy_async(driver: str, kind: Kind) -> Opener:
    @contextlib.contextmanager
    def opened(url: str) -> Iterator[Connected]:
        engine = create_async_engine(_sqlalchemy_url(url, driver), poolclass=sqlalchemy.NullPool)
        with _running(url) as (runner, mq):
            if kind == "connection":
                c: Any = runner.run(_started(engine.connect()))
            else:
                c = AsyncSession(engine)

            async def execute(sql: str) -> Any:
                return _selected(await c.execute(sqlalchemy.text(sql)))

            yield _spoken_to(runner, mq, c, execute)
            runner.run(c.close())
            runner.run(engine.dispose())

    return opened


async def _started(connection: Any) -> Any:
    return await connection


@contextlib.contextmanager
def _aiosqlite(url: str) -> Iterator[Connected]:
    with _running(url) as (runner, mq):
        c = runner.run(_started(aiosqlite.connect(file_of(url))))

        async def execute(sql: str) -> Any:
            return [tuple(row) for row in await (await c.execute(sql)).fetchall()]

        yield _spoken_to(runner, mq, c, execute)
        runner.run(c.close())


ON_POSTGRES: Final[dict[str, Opener]] = {
    "psycopg": _psycopg,
    "psycopg2": _psycopg2,
    "sqlalchemy-psycopg": _alchemy("psycopg"),
    "sqlalchemy-psycopg2": _alchemy("psycopg2"),
    "session-psycopg": _alchemy("psycopg", "session"),
    "session-psycopg2": _alchemy("psycopg2", "session"),
    "django-postgresql": _django("postgresql"),
    "psycopg-async": _psycopg_async,
    "asyncpg": _asyncpg,
    "sqlalchemy-asyncpg": _alchemy_async("asyncpg", "connection"),
    "sqlalchemy-psycopg-async": _alchemy_async("psycopg", "connection"),
    "session-asyncpg": _alchemy_async("asyncpg", "session"),
}

ON_SQLITE: Final[dict[str, Opener]] = {
    "sqlite3": _sqlite3,
    "sqlalchemy-pysqlite": _alchemy("pysqlite"),
    "session-pysqlite": _alchemy("pysqlite", "session"),
    "django-sqlite": _django("sqlite3"),
    "aiosqlite": _aiosqlite,
    "sqlalchemy-aiosqlite": _alchemy_async("aiosqlite", "connection"),
    "session-aiosqlite": _alchemy_async("aiosqlite", "session"),
}
