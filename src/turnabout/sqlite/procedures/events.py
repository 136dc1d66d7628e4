"""Events: what happened in a queue after a cursor."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._rows import value_of
from turnabout.words.entities import note_of
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.records import Event, EventPage
from turnabout.words.verbs import Events

_SQL = statements("events")


def events(connection: Connection, verb: Events, _now: int) -> EventPage:
    """The next events in order; without a cursor none, and the cursor of now."""
    queue = _queue.need(connection, verb.queue)
    if verb.cursor is None:
        last = connection.execute(_SQL["last"]).fetchone()
        return EventPage((), "0" if last is None else str(last["seq"]))
    parameters = {"queue": queue["id"], "after": _number(verb.cursor), "most": verb.limit}
    found = tuple(
        value_of(
            Event,
            row,
            queue=verb.queue,
            id=row["message_id"],
            cursor=str(row["seq"]),
            note=note_of(row["note"]),
        )
        for row in connection.execute(_SQL["after"], parameters)
    )
    return EventPage(found, found[-1].cursor or "" if found else verb.cursor)


def _number(cursor: str) -> int:
    if not cursor.isdecimal() or len(cursor) > 18:
        raise UsageError(f"{shown(cursor)} is not a cursor of events: give one as it came")
    return int(cursor)
