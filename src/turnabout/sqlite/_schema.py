"""The schema of a file: numbered steps, each once, and the ledger that says which ones have run.

The core has steps, and so has each slice, numbered on their own. The ledger is a table, not
`pragma user_version`: the file may be an application's, which counts its own steps there. A step
only adds, so an older library can go on; one that it could not live with says so by
`-- oldest: <steps that a library must know>` in its comment, and the ledger keeps it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from turnabout import slices
from turnabout.sqlite._errors import our_errors
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import Place
from turnabout.words.errors import WrongVersion
from turnabout.words.extras import UPGRADE_HINT
from turnabout.words.migration import Migration, step_of

_CORE = Path(__file__).parent / "migrations"

LEDGER = """
create table if not exists turnabout_migration (
  slice text not null,  -- '' for the core
  number integer not null,
  name text not null,
  oldest integer not null,  -- how many steps a library must know to use the file from here on
  primary key (slice, number)
) strict, without rowid;
"""


class Reached(NamedTuple):
    """The last step of the core, or of a slice, that has run in a file."""

    step: int
    oldest: int


@cache
def folders() -> Mapping[str, Path]:
    """Folders of the steps of the core and of each slice."""
    others = {s.name: at / "migrations" for s in slices.found() if (at := s.folder("sqlite"))}
    return {"": _CORE, **others}


@cache
def migrations() -> tuple[Migration, ...]:
    """Return all steps in order, the core's first. A step is the files of one number."""
    return tuple(
        step_of(files[0].name, "\n".join(_text(file) for file in files), name)
        for name, folder in folders().items()
        for _, group in groupby(sorted(folder.glob("*.sql")), key=lambda file: file.name[:4])
        if (files := list(group))
    )


def wanted(slice_: str = "") -> int:
    """The last step that this library knows."""
    return max((step.number for step in migrations() if step.slice == slice_), default=0)


def missing(reached: Mapping[str, Reached]) -> list[Migration]:
    """The steps that a file lacks."""
    return beyond({name: there.step for name, there in reached.items()})


def beyond(since: Mapping[str, int]) -> list[Migration]:
    """The steps that come after these, which are the last ones of the core and of slices."""
    return [step for step in migrations() if step.number > since.get(step.slice, 0)]


def statements(steps: Sequence[Migration]) -> list[str]:
    """Statements that apply these steps and note them; to be run in order, in one transaction."""
    found = [LEDGER] if steps else []
    for step in steps:
        found += split(step.sql)
        found.append(
            "insert into turnabout_migration (slice, number, name, oldest)"  # noqa: S608
            f" values ('{step.slice}', {step.number}, '{step.name}', {step.oldest});"
        )
    return [statement.strip().removesuffix(";") for statement in found]


def migrate(connection: sqlite3.Connection, place: Place) -> tuple[str, ...]:
    """Bring the file to this library's schema. Of many processes at once, one does it, and answers
    with the names of the steps.

    Raises: WrongVersion: a newer library has changed the file beyond what this one can use.
    """
    if not missing(schema(connection)):
        return ()
    turnstile = Turnstile(place)
    try:
        turnstile.begin(connection)
        steps = missing(schema(connection))  # asked again, under the lock
        for statement in statements(steps):
            connection.execute(statement)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    finally:
        turnstile.close()
    return tuple(step.name for step in steps)


def refuse_older(connection: sqlite3.Connection) -> None:
    """Check a file that can only be read. Raises: WrongVersion if steps have to be run first."""
    if missing(schema(connection)):
        raise WrongVersion(
            "the file lacks tables of this version, and this user may only read it: open it once "
            "as a user who may write, or run `turnabout migrate up` as one"
        )


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


def schema(connection: sqlite3.Connection) -> dict[str, Reached]:
    """Return a file's version. Raises: WrongVersion if it is too new for this library."""
    _refuse_moved(connection)
    found = reached(connection)
    if is_too_new(found):
        raise WrongVersion(
            f"the file has schema {found[''].step}, this library knows {wanted()}: {UPGRADE_HINT}"
        )
    return found


def reached(connection: sqlite3.Connection) -> dict[str, Reached]:
    """Return a file's version by slice; empty if it is not ours yet."""
    if not _has(connection, "turnabout_migration"):
        return {}
    rows = connection.execute(
        "select slice, max(number), max(oldest) from turnabout_migration group by slice"
    )
    return {slice_: Reached(step, oldest) for slice_, step, oldest in rows}


def is_too_new(found: dict[str, Reached]) -> bool:
    """Whether a newer library has changed the file beyond what this one can use."""
    return any(found[name].oldest > wanted(name) for name in folders() if name in found)


def _refuse_moved(connection: sqlite3.Connection) -> None:
    """Raise what a file says that `turnabout move` has emptied, before a step meets its views."""
    if _has(connection, "turnabout_moved_queue"):
        with our_errors():
            connection.execute("select 1 from turnabout_queue").fetchone()


def _has(connection: sqlite3.Connection, table: str) -> bool:
    (found,) = connection.execute(
        "select exists (select 1 from sqlite_master where name = ?)", (table,)
    ).fetchone()
    return bool(found)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")
