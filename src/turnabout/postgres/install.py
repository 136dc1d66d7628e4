"""The schema of the PostgreSQL store: numbered migrations for tables, whole sets of functions.

Tables move by migrations, each once, which only add: what works on them goes on working. Functions
are installed as sets, each in a schema of its own (`parts`), which the libraries of that revision
call; the core's latest one stands in `turnabout` as well, for people who write SQL. So a newer
library's set comes beside the older ones. A migration that older sets cannot live with says so
(`-- oldest: <revision>` in its comment), and they are dropped with it. A slice has steps and a set
of its own; what a slice has installed that isn't here stays. `ledger.sql` has the tables where all
this is written.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import psycopg

from turnabout.postgres.errors import check_encoding, translated
from turnabout.postgres.parts import CallPart, core, latest, parts
from turnabout.postgres.revision import REVISION, SCHEMA, schema
from turnabout.postgres.source import statements, text_of
from turnabout.postgres.url import address, parse
from turnabout.words.errors import Busy, UsageError, WrongVersion
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import Migration, SchemaStatus
from turnabout.words.urls import without_secrets

LOCK_SECONDS = 0.5
"""Lock timeout of a step: all later calls wait behind it."""

TRIES = 40
"""Attempts of `up` when a table was not free in that time."""

PAUSE_SECONDS = 1.0

CHECK = (
    "select (select max(number) from turnabout.version where slice = ''),"
    " (select max(oldest) from turnabout.version where slice = ''),"
    f" (select digest from turnabout.revision where place = '{schema()}'),"
    " (select max(number) from turnabout.revision where slice = '')"
)
"""The question of a library at its first connection; `check_schema` reads the answer."""


def _text(name: str) -> str:
    return "\n" + text_of(files("turnabout.postgres") / f"{name}.sql")


_DROP, _PROTECT, _GRANT = _text("sets/drop"), _text("sets/protect"), _text("sets/grant")
_DAYS, _DROP_SETS = _text("sets/days"), _text("sets/drop_sets")
_SET_MISSING = "this version is not installed yet: run `turnabout migrate up` first"


@dataclass(frozen=True, slots=True)
class _Ledger:
    """The state of a database: the last step of each part, the oldest revision that works
    on it, and the digests of sets by their schemas. Empty: nothing.
    """

    steps: Mapping[str, int] = field(default_factory=dict[str, int])
    oldest: Mapping[str, int] = field(default_factory=dict[str, int])
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    revisions: tuple[int, ...] = ()

    def too_new(self, part: CallPart) -> bool:
        """Whether this library's functions cannot work on these tables any more."""
        return self.oldest.get(part.name, 1) > part.revision

    def has(self, part: CallPart) -> bool:
        """Whether the set of that part is there, as it is here."""
        return self.digests.get(part.schema) == digest(part)

    def lacks(self, part: CallPart) -> list[Migration]:
        """The steps that did not run yet."""
        there = self.steps.get(part.name, 0)
        return [step for step in part.migrations() if step.number > there]

    @property
    def is_latest(self) -> bool:
        """Whether our set is the one for people who write SQL."""
        return max(self.revisions, default=0) <= REVISION


# --- what there is to install --------------------------------------------------------------------


def migrations() -> tuple[Migration, ...]:
    """The steps for tables, in order: the core's first."""
    return tuple(step for part in parts() for step in part.migrations())


def functions() -> str:
    """Return all functions of the core's verbs as one text, as installed in `turnabout`."""
    return core().functions()


def digest(part: CallPart | None = None) -> str:
    """The digest of the functions of the core, or of a slice, in this library."""
    if part is None or part is core():
        return _digest_of_core()
    return part.digest(_DROP, _PROTECT)


@cache
def _digest_of_core() -> str:
    """Each new connection asks for it, and it reads all files of functions."""
    return core().digest(latest(), _DROP, _PROTECT)


def steps(since: Mapping[str, int] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the statements that a database lacks whose core (`""`) and slices are at these
    versions. Parts without a version are missing: without any, the database is empty.

    To run in this order, in one transaction: nothing in it begins or ends one. Each is a single
    statement, for drivers that take no more at once.
    """
    there = _Ledger(since)
    texts = [_ledger_sql()]
    for part in parts():
        texts += [_step(step, part) for step in there.lacks(part)]
        texts.append(_set_of(part, is_latest=True))
    return tuple(statements("\n".join([*texts, _GRANT, _DAYS])))


def _step(step: Migration, part: CallPart) -> str:
    """A step, its note, and what it leaves behind."""
    note = (
        "insert into turnabout.version (slice, number, name, functions, oldest) values"
        f" ('{part.name}', {step.number}, '{step.name}', '{digest(part)}', {step.oldest});\n"
    )
    older = f"r.slice = '{part.name}' and r.number < {step.oldest}"
    if not part.name:
        older += f" or r.core < {step.oldest}"
    gone = _DROP_SETS.format(which=older) if step.oldest > 1 else ""
    return f"-- {step.name}\n{step.sql}{note}{gone}"


def _set_of(part: CallPart, *, is_latest: bool) -> str:
    """A part's set in its schema, and the core's as the one for people who write SQL as well, where
    it is the latest: bodies find each other when they run.
    """
    views = ", ".join(f"'{view}'" for view in part.views)
    note = (
        "insert into turnabout.revision (place, slice, number, core, digest, kinds, views) values"
        f" ('{part.schema}', '{part.name}', {part.revision}, {REVISION}, '{digest(part)}',"
        f" '{part.kinds_as_json()}', array[{views}]::text[])"
        " on conflict (place) do update set digest = excluded.digest, kinds = excluded.kinds,"
        " views = excluded.views, installed_at = default;"
    )
    texts = [f"create schema if not exists {part.schema};"]
    texts += [_set(part.schema, part.rendered(), part), note]
    if is_latest and not part.name:
        texts.append(_set(SCHEMA, part.functions() + latest(), part))
    return "\n".join(texts)


def _set(place: str, texts: str, part: CallPart) -> str:
    names = ", ".join(f"'{name}'" for name in part.open_functions())
    return "\n".join(
        (
            _DROP.format(schema=place),
            "set local check_function_bodies = off;",
            texts,
            "set local check_function_bodies to default;",
            _PROTECT.format(schema=place, names=names),
        )
    )


@cache
def _ledger_sql() -> str:
    return text_of(files("turnabout.postgres") / "ledger.sql")


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
    names: list[str] = []
    for part in parts():
        refuse_newer(there.steps.get(part.name, 0), there.oldest.get(part.name, 1), part)
        for step in there.lacks(part):
            with _transaction(connection):
                _run(connection, _ledger_sql() + _step(step, part))
            names.append(step.name)
    lacking = [part for part in parts() if not there.has(part)]
    if lacking:
        with _transaction(connection):
            for part in lacking:
                _run(connection, _ledger_sql() + _set_of(part, is_latest=there.is_latest))
            _run(connection, _GRANT + _DAYS)
    return (*names, *map(set_name, lacking))


def set_name(part: CallPart) -> str:
    """The name by which `up` and `status` show a part's set."""
    return f"functions {part.name} {digest(part)}" if part.name else f"functions {digest(part)}"


@contextmanager
def _alone(url: str) -> Generator[psycopg.Connection]:
    """A connection in autocommit, while no other installs; the lock ends with it in any case."""
    with translated(url), _connect(url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended('turnabout.migrate', 0))")
        yield connection


def _connect(url: str, *, autocommit: bool = False) -> psycopg.Connection:
    where = address(parse(url).conninfo, "turnabout migrate")
    connection = psycopg.connect(where, autocommit=autocommit)
    try:
        check_encoding(connection.pgconn, url)
    except UsageError:
        connection.close()
        raise
    return connection


@contextmanager
def _transaction(connection: psycopg.Connection) -> Generator[None]:
    with connection.transaction():
        connection.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'".encode())
        yield


def prune(url: str) -> tuple[str, ...]:
    """Drop the sets of older revisions: no library older than this one can work from then on.

    Answers with their schemas. Raises: UsageError if this library's own set is not installed yet.
    """
    older = " or ".join(f"r.slice = '{p.name}' and r.number < {p.revision}" for p in parts())
    with _alone(url) as connection:
        there = _read(connection)
        if not all(there.has(part) for part in parts()):
            raise UsageError(_SET_MISSING)
        with _transaction(connection):
            _run(connection, _DROP_SETS.format(which=f"r.core < {REVISION} or {older}"))
        left = _read(connection).digests
    return tuple(place for place in sorted(there.digests) if place not in left)


def allow(
    url: str,
    role: str,
    kind: str,
    *,
    queues: Sequence[str] = (),
    max_payload_bytes: int | None = None,
) -> None:
    """Let a role `produce`, `consume` or `operate`; it holds after later installs, too.

    queues:            names of those that it may send to, with * for any part; none: all.
    max_payload_bytes: of what it sends; unless given, 1 MiB.
    Raises: UsageError for a role or a kind that is not there; Forbidden to all but the owner.
    """
    parameters = (role, kind, list(queues) or None, max_payload_bytes)
    with translated(url), _connect(url) as connection:
        connection.execute("select turnabout.allow(%s, %s, %s, %s)", parameters)


def disallow(url: str, role: str, kind: str) -> None:
    """Take a permission back; nothing happens if the role does not have it."""
    with translated(url), _connect(url) as connection:
        connection.execute("select turnabout.disallow(%s, %s)", (role, kind))


# --- looking -------------------------------------------------------------------------------------


def status(url: str) -> SchemaStatus:
    """A database's migration state, and its sets of functions."""
    with translated(url), _connect(url) as connection:
        there = _read(connection)
    pending: list[str] = []
    too_new = any(map(there.too_new, parts()))
    if not too_new:
        pending += [step.name for part in parts() for step in there.lacks(part)]
        if there.steps:
            pending += [set_name(part) for part in parts() if not there.has(part)]
    return SchemaStatus(
        there.steps.get("", 0),
        core().migrations()[-1].number,
        tuple(pending),
        {name: step for name, step in there.steps.items() if name},
        revisions=there.revisions,
        too_new=too_new,
    )


def check_schema(
    step: int | None, oldest: int | None, ours: str | None, newest: int | None, url: str
) -> None:
    """Refuse a database where this library's functions are missing; what `CHECK` answers.

    Raises: WrongVersion, which says what to do.
    """
    refuse_newer(step or 0, oldest or 1)
    if ours is None and (newest or 0) > REVISION:
        raise WrongVersion(
            f"{without_secrets(url)} has revision {newest} of the functions; revision {REVISION}, "
            "which this program calls, was not installed, or removed by `turnabout migrate prune`: "
            f"{UPGRADE_HINT}; `turnabout migrate up` of this version would bring it back"
        )
    if (step or 0) < core().migrations()[-1].number or ours != digest():
        raise WrongVersion(
            f"the database {without_secrets(url)} is not set up for this version of the library: "
            f"run `turnabout migrate up --url '{without_secrets(url)}'`"
        )


def refuse_newer(step: int, oldest: int, part: CallPart | None = None) -> None:
    """Refuse a database whose tables a newer library has changed beyond this one's functions."""
    known = REVISION if part is None else part.revision
    if oldest > known:
        whose = f"{part.name} is" if part is not None and part.name else "schema is"
        raise WrongVersion(
            f"the database's {whose} at step {step}, which needs revision {oldest} of the "
            f"library; this one is {known}: {UPGRADE_HINT}"
        )


def _read(connection: psycopg.Connection) -> _Ledger:
    if not _is_there(connection, "turnabout.version"):
        return _Ledger()
    rows = connection.execute(
        "select slice, max(number), max(oldest) from turnabout.version group by slice"
    ).fetchall()
    sets = connection.execute(
        "select place, slice, number, digest from turnabout.revision"
        " where to_regnamespace(place) is not null order by number"  # not all may be restored
    ).fetchall()
    return _Ledger(
        {name: step for name, step, _ in rows},
        {name: oldest for name, _, oldest in rows},
        {place: digest for place, _, _, digest in sets},
        tuple(number for _, name, number, _ in sets if not name),
    )


def _is_there(connection: psycopg.Connection, table: str) -> bool:
    ((there,),) = connection.execute("select to_regclass(%s) is not null", (table,))
    return there


def _run(connection: psycopg.Connection, script: str) -> None:
    if script:
        connection.execute(script.encode())
