"""The steps of a move, of its plan, and of giving it up."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

from turnabout.move._report import Moved, Progress
from turnabout.move._source import Begun, Source
from turnabout.words.errors import UsageError
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.move._target import Target


def move(
    source: str, target: str, *, progress: Callable[[Progress], object] | None = None
) -> Moved:
    """Move all queues of a file to a PostgreSQL database; called again, go on where it stood.

    `progress` is called at each step. Senders and workers may use the file until it is closed for
    the last step; then their calls raise Busy, and, when the queues have moved, WrongVersion with
    the new place. A message's id, attempt and receipt stay as they are.

    Raises: UsageError: it cannot be done, and nothing has happened; Busy: somebody else is moving
            this file; Disconnected: call again; Uncertain: call again to find out.
    """
    with closing(Source(source)) as file, closing(_database(target)) as database:
        from turnabout.move._mover import Mover

        begun = file.begun() or _begin(file, database)
        database.take(begun.token)
        if database.ledger() is None and (begun.state == "moved" or begun.place != database.place):
            _refuse(begun, database)
        return Mover(file, database, begun, progress or (lambda _: None)).run()


def plan(source: str, target: str) -> Moved:
    """What `move` would move; nothing is changed on either side.

    Raises: as `move`, for what stands in its way.
    """
    with closing(Source(source)) as file, closing(_database(target)) as database:
        from turnabout.move._mover import contents

        begun = file.begun()
        if begun is None:
            _check(file, database)
        elif begun.state == "moved" or begun.place != database.place:
            _refuse(begun, database)
        with file.snapshot():
            return contents(file, database.place)


def abort(source: str, target: str) -> bool:
    """Give up a move that has not come to its end; whether there was one. The file is in use as
    before; what was copied is removed from the target.

    Raises: UsageError if the queues have moved already.
    """
    with closing(Source(source)) as file, closing(_database(target)) as database:
        begun = file.begun()
        if begun is None:
            return False
        database.take(begun.token)
        ledger = database.ledger()
        if begun.state == "moved" or (ledger is not None and ledger.state == "done"):
            raise UsageError("the queues have moved already: there is nothing to give up")
        if ledger is None and begun.place != database.place:
            raise UsageError(f"this move goes to {begun.place}: name that database to give it up")
        if ledger is not None:
            database.undo()
        file.abort()
        return True


def _database(url: str) -> Target:
    if find_spec("psycopg") is None:
        raise UsageError(f"PostgreSQL needs the psycopg package: {install_hint('postgres')}")
    from turnabout.move._target import Target

    return Target(url)


def _begin(file: Source, database: Target) -> Begun:
    from turnabout.move._mover import SLACK

    _check(file, database)
    given = database.last_given()
    seen = max(file.one("last_given"), given + SLACK if given else 0)
    file.begin(secrets.token_hex(8), database.place, seen)
    begun = file.begun()
    assert begun is not None
    return begun


def _check(file: Source, database: Target) -> None:
    """Whatever stands in the way is said before anything is written."""
    with file.snapshot():
        names = [[row["name"] for row in file.rows(what)] for what in ("queues", "schedules")]
        database.refuse_used(*names)
        ids = database.ids_below(file.one("last_given"))
        for first in range(0, len(ids), 10_000):
            count, lowest = file.collisions(ids[first : first + 10_000])
            if count:
                raise UsageError(
                    f"the file and {database.place} have different messages with the same id "
                    f"({lowest}, for one), and ids cannot change: receipts are made of them. "
                    "Let the workers finish those of one side, or move to an empty database"
                )


def _refuse(begun: Begun, database: Target) -> None:
    if begun.state == "moved":
        raise UsageError(f"the queues of this file were moved to {begun.place}: nothing to do")
    raise UsageError(
        f"a move of this file to {begun.place} has begun, of which {database.place} knows nothing: "
        "name that database to go on, or give that move up (--abort)"
    )
