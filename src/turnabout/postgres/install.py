"""The schema of the PostgreSQL store: numbered migrations for tables, whole sets of functions.

Tables move by migrations, each once, which only add: what works on them goes on working. Functions
are installed as a set: in the schema of its revision, which the libraries of that revision call,
and, the latest one, in `turnabout`, for people who write SQL. So a newer library's set comes beside
the older ones. A migration that older sets cannot live with says so (`-- oldest: <revision>` in its
comment), and they are dropped with it. `ledger.sql` has the tables where all this is written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import psycopg

from turnabout.postgres.errors import translated
from turnabout.postgres.permissions import kinds_as_json, verbs_functions
from turnabout.postgres.revision import REVISION, SCHEMA, rendered, schema
from turnabout.postgres.source import functions_of, sql_files, statements, text_of
from turnabout.words.errors import Busy, UsageError, WrongVersion
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import Migration, SchemaStatus, step_of
from turnabout.words.urls import without_secrets

_PACKAGE = "turnabout.postgres"

LOCK_SECONDS = 0.5
"""How long a step waits for a table, since all calls that come later wait behind it."""

TRIES = 40
"""How often `up` begins again when a table was not free in that time."""

PAUSE_SECONDS = 1.0

CHECK = (
    "select (select max(number) from turnabout.version),"
    " (select max(oldest) from turnabout.version),"
    f" (select digest from turnabout.revision where number = {REVISION})"
)
"""What a library asks at its first connection; `check_schema` reads the answer."""

_DROP = """
-- A function's result cannot be changed in place, so the old set goes first; in one transaction.
do $$
declare
    old regprocedure;
begin
    for old in
        select p.oid from pg_proc p
        where p.pronamespace = to_regnamespace('{schema}') and p.prorettype <> 'trigger'::regtype
    loop
        execute format('drop function %s', old);
    end loop;
end
$$;
"""

_PROTECT = """
-- Nobody may call a function but who has a permission; it acts with the rights of its owner then.
do $$
declare
    f record;
begin
    for f in
        select p.oid::regprocedure as name, p.proname = any (array[{names}]) as open
        from pg_proc p where p.pronamespace = '{schema}'::regnamespace
    loop
        execute format('revoke execute on function %s from public', f.name);
        if f.open then
            execute format(
                'alter function %s security definer set search_path = pg_catalog, pg_temp', f.name);
        end if;
    end loop;
end
$$;
"""

_GRANT = """
do $$
begin
    perform turnabout.forget_strangers();
    perform turnabout.grant_to(p.role_name) from turnabout.permission p group by p.role_name;
end
$$;
"""

_DAYS = """
-- The first partitions of history; tend makes those that follow.
do $$
begin
    for i in 0 .. 2 loop
        perform turnabout.maintain_days(turnabout.clock_ms());
    end loop;
end
$$;
"""


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What is installed in a database. step 0: nothing."""

    step: int = 0
    oldest: int = 1
    digests: Mapping[int, str] = field(default_factory=dict[int, str])

    @property
    def too_new(self) -> bool:
        """Whether this library's functions cannot work on these tables any more."""
        return self.oldest > REVISION

    @property
    def has_ours(self) -> bool:
        return self.digests.get(REVISION) == digest()

    @property
    def is_latest(self) -> bool:
        """Whether our set is the one for people who write SQL."""
        return max(self.digests, default=0) <= REVISION


# --- what there is to install --------------------------------------------------------------------


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps for tables, in order."""
    return tuple(step_of(f.name, text_of(f)) for f in sql_files(_PACKAGE, "migrations"))


@cache
def functions() -> str:
    """All functions that verbs call, as one text, as they stand in the schema `turnabout`."""
    return "\n".join(functions_of(f) for f in sql_files(_PACKAGE, "functions"))


@cache
def latest() -> str:
    """What stands in the schema `turnabout` only: for people who write SQL, and for permissions."""
    return "\n".join(functions_of(f) for f in sql_files(_PACKAGE, "latest"))


@cache
def digest() -> str:
    """What the functions of this library look like, in 16 characters."""
    texts = (functions(), latest(), kinds_as_json(), _DROP, _PROTECT)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def steps(since: int = 0) -> tuple[str, ...]:
    """All that a database at that step lacks, statement by statement; 0: an empty database.

    To run in this order, in one transaction: nothing in it begins or ends one. Each is a single
    statement, for drivers that take no more at once.
    """
    missing = [step for step in migrations() if step.number > since]
    texts = [f"-- {step.name}\n{step.sql}{_note(step)}" for step in missing]
    sets = (_ours(), _latest(), _GRANT, _DAYS)
    return tuple(statements("\n".join([_ledger_sql(), *texts, _drop_older(missing), *sets])))


def script(since: int = 0) -> str:
    """The same as one text for psql, as a transaction of its own."""
    return ";\n\n".join(["begin", *steps(since), "commit"]) + ";\n"


def _ours() -> str:
    """Our set in the schema of its revision."""
    note = (
        "insert into turnabout.revision (number, digest, kinds)"
        f" values ({REVISION}, '{digest()}', '{kinds_as_json()}')"
        " on conflict (number) do update"
        " set digest = excluded.digest, kinds = excluded.kinds, installed_at = default;"
    )
    texts = _set(schema(), rendered(functions()))
    return "\n".join([f"create schema if not exists {schema()};", *texts, note])


def _latest() -> str:
    """Our set as the one for people who write SQL. Bodies find each other when they run."""
    return "\n".join(_set(SCHEMA, functions() + latest()))


def _set(place: str, texts: str) -> list[str]:
    names = ", ".join(f"'{name}'" for name in verbs_functions())
    return [
        _DROP.format(schema=place),
        "set local check_function_bodies = off;",
        texts,
        "set local check_function_bodies to default;",
        _PROTECT.format(schema=place, names=names),
    ]


def _note(step: Migration) -> str:
    return (
        "insert into turnabout.version (number, name, functions, oldest)"
        f" values ({step.number}, '{step.name}', '{digest()}', {step.oldest});\n"
    )


def _drop_older(steps: list[Migration]) -> str:
    """Sets that these steps leave behind."""
    oldest = max((step.oldest for step in steps), default=1)
    gone = [_drop_set(number) for number in range(1, oldest)]
    return "\n".join(gone)


def _drop_set(number: int) -> str:
    place = schema(number)
    return (
        f"{_DROP.format(schema=place)}\n"
        f"drop schema if exists {place};\n"
        f"delete from turnabout.revision where number = {number};\n"
    )


@cache
def _ledger_sql() -> str:
    return text_of(files(_PACKAGE) / "ledger.sql")


# --- installing ----------------------------------------------------------------------------------


def up(url: str) -> tuple[str, ...]:
    """Bring a database to this library's schema; safe when many processes start it at once.

    Answers with the names of what was applied, nothing if all was there. Sets of other revisions
    stay, and so does what a newer library has installed.
    Raises: WrongVersion if the database is beyond this library; Busy if a table is in use all the
            time: nothing happened, repeat it.
    """
    tries = 0
    while True:
        try:
            with _alone(url) as connection:
                return _up(connection)
        except Busy:
            tries += 1
            if tries == TRIES:
                raise
        time.sleep(PAUSE_SECONDS)


def _up(connection: psycopg.Connection) -> tuple[str, ...]:
    """Each step in a transaction of its own, so that no table is locked for longer than that takes.

    In between, the sets that are there go on working: steps only add.
    """
    there = _read(connection)
    refuse_newer(there.step, there.oldest)
    names: list[str] = []
    for step in migrations():
        if step.number > there.step:
            with _transaction(connection):
                _run(connection, _ledger_sql() + step.sql + _note(step) + _drop_older([step]))
            names.append(step.name)
    if not there.has_ours:
        with _transaction(connection):
            _run(connection, _ledger_sql() + _ours())
            if there.is_latest:
                _run(connection, _latest())
            _run(connection, _GRANT + _DAYS)
        names.append(f"functions {digest()}")
    return tuple(names)


@contextmanager
def _alone(url: str) -> Generator[psycopg.Connection]:
    """A connection in autocommit, while no other installs; the lock ends with it in any case."""
    with translated(url), psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended('turnabout.migrate', 0))")
        yield connection


@contextmanager
def _transaction(connection: psycopg.Connection) -> Generator[None]:
    with connection.transaction():
        connection.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'".encode())
        yield


def prune(url: str) -> tuple[str, ...]:
    """Drop the sets of older revisions: no library older than this one can work from then on.

    Answers with their schemas. Raises: UsageError if this library's own set is not installed yet.
    """
    with _alone(url) as connection:
        there = _read(connection)
        if not there.has_ours:
            raise UsageError("this version is not installed yet: run `turnabout migrate up` first")
        older = [number for number in sorted(there.digests) if number < REVISION]
        for number in older:
            with _transaction(connection):
                _run(connection, _drop_set(number))
        return tuple(map(schema, older))


def allow(url: str, role: str, kind: str) -> None:
    """Let a role `produce`, `consume` or `operate`; it holds after later installs, too.

    Raises: UsageError for a role or a kind that is not there; Forbidden to all but the owner.
    """
    with translated(url), psycopg.connect(url) as connection:
        connection.execute("select turnabout.allow(%s, %s)", (role, kind))


def disallow(url: str, role: str, kind: str) -> None:
    """Take a permission back; nothing happens if the role does not have it."""
    with translated(url), psycopg.connect(url) as connection:
        connection.execute("select turnabout.disallow(%s, %s)", (role, kind))


# --- looking -------------------------------------------------------------------------------------


def status(url: str) -> SchemaStatus:
    """How far a database has come, and which sets of functions it has."""
    with translated(url), psycopg.connect(url) as connection:
        there = _read(connection)
    pending: list[str] = []
    if not there.too_new:
        pending += [step.name for step in migrations() if step.number > there.step]
        if there.step and not there.has_ours:
            pending.append(f"functions {digest()}")
    return SchemaStatus(
        there.step,
        migrations()[-1].number,
        tuple(pending),
        revisions=tuple(sorted(there.digests)),
        too_new=there.too_new,
    )


def check_schema(step: int | None, oldest: int | None, ours: str | None, url: str) -> None:
    """Refuse a database where this library's functions are missing; what `CHECK` answers.

    Raises: WrongVersion, which says what to do.
    """
    refuse_newer(step or 0, oldest or 1)
    if (step or 0) < migrations()[-1].number or ours != digest():
        raise WrongVersion(
            f"the database {without_secrets(url)} is not set up for this version of the library: "
            f"run `turnabout migrate up --url '{without_secrets(url)}'`"
        )


def refuse_newer(step: int, oldest: int) -> None:
    """Refuse a database whose tables a newer library has changed beyond this one's functions."""
    if oldest > REVISION:
        raise WrongVersion(
            f"the database's schema is at step {step}, which needs revision {oldest} of the "
            f"library; this one is {REVISION}: {UPGRADE_HINT}"
        )


def _read(connection: psycopg.Connection) -> _Ledger:
    if not _is_there(connection, "turnabout.version"):
        return _Ledger()
    ((step,),) = connection.execute("select coalesce(max(number), 0) from turnabout.version")
    if not _is_there(connection, "turnabout.revision"):
        return _Ledger(step)  # as it was before there were revisions
    ((oldest,),) = connection.execute("select coalesce(max(oldest), 1) from turnabout.version")
    digests = dict(connection.execute("select number, digest from turnabout.revision").fetchall())
    return _Ledger(step, oldest, digests)


def _is_there(connection: psycopg.Connection, table: str) -> bool:
    ((there,),) = connection.execute("select to_regclass(%s) is not null", (table,))
    return there


def _run(connection: psycopg.Connection, script: str) -> None:
    if script:
        connection.execute(script.encode())
