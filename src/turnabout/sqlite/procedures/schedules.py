"""Schedules: kept, listed, and fired once per due time."""

from __future__ import annotations

import json
import sqlite3

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._rows import in_room
from turnabout.sqlite.procedures.send import send
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import Fired, FireOutcome, NotDue, Sent
from turnabout.words.schedules import TIMING, Schedule, ScheduleEntry, row_of
from turnabout.words.value import replace
from turnabout.words.verbs import ScheduleDelete, ScheduleFire, ScheduleList, ScheduleSet, Send

_SET = statements("schedule_set")
_DELETE = statements("schedule_delete")
_LIST = statements("schedule_list")
_FIRE = statements("schedule_fire")


def schedule_set(connection: Connection, verb: ScheduleSet, now: int) -> ScheduleEntry:
    """Make or replace a schedule. What it has sent so far stays known. A missing queue is made, as
    by a send: a receiver may be there before the first due time.
    """
    schedule = verb.schedule
    if _queue.find(connection, schedule.queue) is None:
        _queue.make(connection, schedule.queue, None, now)
    row = {**row_of(schedule), "next_at": verb.next_at}
    template = json.dumps(row["template"], ensure_ascii=False)
    connection.execute(_SET["set"], {**row, "template": template})
    made = _find(connection, schedule.name)
    assert made is not None
    return _entry(made, now)


def schedule_delete(connection: Connection, verb: ScheduleDelete, _now: int) -> bool:
    """Remove a schedule; whether it was there."""
    return connection.execute(_DELETE["delete"], {"name": verb.schedule}).rowcount > 0


def schedule_list(
    connection: Connection, verb: ScheduleList, now: int
) -> tuple[ScheduleEntry, ...]:
    """Schedules by name; those that are due, of all namespaces in turn."""
    step = "due" if verb.due else "all" if verb.namespace is None else "of_namespace"
    which = {"queue": verb.queue, "name": verb.schedule, "namespace": verb.namespace}
    part = {"after": verb.after, "most": verb.limit, "now": now}
    found = connection.execute(_LIST[step], {**which, **part})
    return tuple(_entry(row, now) for row in in_room(found, verb.room_bytes, "payload"))


def schedule_fire(connection: Connection, verb: ScheduleFire, now: int) -> FireOutcome:
    """Send the message of a due time that nobody has fired yet, or leave it out, and move on."""
    row = _find(connection, verb.schedule)
    if row is None or row["paused"] or row["next_at"] != verb.due_at:
        return NotDue()
    id_ = None
    # Setting a schedule may put back a due time that was fired meanwhile.
    was_sent = row["last_at"] is not None and verb.due_at <= row["last_at"]
    is_running = row["overlap"] == "skip" and _is_running(connection, row)
    is_wanted = not verb.skip and not was_sent and not is_running
    if is_wanted and not verb.refused:
        id_ = _sent(connection, row, now)
    sent = id_ is not None
    connection.execute(
        _FIRE["move_on"],
        {
            "name": verb.schedule,
            "next_at": verb.next_at,
            "last_at": verb.due_at if sent else row["last_at"],
            "last_id": id_ if sent else row["last_id"],
            "sent": row["sent"] + sent,
            "refused": is_wanted and not sent,
        },
    )
    return Fired(id_)


def _is_running(connection: Connection, row: sqlite3.Row) -> bool:
    """Whether the last message is unfinished in its queue."""
    parameters = {"id": row["last_id"], "queue": row["queue"]}
    return bool(connection.execute(_FIRE["is_unfinished"], parameters).fetchone()[0])


def _sent(connection: Connection, row: sqlite3.Row, now: int) -> int | None:
    """The id of the message; None: there was no room for it."""
    message = _message(row)
    plain = row["name"].rpartition("/")[2]  # its namespace does not concern receivers
    marks = {"schedule": plain, "due-at": str(row["next_at"])}
    marked = replace(message, headers={**(message.headers or {}), **marks})
    outcome = send(connection, Send(row["queue"], (marked,)), now)
    if not isinstance(outcome, Sent):
        return None
    connection.to_notify.add(row["queue"])
    return outcome.id


def _message(row: sqlite3.Row) -> Outgoing:
    return Outgoing(row["payload"], **json.loads(row["template"]))


def _find(connection: Connection, name: str) -> sqlite3.Row | None:
    return connection.execute(_FIRE["find"], {"name": name}).fetchone()


def _entry(row: sqlite3.Row, now: int) -> ScheduleEntry:
    timing = {name: row[name] for name in TIMING}
    timing["paused"] = bool(row["paused"])
    schedule = Schedule(**timing, message=_message(row))
    return ScheduleEntry(
        schedule, row["next_at"], row["last_at"], row["last_id"], row["sent"], now, row["refused"]
    )
