"""The schema of a file: numbered steps, each once, and the ledger that says who may use it.

`pragma user_version` is the last step that ran, `pragma application_id` says whose file it is. A
step only adds, so an older library can go on; one that it could not live with says so by
`-- oldest: <steps that a library must know>` in its comment, and the ledger keeps it.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

from turnabout.sqlite._errors import our_errors
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import Place
from turnabout.words.errors import WrongVersion
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import Migration, step_of

APPLICATION_ID = 0x5455524E  # "TURN"; in migrations it must be a literal, here it is explained

_FOLDER = Path(__file__).parent / "migrations"
_FILES = sorted(_FOLDER.glob("*.sql"))
SCHEMA = len(_FILES)

LEDGER = """
create table if not exists turnabout_migration (
  number integer primary key,
  name text not null,
  oldest integer not null  -- how many steps a library must know to use the file from here on
) strict;
"""


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps, in order."""
    return tuple(step_of(file.name, file.read_text(encoding="utf-8")) for file in _FILES)


def notes() -> list[str]:
    """The ledger's rows of all steps. The first version kept none, so they are written each time.

    Our own names and numbers; statements without parameters, as a script needs them.
    """
    return [
        "insert or ignore into turnabout_migration (number, name, oldest)"  # noqa: S608
        f" values ({step.number}, '{step.name}', {step.oldest});"
        for step in migrations()
    ]


def migrate(connection: sqlite3.Connection, place: Place) -> tuple[str, ...]:
    """Bring the file to this library's schema. Of many processes at once, one does it, and answers
    with the names of the steps.

    Raises: WrongVersion: a newer library has changed the file beyond what this one can use.
    """
    if schema(connection) >= SCHEMA:
        return ()
    turnstile = Turnstile(place)
    try:
        turnstile.begin(connection)
        before = schema(connection)  # asked again, under the lock
        steps = [step for step in migrations() if step.number > before]
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


def _run(connection: sqlite3.Connection, steps: list[Migration]) -> None:
    for step in steps:
        for statement in split(step.sql):
            connection.execute(statement)
    for statement in (LEDGER, *notes()):
        connection.execute(statement)
    connection.execute(f"pragma user_version = {SCHEMA}")
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


def schema(connection: sqlite3.Connection) -> int:
    """The last step that ran on a file; WrongVersion if that leaves this library behind."""
    _refuse_moved(connection)
    step = last_step(connection)
    if is_too_new(connection, step):
        raise WrongVersion(
            f"the file has schema {step}, this library knows {SCHEMA}: {UPGRADE_HINT}"
        )
    return step


def _refuse_moved(connection: sqlite3.Connection) -> None:
    """Raise what a file says that `turnabout move` has emptied, before a step meets its views."""
    (found,) = connection.execute(
        "select exists (select 1 from sqlite_master where name = 'turnabout_moved_queue')"
    ).fetchone()
    if found:
        with our_errors():
            connection.execute("select 1 from queue").fetchone()


def last_step(connection: sqlite3.Connection) -> int:
    """The last step that ran on a file; 0: none."""
    return connection.execute("pragma user_version").fetchone()[0]


def is_too_new(connection: sqlite3.Connection, step: int) -> bool:
    """Whether this library cannot use a file where that step was the last one."""
    if step <= SCHEMA:
        return False
    try:
        noted, oldest = connection.execute(
            "select max(number), max(oldest) from turnabout_migration"
        ).fetchone()
    except sqlite3.OperationalError:
        return True  # no ledger
    return noted is None or noted < step or oldest > SCHEMA
