"""The PostgreSQL database that is moved to: one transaction, filled by COPY."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from sqlite3 import Row
from typing import Any

import psycopg
from psycopg import sql

from turnabout.move import _rows
from turnabout.move._rows import Converter, Maker
from turnabout.postgres import install
from turnabout.postgres.errors import translated
from turnabout.postgres.revision import rendered
from turnabout.postgres.url import address, parse
from turnabout.statements import statements_in
from turnabout.words.errors import Busy, WrongVersion
from turnabout.words.urls import without_secrets

SQL = {
    name: rendered(text)
    for name, text in statements_in(Path(__file__).with_name("postgres.sql")).items()
}
_WHERE = ("host", "hostaddr", "port", "dbname", "service")


class Target:
    """One connection to the database."""

    def __init__(self, url: str) -> None:
        """Connect. Raises: WrongVersion if it is not migrated; Disconnected, Forbidden."""
        self._url = url
        self.place = _place(url)
        status = install.status(url)
        if status.pending or status.too_new:
            raise WrongVersion(
                f"the database {without_secrets(url)} is not at this library's version: "
                f"run `turnabout migrate up --url '{without_secrets(url)}'`"
            )
        self._connection = self._connect()
        self.queues: dict[int, int] = {}
        """Numbers of queues here, by their numbers in the file."""
        self.xid = ""

    def close(self) -> None:
        """Close the connection, and undo what is not committed."""
        self._connection.close()

    def reconnect(self) -> None:
        """Begin with a new connection, whatever has become of this one."""
        self.close()
        self._connection = self._connect()

    @contextmanager
    def alone(self) -> Generator[None]:
        """One transaction, while no other move writes here. The caller commits what it writes.

        Raises: Busy: there is another move.
        """
        with translated(self._url):
            self._connection.execute("begin isolation level read committed")
            try:
                self.run("be_durable")
                if not self.one("lock"):
                    raise Busy(f"a move to {self.place} is running: wait for its end")
                yield
            finally:
                with suppress(psycopg.Error):
                    self._connection.rollback()

    def commit(self) -> None:
        """Whether an error came before or after the commit, the note tells."""
        self._connection.commit()

    def report(self, token: str) -> dict[str, Any] | None:
        """Look up a move's result; None: it was not committed."""
        found = self.run("report", token=token).fetchone() if self.one("has_ledger") else None
        return found and found[0]

    def forget(self, token: str) -> None:
        """Remove the note of a move that the file knows of."""
        with self.alone():
            self.run("forget", token=token)
            if self.one("is_last"):
                self.run("drop_ledger")
            self.commit()

    def begin(self, queues: Iterable[Row]) -> None:
        """Give a number to each queue that comes."""
        numbers = [row["id"] for row in queues]
        new = (id_ for (id_,) in self.run("give_ids", table="queue", count=len(numbers)))
        self.queues = dict(zip(numbers, new, strict=True))
        self.xid = self.one("xid")

    def put(self, table: str, rows: Iterator[Row], *, keep: bool = False, **made: Maker) -> None:
        """Copy rows of the file into a table. `keep`: those that are there already stay as they
        are. `made`: columns that are made of something else.
        """
        first = next(rows, None)
        if first is None:
            return
        columns, converted = self.conversion(table, first, **made)
        names = {"table": sql.Identifier("turnabout", table), "new": sql.Identifier(f"new_{table}")}
        if keep:
            make = "create temp table {new} (like {table} including defaults) on commit drop"
            self._connection.execute(sql.SQL(make).format(**names))
        self.copy(names["new" if keep else "table"], columns, map(converted, chain([first], rows)))
        if keep:
            merge = "insert into {table} select * from {new} on conflict do nothing"
            self._connection.execute(sql.SQL(merge).format(**names))

    def conversion(self, table: str, row: Row, **made: Maker) -> tuple[list[str], Converter]:
        """The columns of a table that rows like this one fill, and what makes their values."""
        made = {**_rows.made(table, self.queues, self.xid), **made}
        there = {*row.keys(), *made}
        columns = [name for (name,) in self.run("columns", table=table) if name in there]
        return columns, _rows.converter(columns, made)

    def copy(self, table: sql.Identifier, columns: Sequence[str], rows: Iterable[Any]) -> None:
        """COPY tuples into a table."""
        statement = sql.SQL("copy {} ({}) from stdin").format(
            table, sql.SQL(", ").join(map(sql.Identifier, columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def counts(self, what: str) -> dict[int, tuple[int, ...]]:
        """The numbers that a statement finds, by queue of the file."""
        source = {here: there for there, here in self.queues.items()}
        found = self.run(what, queues=list(source))
        return {source[queue]: tuple(int(n) for n in numbers) for queue, *numbers in found}

    def run(self, step: str, **parameters: Any) -> psycopg.Cursor[Any]:
        """A statement of `postgres.sql`. Inside `alone`."""
        return self._connection.execute(SQL[step].encode(), parameters)

    def one(self, step: str, **parameters: Any) -> Any:
        """The one value that it finds."""
        row = self.run(step, **parameters).fetchone()
        assert row is not None
        return row[0]

    def _connect(self) -> psycopg.Connection[Any]:
        with translated(self._url):
            connection = psycopg.connect(
                address(parse(self._url).conninfo, "turnabout move"), autocommit=True
            )
            try:
                connection.execute(SQL["rebuild"].encode())
            except BaseException:
                connection.close()
                raise
            return connection


def _place(url: str) -> str:
    """The URL without password, and of its options only those that say where the database is: fit
    to be shown by a file for ever, and to be connected to.
    """
    bare, _, options = without_secrets(url).partition("?")
    where = "&".join(o for o in options.split("&") if o.partition("=")[0] in _WHERE)
    return f"{bare}?{where}" if where else bare
