"""The steps of a move, of its plan, and of giving it up.

The file is closed, in one transaction, after all is on PostgreSQL and before that is committed; so
nobody ever finds the queues on both sides. A note there says that it was committed. The next move
that finds a closed file asks for the note.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msgspec import convert

from turnabout.move._report import CannotTell, Moved, Progress
from turnabout.move._source import Begun, Source
from turnabout.words.errors import TurnaboutError, Unavailable, UsageError
from turnabout.words.extras import install_hint

if TYPE_CHECKING:
    from turnabout.move._target import Target

Tell = Callable[[Progress], object]
TRIES, PAUSE_SECONDS = 40, 0.25
"""Time to find the outcome of a commit whose answer was lost."""


def move(
    source: str, target: str, *, progress: Callable[[Progress], object] | None = None
) -> Moved:
    """Move all queues of a file to a PostgreSQL database, or finish a move that was killed.

    `progress` is called at each step. Meanwhile the file can be read; verbs that write wait, and
    raise Busy after their `busy_seconds`. When the queues have moved, all raise WrongVersion with
    the new place. A message's id, attempt and receipt stay as they are.

    Raises: UsageError: it cannot be done; Busy: others hold the file's lock, or are moving it;
            Disconnected: nothing has happened; CannotTell: call again to find out.
    """
    token = secrets.token_hex(8)
    with closing(Source(source)) as file, closing(_database(target)) as database:
        begun = file.begun()
        report = begun and _settled(begun, file, database)
        if report is not None:
            return report
        try:
            _carry(token, file, database, progress or _silent)
        except BaseException as error:
            report = _find_out(token, file, database, error)
            if report is None:
                raise
            return report  # only the answer was lost, or the stop came too late
        report = _find_out(token, file, database)
        assert report is not None
        return report


def plan(source: str, target: str) -> Moved:
    """Return what `move` would move; nothing is changed on either side.

    Raises: as `move`, for what stands in its way.
    """
    with closing(Source(source)) as file, closing(_database(target)) as database:
        from turnabout.move._copy import check

        if (begun := file.begun()) is not None:
            raise _not_now(begun)
        with database.alone(), file.snapshot():
            check(file, database)
            return file.contents(database.place)


def abort(source: str, target: str) -> bool:
    """Open a file that a killed move has left closed; whether there was one.

    Raises: UsageError if the queues have moved already.
    """
    with closing(Source(source)) as file, closing(_database(target)) as database:
        begun = file.begun()
        if begun is None:
            return False
        if begun.state == "moved" or _settled(begun, file, database) is not None:
            raise UsageError("the queues have moved already: there is nothing to give up")
        return True


def _database(url: str) -> Target:
    if find_spec("psycopg") is None:
        raise UsageError(f"PostgreSQL needs the psycopg package: {install_hint('postgres')}")
    from turnabout.move._target import Target

    return Target(url)


def _silent(_: Progress) -> None:
    """The default callback: show no progress."""


def _carry(token: str, file: Source, database: Target, tell: Tell) -> None:
    """Copy everything, close the file, commit: in this order, so that a kill at any point leaves
    the queues on one side.
    """
    from turnabout.move._copy import Copy

    with database.alone():
        database.run("make_days")
        database.commit()
    with database.alone():
        with file.locked(database.place):
            copy = Copy(file, database, tell)
            copy.run(token)
            file.shut(token, database.place)
        copy.tell("closed")
        database.commit()
    copy.tell("committed")


def _settled(begun: Begun, file: Source, database: Target) -> Moved | None:
    """Bring a closed file to its end: marked as moved if PostgreSQL has the queues, or else open
    again (None).

    Raises: UsageError if it is marked already, or was to go to another database; Busy if the
            move that closed it still runs.
    """
    with database.alone():
        report = database.report(begun.token)
    if report is not None:
        file.finish(begun.token, begun.place)
        with suppress(TurnaboutError):  # a note that is left does no harm
            database.forget(begun.token)
        return convert(report, Moved)
    if begun.state == "moved" or begun.place != database.place:
        raise _not_now(begun)
    file.reopen(begun.token)
    return None


def _find_out(
    token: str, file: Source, database: Target, error: BaseException | None = None
) -> Moved | None:
    """Find the move's outcome (None: nothing has changed) on a new connection. The old one may
    still be committing: it holds the lock until it has.

    Raises: CannotTell.
    """
    begun = file.begun()
    if begun is None or begun.token != token:
        return None
    for _ in range(TRIES):
        try:
            database.reconnect()
            return _settled(begun, file, database)
        except Unavailable:
            time.sleep(PAUSE_SECONDS)
    raise CannotTell(
        f"{begun.place} was lost in the last step of the move, which may have been committed: the "
        "file stays closed until `turnabout move` is run again"
    ) from error


def _not_now(begun: Begun) -> UsageError:
    if begun.state == "moved":
        return UsageError(f"the queues of this file were moved to {begun.place}: nothing to do")
    return UsageError(
        f"a move of this file to {begun.place} was killed in its last step: name that database "
        "to finish it, or to give it up (--abort)"
    )
