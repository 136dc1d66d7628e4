"""The schema of the PostgreSQL store: numbered migrations for tables, a whole set of functions.

Tables move by migrations, each once. Functions are installed as a set after them, so a function's
file is always the whole truth and no body ever stands in a migration. What was installed is written
in `penstock.version`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import psycopg

from penstock.postgres.errors import translated
from penstock.words.errors import WrongVersion
from penstock.words.migration import Migration, SchemaStatus

_LEDGER = """
create schema if not exists penstock;
create table if not exists penstock.version (
    number int primary key,
    name text not null,
    functions text not null,
    applied_at timestamptz not null default clock_timestamp()
);
"""

_DROP = """
-- A function's result cannot be changed in place, so the old set goes first; in one transaction.
do $$
declare
    old regprocedure;
begin
    for old in
        select p.oid from pg_proc p where p.pronamespace = 'penstock'::regnamespace
    loop
        execute format('drop function %s', old);
    end loop;
end
$$;
"""


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps for tables, in order."""
    found = _sql_files("migrations")
    return tuple(
        Migration(int(f.name[:4]), f.name.removesuffix(".sql"), f.read_text(encoding="utf-8"))
        for f in found
    )


@cache
def functions() -> str:
    """All functions, as one text. Their bodies find each other when they run: order is free."""
    found = _sql_files("functions")
    texts = [f.read_text(encoding="utf-8") for f in found]
    return "\n".join(["set check_function_bodies = off;", _DROP, *texts])


@cache
def digest() -> str:
    """What the functions of this library look like, in 16 characters."""
    return hashlib.sha256(functions().encode()).hexdigest()[:16]


def _sql_files(folder: str) -> list[Traversable]:
    inside = (files("penstock.postgres") / folder).iterdir()
    return sorted((f for f in inside if f.name.endswith(".sql")), key=lambda f: f.name)


def script() -> str:
    """Everything, to run with any tool on an empty database."""
    steps = [f"-- {step.name}\n{step.sql}" for step in migrations()]
    ledger = [
        f"insert into penstock.version (number, name, functions) "
        f"values ({step.number}, '{step.name}', '{digest()}');"
        for step in migrations()
    ]
    return "\n".join(["begin;", _LEDGER, *steps, functions(), *ledger, "commit;", ""])


def up(url: str) -> tuple[str, ...]:
    """Bring a database to this library's schema; safe when many processes start it at once.

    Answers with the names of what was applied, nothing if all was there.
    Raises: WrongVersion if the database is newer than this library.
    """
    with translated(url), psycopg.connect(url) as connection:
        # One at a time: the lock ends with the transaction, also if this process dies.
        connection.execute("select pg_advisory_xact_lock(hashtextextended('penstock.migrate', 0))")
        connection.execute(_LEDGER)
        current, installed = _ledger(connection)
        refuse_newer(current)
        pending = [step for step in migrations() if step.number > current]
        for step in pending:
            connection.execute(step.sql.encode())
        names = [step.name for step in pending]
        if pending or installed != digest():
            connection.execute(functions().encode())
            connection.execute("reset check_function_bodies")
            names.append(f"functions {digest()}")
            _write_ledger(connection, pending)
        return tuple(names)


def status(url: str) -> SchemaStatus:
    """How far a database has come."""
    wanted = migrations()[-1].number
    with translated(url), psycopg.connect(url) as connection:
        there = connection.execute("select to_regclass('penstock.version')").fetchone()
        if there is None or there[0] is None:
            return SchemaStatus(0, wanted, tuple(step.name for step in migrations()))
        current, installed = _ledger(connection)
    pending = [step.name for step in migrations() if step.number > current]
    if installed != digest() and current <= wanted:
        pending.append(f"functions {digest()}")
    return SchemaStatus(current, wanted, tuple(pending))


def refuse_newer(current: int) -> None:
    """Refuse a database that a newer library has migrated."""
    wanted = migrations()[-1].number
    if current > wanted:
        raise WrongVersion(
            f"the database's schema is at step {current}, this library knows {wanted}: "
            "upgrade penstock (pip install -U penstock)"
        )


def _ledger(connection: psycopg.Connection) -> tuple[int, str]:
    row = connection.execute(
        "select number, functions from penstock.version order by number desc limit 1"
    ).fetchone()
    return (0, "") if row is None else (row[0], row[1])


def _write_ledger(connection: psycopg.Connection, applied: list[Migration]) -> None:
    for step in applied:
        connection.execute(
            "insert into penstock.version (number, name, functions) values (%s, %s, %s)",
            (step.number, step.name, digest()),
        )
    connection.execute(
        "update penstock.version set functions = %s"
        " where number = (select max(number) from penstock.version)",
        (digest(),),
    )
