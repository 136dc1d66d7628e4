"""The schema of a file: numbered steps, each once, and the ledger that says who may use it.

`pragma user_version` is the core's last step that ran, `pragma application_id` says whose file it
is. A step only adds, so an older library can go on; one that it could not live with says so by
`-- oldest: <steps that a library must know>` in its comment, and the ledger keeps it. Slices number
their own steps; the ledger knows how far each has come. One that isn't here is left as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from turnabout import slices
from turnabout.sqlite._errors import our_errors
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import Place
from turnabout.words.errors import WrongVersion
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import Migration, step_of

APPLICATION_ID = 0x5455524E  # "TURN"; in migrations it must be a literal, here it is explained

LEDGER = """
create table if not exists turnabout_migration (
  slice text not null,     -- '': the core
  number integer not null,
  name text not null,
  oldest integer not null,  -- how many steps a library must know to use the file from here on
  primary key (slice, number)
) strict;
"""


@cache
def _files() -> dict[str, list[Path]]:
    """The steps' files: the core's, and those of each slice."""
    folders = {"": Path(__file__).parent}
    folders |= {s.name: folder for s in slices.found() if (folder := s.folder("sqlite"))}
    return {name: sorted((at / "migrations").glob("*.sql")) for name, at in folders.items()}


def wanted() -> dict[str, int]:
    """The last step that this library knows, of the core and of each slice."""
    return {name: len(files) for name, files in _files().items()}


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps, in order: the core's first."""
    return tuple(
        step_of(file.name, file.read_text(encoding="utf-8"), name)
        for name, files in _files().items()
        for file in files
    )


def beyond(there: Mapping[str, int]) -> list[Migration]:
    """The steps that a file lacks which has come this far."""
    return [step for step in migrations() if step.number > there.get(step.slice, 0)]


def note(step: Migration) -> str:
    """A step's row in the ledger: our own names and numbers, without parameters, for a script."""
    return (
        "insert into turnabout_migration (slice, number, name, oldest)"  # noqa: S608
        f" values ('{step.slice}', {step.number}, '{step.name}', {step.oldest});"
    )


def migrate(connection: sqlite3.Connection, place: Place) -> tuple[str, ...]:
    """Bring the file to this library's schema. Of many processes at once, one does it, and answers
    with the names of the steps.

    Raises: WrongVersion: a newer library has changed the file beyond what this one can use.
    """
    if not _is_behind(checked_steps(connection)):
        return ()
    turnstile = Turnstile(place)
    try:
        turnstile.begin(connection)
        steps = beyond(checked_steps(connection))  # asked again, under the lock
        if steps:
            _run(connection, steps)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    finally:
        turnstile.close()
    return tuple(step.name for step in steps)


def _is_behind(there: Mapping[str, int]) -> bool:
    return any(there.get(name, 0) < last for name, last in wanted().items())


def _run(connection: sqlite3.Connection, steps: list[Migration]) -> None:
    connection.execute(LEDGER)
    for step in steps:
        for statement in split(step.sql):
            connection.execute(statement)
        connection.execute(note(step))
        if not step.slice:
            connection.execute(f"pragma user_version = {step.number}")
    connection.execute(f"pragma application_id = {APPLICATION_ID}")


def split(script: str) -> list[str]:
    """The statements of a script: `executescript` would commit our transaction."""
    statements: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if ";" in line and sqlite3.complete_statement(pending):
            statements.append(pending)
            pending = ""
    return statements


def checked_steps(connection: sqlite3.Connection) -> dict[str, int]:
    """How far a file has come; WrongVersion if that leaves this library or one of its slices
    behind.
    """
    _refuse_moved(connection)
    there = last_steps(connection)
    for name, last in wanted().items():
        step = there.get(name, 0)
        if _is_too_new(connection, name, step):
            raise WrongVersion(
                f"the file has {name or 'schema'} {step}, this library knows {last}: {UPGRADE_HINT}"
            )
    return there


def _refuse_moved(connection: sqlite3.Connection) -> None:
    """Raise what a file says that `turnabout move` has emptied, before a step meets its views."""
    (found,) = connection.execute(
        "select exists (select 1 from sqlite_master where name = 'turnabout_moved_queue')"
    ).fetchone()
    if found:
        with our_errors():
            connection.execute("select 1 from queue").fetchone()


def last_steps(connection: sqlite3.Connection) -> dict[str, int]:
    """The last step that ran on a file, of the core and of each slice. Empty: none."""
    (core,) = connection.execute("pragma user_version").fetchone()
    if not core:
        return {}
    try:
        rows = connection.execute(
            "select slice, max(number) from turnabout_migration where slice <> '' group by slice"
        ).fetchall()
    except sqlite3.OperationalError:
        rows = []  # no ledger, or one from before there were slices
    return {"": core, **dict(rows)}


def is_too_new(connection: sqlite3.Connection) -> bool:
    """Whether this library cannot use the file any more, or not the slices that it has."""
    there = last_steps(connection)
    return any(_is_too_new(connection, name, there.get(name, 0)) for name in wanted())


def _is_too_new(connection: sqlite3.Connection, name: str, step: int) -> bool:
    known = wanted()[name]
    if step <= known:
        return False
    try:
        noted, oldest = connection.execute(
            "select max(number), max(oldest) from turnabout_migration where slice = ?", (name,)
        ).fetchone()
    except sqlite3.OperationalError:
        return True  # no ledger
    return noted is None or noted < step or oldest > known
