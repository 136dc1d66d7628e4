"""`turnabout sql --json` is a list that any migration tool runs, in a transaction of its own.

Each tool runs the whole list twice: once it rolls back, and nothing of ours is left; then it
commits, and the library works. On PostgreSQL and on SQLite.
"""

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import django.db
import psycopg
import pytest
import sqlalchemy
from alembic.migration import MigrationContext
from alembic.operations import Operations
from click.testing import CliRunner
from django.db.migrations import RunSQL
from django.db.migrations.state import ProjectState

import turnabout
from tests.joined.libraries import file_of  # and there Django is set up
from turnabout import Acked, Sent
from turnabout._connect import installer
from turnabout.cli import main

pytestmark = pytest.mark.slow  # a database for each

Run = Callable[[str, list[str], bool], None]
"""Runs statements in one transaction, which it commits or rolls back."""


def psycopg_itself(url: str, statements: list[str], commit: bool) -> None:
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        (connection.commit if commit else connection.rollback)()


def sqlite3_itself(url: str, statements: list[str], commit: bool) -> None:
    with contextlib.closing(sqlite3.connect(file_of(url))) as connection:
        connection.execute("begin")
        for statement in statements:
            connection.execute(statement)
        assert connection.in_transaction
        (connection.commit if commit else connection.rollback)()


def alembic(url: str, statements: list[str], commit: bool) -> None:
    is_file = url.startswith("sqlite")
    engine = sqlalchemy.create_engine(url if is_file else url.replace("://", "+psycopg://", 1))
    if is_file:  # as SQLAlchemy's pages say: the driver's own transactions leave out DDL
        sqlalchemy.event.listen(engine, "connect", _leave_transactions_to_us)
        sqlalchemy.event.listen(engine, "begin", lambda c: c.exec_driver_sql("begin"))
    with engine.connect() as connection, connection.begin() as transaction:
        operations = Operations(MigrationContext.configure(connection))
        for statement in statements:
            operations.execute(statement)
        (transaction.commit if commit else transaction.rollback)()
    engine.dispose()


def _leave_transactions_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None


class _Undo(Exception):
    pass


def of_django(url: str, statements: list[str], commit: bool) -> None:
    parts = urlsplit(url)
    is_file = parts.scheme == "sqlite"
    settings = {
        "ENGINE": f"django.db.backends.{'sqlite3' if is_file else 'postgresql'}",
        "NAME": str(file_of(url)) if is_file else parts.path[1:],
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or dict(parse_qsl(parts.query)).get("host", ""),
        "PORT": parts.port or "",
    }
    all_ = django.db.connections
    all_.databases["tool"] = all_.configure_settings({"default": {}, "tool": settings})["tool"]
    connection = all_["tool"]
    try:
        with contextlib.suppress(_Undo), connection.schema_editor(atomic=True) as editor:
            RunSQL(statements).database_forwards("app", editor, ProjectState(), ProjectState())
            if not commit:
                raise _Undo
    finally:
        connection.close()
        del all_["tool"], all_.databases["tool"]


TOOLS: dict[str, dict[str, Run]] = {
    "sqlite": {"sqlite3": sqlite3_itself, "alembic": alembic, "django": of_django},
    "postgresql": {"psycopg": psycopg_itself, "alembic": alembic, "django": of_django},
}


def listed(dialect: str) -> list[str]:
    """What the command prints."""
    result = CliRunner().invoke(main, ["sql", "--dialect", dialect, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["statements"]


def applied_and_used(url: str, run: Run) -> None:
    statements = listed(urlsplit(url).scheme)
    install = installer(url)
    run(url, statements, False)
    assert install.status(url).current == 0
    run(url, statements, True)
    assert install.status(url).pending == ()
    assert install.up(url) == ()
    with turnabout.connect(url) as mq:
        queue = mq.queue("emails")
        assert isinstance(queue.send("x", channel="c"), Sent)
        (message,) = queue.receive()
        assert message.ack() == Acked()


@pytest.mark.parametrize("tool", TOOLS["sqlite"])
def test_a_file(tmp_path: Path, tool: str) -> None:
    path = tmp_path / "app.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table orders (id integer primary key)")
    applied_and_used(f"sqlite:///{path}", TOOLS["sqlite"][tool])


@pytest.mark.parametrize("tool", TOOLS["postgresql"])
def test_a_database(postgres_url: str, tool: str) -> None:
    applied_and_used(postgres_url, TOOLS["postgresql"][tool])


@pytest.mark.parametrize("dialect", TOOLS)
def test_nothing_in_it_begins_or_ends_a_transaction(dialect: str) -> None:
    words = ("begin", "start", "commit", "end", "rollback", "abort", "pragma")
    code = [re.sub(r"--.*", "", statement).split() for statement in listed(dialect)]
    assert {first.lower() for first, *_ in code} >= {"create", "insert"}
    assert not {first.lower() for first, *_ in code} & set(words)
