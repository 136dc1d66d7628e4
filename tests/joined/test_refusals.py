"""What `within` refuses, and in which words; and that the caller's connection stays as it was."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from django.db import connections
from sqlalchemy import NullPool

import turnabout
import turnabout.aio
from tests.joined.conftest import postgres_place, sqlite_place
from tests.joined.libraries import ON_POSTGRES, _sqlalchemy_url, file_of
from turnabout.adapters import Paramstyle
from turnabout.postgres import install
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.joined import Borrowed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pg() -> Iterator[str]:
    with postgres_place() as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return sqlite_place(tmp_path)


def refusal(url: str, connection: object) -> str:
    with turnabout.connect(url) as mq, pytest.raises(turnabout.UsageError) as refused:
        mq.queue("q").within(connection).send("x")
    return str(refused.value)


def refusal_async(url: str, connection: object) -> str:
    async def main() -> None:
        async with turnabout.aio.connect(url) as mq:
            await mq.queue("q").within(connection).send("x")

    with pytest.raises(turnabout.UsageError) as refused:
        asyncio.run(main())
    return str(refused.value)


def test_an_unknown_object_is_told_the_protocol(file: str) -> None:
    words = refusal(file, object())
    assert "builtins.object is not a connection that Turnabout knows" in words
    assert "turnabout.adapters.Client: paramstyle, is_in_transaction, fetch" in words
    assert "turnabout.adapters.AsyncClient" in refusal_async(file, "sqlite://")


def test_an_engine_is_no_connection(pg: str) -> None:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(pg, "psycopg"))
    assert "not an engine or pool" in refusal(pg, engine)


def test_colours_are_not_mixed(pg: str, file: str) -> None:
    async def main() -> tuple[str, str]:
        connection = await asyncpg.connect(pg)
        other = await aiosqlite.connect(file_of(file))
        try:
            return refusal(pg, connection), refusal(file, other)
        finally:
            await connection.close()
            await other.close()

    for words in asyncio.run(main()):
        assert "is for asyncio: use a queue of turnabout.aio" in words
    with psycopg.connect(pg) as connection, closing(sqlite3.connect(file_of(file))) as other:
        assert "blocks: use a queue of turnabout.connect" in refusal_async(pg, connection)
        assert "blocks: use a queue of turnabout.connect" in refusal_async(file, other)


def test_stores_are_not_mixed(pg: str, file: str) -> None:
    with psycopg.connect(pg) as connection, closing(sqlite3.connect(file_of(file))) as other:
        assert "PostgreSQL, and this queue lives in SQLite" in refusal(file, connection)
        assert "SQLite, and this queue lives in PostgreSQL" in refusal(pg, other)


def test_autocommit_without_a_transaction(pg: str, file: str) -> None:
    with psycopg.connect(pg, autocommit=True) as connection:
        assert "no transaction is open: open one" in refusal(pg, connection)
    with closing(psycopg2.connect(pg)) as connection:
        connection.autocommit = True
        assert "no transaction is open: open one" in refusal(pg, connection)
    with closing(sqlite3.connect(file_of(file), isolation_level=None)) as connection:
        assert "no transaction is open: open one" in refusal(file, connection)
    engine = sqlalchemy.create_engine(_sqlalchemy_url(pg, "psycopg"), poolclass=NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert "no transaction is open: open one" in refusal(pg, connection)
    for url, driver in ((pg, "psycopg2"), (file, "pysqlite")):
        engine = sqlalchemy.create_engine(
            _sqlalchemy_url(url, driver), isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        with engine.connect() as connection:
            assert "no transaction is open: open one" in refusal(url, connection)
    with ON_POSTGRES["django-postgresql"](pg) as joined:
        django = connections.create_connection(joined.handle.alias)
        assert "no transaction is open: open one" in refusal(pg, django)
        django.close()


async def test_autocommit_without_a_transaction_on_asyncio(pg: str, file: str) -> None:
    connection = await asyncpg.connect(pg)
    psycopg3 = await psycopg.AsyncConnection.connect(pg, autocommit=True)
    other = await aiosqlite.connect(file_of(file), isolation_level=None)
    try:
        for url, one in ((pg, connection), (pg, psycopg3), (file, other)):
            async with turnabout.aio.connect(url) as mq:
                with pytest.raises(turnabout.UsageError, match="no transaction is open"):
                    await mq.queue("q").within(one).send("x")
    finally:
        await connection.close()
        await psycopg3.close()
        await other.close()


def test_a_transaction_in_autocommit_is_one(pg: str, file: str) -> None:
    with turnabout.connect(pg) as mq, psycopg.connect(pg, autocommit=True) as connection:
        with connection.transaction():
            mq.queue("auto").within(connection).send("x")
        assert len(mq.queue("auto").peek()) == 1
    with (
        turnabout.connect(file) as mq,
        closing(sqlite3.connect(file_of(file), isolation_level=None)) as connection,
    ):
        connection.execute("begin immediate")
        mq.queue("auto").within(connection).send("x")
        connection.execute("commit")
        assert len(mq.queue("auto").peek()) == 1


def test_another_database(pg: str, file: str, tmp_path: Path) -> None:
    with psycopg.connect(pg, autocommit=True) as admin:
        admin.execute("drop database if exists elsewhere")
        admin.execute("create database elsewhere")
        elsewhere = pg.replace(str(admin.info.dbname), "elsewhere")
        with (
            psycopg.connect(elsewhere) as connection,
            turnabout.connect(pg) as mq,
            pytest.raises(turnabout.WrongVersion, match="connect to the one where the queue lives"),
        ):
            mq.queue("q").within(connection).send("x")
        admin.execute("drop database elsewhere with (force)")
    for place in (tmp_path / "other.db", ":memory:"):
        with closing(sqlite3.connect(place)) as connection:
            assert "and the queue lives in" in refusal(file, connection)
    with closing(sqlite3.connect(file_of(file))) as connection:
        assert "in memory, which no other connection shares" in refusal("sqlite://", connection)


def test_a_missing_queue_is_named(pg: str, file: str) -> None:
    with psycopg.connect(pg) as connection, turnabout.connect(pg) as mq:
        with pytest.raises(turnabout.QueueNotFound, match="'nothing'"):
            mq.queue("nothing").within(connection).receive()
        connection.rollback()
    with closing(sqlite3.connect(file_of(file))) as connection, turnabout.connect(file) as mq:
        queue = mq.queue("nothing").within(connection)
        connection.execute("insert into business values (1, 'a')")
        with pytest.raises(turnabout.QueueNotFound, match="'nothing'"):
            queue.channel("c").set_policy(turnabout.Policy(weight=2))
        connection.commit()  # a verb that fails there undoes itself only
        assert connection.execute("select count(*) from business").fetchone() == (1,)


def test_a_snapshot_that_is_older_than_the_queue(pg: str) -> None:
    with psycopg.connect(pg) as connection, turnabout.connect(pg) as mq:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select 1 from business")
        queue = mq.queue("younger").within(connection)
        with pytest.raises(turnabout.Busy, match="roll your transaction back and repeat it"):
            queue.send("x")
        connection.rollback()
        assert isinstance(queue.send("x"), turnabout.Sent)
        connection.commit()


def test_a_role_that_may_only_produce_or_consume(pg: str) -> None:
    with psycopg.connect(pg, autocommit=True) as admin, turnabout.connect(pg) as mq:
        mq.queue("roles").create()
        urls: list[str] = []
        for kind in ("produce", "consume"):
            role: Any = f"turnabout_may_{kind}_{os.getpid()}"
            admin.execute(f"create role {role} login password 'x'")
            install.allow(pg, role, kind)
            place = urlsplit(pg).netloc.rpartition("@")[2]
            urls.append(urlsplit(pg)._replace(netloc=f"{role}:x@{place}").geturl())
        with turnabout.connect(urls[0]) as theirs, psycopg.connect(urls[0]) as connection:
            queue = theirs.queue("roles").within(connection)
            assert isinstance(queue.send("x"), turnabout.Sent)
        with turnabout.connect(urls[1]) as theirs, psycopg.connect(urls[1]) as connection:
            (message,) = theirs.queue("roles").within(connection).receive()
            assert message.ack() == turnabout.Acked()
        for url in urls:
            role = urlsplit(url).username
            admin.execute(f"drop owned by {role}; drop role {role}")


def test_a_conflict_of_serializable_transactions_says_repeat(pg: str) -> None:
    with psycopg.connect(pg) as connection, turnabout.connect(pg) as mq:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        mq.queue("conflict").send("x")
        (message,) = mq.queue("conflict").receive()
        connection.execute("select 1 from business")
        message.extend(lease_seconds=1000)
        queue = mq.queue("conflict").within(connection)
        with pytest.raises(turnabout.Busy, match="roll your transaction back and repeat it"):
            queue.ack([message.receipt])
        connection.rollback()


def test_a_broken_transaction_speaks_for_itself(pg: str) -> None:
    with psycopg.connect(pg) as connection, turnabout.connect(pg) as mq:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            mq.queue("q").within(connection).send("x")


def test_the_writer_s_lock_is_not_free(file: str) -> None:
    with (
        closing(sqlite3.connect(file_of(file), timeout=0.01)) as connection,
        closing(sqlite3.connect(file_of(file), isolation_level=None)) as other,
        turnabout.connect(file) as mq,
    ):
        other.execute("begin immediate")
        with pytest.raises(turnabout.Busy, match="Roll your transaction back and repeat it"):
            mq.queue("q").within(connection).send("x")
        other.execute("rollback")


def test_settings_of_the_connection_stay(file: str) -> None:
    def rows(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> list[Any]:
        return list(row)

    with closing(sqlite3.connect(file_of(file))) as connection, turnabout.connect(file) as mq:
        connection.row_factory, connection.text_factory = rows, bytes
        queue = mq.queue("q").within(connection)
        queue.send("x", channel="ü")
        (message,) = queue.receive()
        assert message.channel == "ü"
        assert (connection.row_factory, connection.text_factory) == (rows, bytes)
        assert connection.isolation_level == ""
        assert connection.execute("select 'a'").fetchone() == [b"a"]
        connection.rollback()


class Odd(psycopg.adapt.Loader):
    """What a program may read its own values by."""

    format = psycopg.pq.Format.BINARY

    def load(self, data: Any) -> Any:
        return "odd"


@pytest.mark.slow
def test_what_the_owner_reads_his_values_by_is_his(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psycopg.types.json._JsonLoader.loads", lambda _: "odd", raising=False)
    monkeypatch.setattr("psycopg.types.json._JsonLoader._loads", lambda *_: "odd", raising=False)
    names = ("int8", "int4", "int2", "bool", "text", "bytea")
    with psycopg.connect(migrated_url) as three, turnabout.connect(migrated_url) as mq:
        for name in names:
            three.adapters.register_loader(name, Odd)
        two = psycopg2.connect(migrated_url)
        for types in ((20, 23, 21, 16, 25, 17), (1016, 1007, 1005, 1000, 1009, 1001)):
            odd = psycopg2.extensions.new_type(types, "odd", lambda *_: "odd")
            psycopg2.extensions.register_type(odd, two)
        for n, connection in enumerate((three, two)):
            queue = mq.queue(f"q{n}").within(connection)
            connection.cursor().execute("set standard_conforming_strings = off")
            assert queue.send("x", channel="c").ids == (3 * n + 1,)
            assert queue.send_many([turnabout.message("\\y")] * 2).duplicates == ()
            connection.commit()
            queue.channel("c").set_policy(turnabout.Policy(max_concurrency=n + 2))
            assert mq.queue(f"q{n}").channel("c").policy().max_concurrency is None
            taken = [(m.id, m.text(), m.channel) for m in queue.receive(3)]
            assert [text for _, text, _ in sorted(taken)] == ["x", "\\y", "\\y"]
            assert min(taken) == (3 * n + 1, "x", "c")
            connection.rollback()
        two.close()


def test_a_borrowed_connection_offers_what_procedures_use() -> None:
    with closing(Connection(":memory:")) as own:
        names = {*vars(own), *vars(Connection)} - {"__doc__", "__init__", "row_factory"}
        names -= {name for name in names if name.startswith("__")}
        names -= {"applied", "read_only"}  # that is told to who opened it
        assert names >= {"to_notify", "random"}
        assert names <= {*vars(Borrowed(own)), *vars(Borrowed)}


class OwnClient:
    """A client of one's own: here psycopg2, with the parameters' style of another."""

    def __init__(self, connection: Any, paramstyle: Paramstyle) -> None:
        self.connection = connection
        self.paramstyle: Paramstyle = paramstyle
        self.seen: list[str] = []

    def is_in_transaction(self) -> bool:
        return True

    def fetch(self, sql: str, parameters: Any) -> Any:
        self.seen.append(sql)
        match self.paramstyle:
            case "named":
                sql = sql.replace("%", "%%")
                for name in sorted(parameters, key=len, reverse=True):
                    sql = sql.replace(f":{name}", f"%({name})s")
            case "qmark":
                sql = sql.replace("%", "%%").replace("?", "%s")
            case _:
                pass
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()


@pytest.mark.parametrize("style", ["named", "qmark", "format", "pyformat"])
def test_any_other_client(pg: str, style: Paramstyle) -> None:
    with closing(psycopg2.connect(pg)) as connection, turnabout.connect(pg) as mq:
        client = OwnClient(connection, style)
        name = f"own-{style}"
        queue = mq.queue(name).within(client)
        assert isinstance(queue.send("x", headers={"a": "b"}), turnabout.Sent)
        queue.channel("c").set_policy(turnabout.Policy(weight=2))
        connection.commit()
        (message,) = queue.receive()
        assert (message.text(), message.headers) == ("x", {"a": "b"})
        message.defer(state=b"s")
        connection.commit()
        assert mq.queue(name).peek()[0].saved_state == b"s"
        assert all("$" not in sql for sql in client.seen)


async def test_any_other_client_for_asyncio(pg: str) -> None:
    class Own:
        paramstyle = "numeric_dollar"

        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def is_in_transaction(self) -> bool:
            return self.connection.is_in_transaction()

        async def fetch(self, sql: str, parameters: Any) -> Any:
            return await self.connection.fetch(sql, *parameters)

    connection = await asyncpg.connect(pg)
    async with turnabout.aio.connect(pg) as mq, connection.transaction():
        assert await mq.queue("own").within(Own(connection)).send("x")
    await connection.close()


def test_a_client_of_the_wrong_colour(pg: str) -> None:
    class Coroutines:
        paramstyle = "format"
        is_in_transaction = bool

        async def fetch(self, sql: str, parameters: Any) -> Any: ...

    with psycopg2.connect(pg) as connection:
        assert "fetch is a coroutine" in refusal(pg, Coroutines())
        assert "fetch blocks" in refusal_async(pg, OwnClient(connection, "format"))


def test_a_wrong_paramstyle(pg: str) -> None:
    with psycopg2.connect(pg) as connection:
        style: Any = "dollar"
        assert "is not a paramstyle" in refusal(pg, OwnClient(connection, style))
