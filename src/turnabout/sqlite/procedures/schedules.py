"""Schedules: kept, listed, and fired once per due time."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures.send import send
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import Fired, FireOutcome, NotDue, Sent
from turnabout.words.schedules import Schedule, ScheduleEntry
from turnabout.words.verbs import ScheduleDelete, ScheduleFire, ScheduleList, ScheduleSet, Send

_SET = statements("schedule_set")
_DELETE = statements("schedule_delete")
_LIST = statements("schedule_list")
_FIRE = statements("schedule_fire")
_TEMPLATE = (
    "content_type",
    "channel",
    "priority",
    "delay_ms",
    "headers",
    "ttl_ms",
    "dedup_key",
    "dedup_mode",
    "dedup_window_ms",
    "dedup_scope",
)


def schedule_set(connection: Connection, verb: ScheduleSet, now: int) -> ScheduleEntry:
    """Make or replace a schedule. What it has sent so far stays known. A missing queue is made, as
    by a send: a receiver may be there before the first due time.
    """
    given = verb.schedule
    if _queue.find(connection, given.queue) is None:
        _queue.make(connection, given.queue, None, now)
    template = {name: getattr(given.message, name) for name in _TEMPLATE}
    if template["headers"] is not None:
        template["headers"] = dict(template["headers"])
    connection.execute(
        _SET["set"],
        {
            "name": given.name,
            "queue": given.queue,
            "template": json.dumps(template, ensure_ascii=False),
            "payload": given.message.payload,
            "cron": given.cron,
            "zone": given.zone,
            "every_ms": given.every_ms,
            "anchor": given.anchor,
            "at": given.at,
            "missed": given.missed,
            "overlap": given.overlap,
            "gap": given.gap,
            "fold": given.fold,
            "paused": given.paused,
            "next_at": verb.next_at,
        },
    )
    row = _find(connection, given.name)
    assert row is not None
    return _entry(row, now)


def schedule_delete(connection: Connection, verb: ScheduleDelete, _now: int) -> bool:
    """Remove a schedule; whether it was there."""
    return connection.execute(_DELETE["delete"], {"name": verb.schedule}).rowcount > 0


def schedule_list(
    connection: Connection, verb: ScheduleList, now: int
) -> tuple[ScheduleEntry, ...]:
    """Schedules by name."""
    step = "due" if verb.due else "all" if verb.namespace is None else "of_namespace"
    parameters = {
        "queue": verb.queue,
        "now": now,
        "name": verb.schedule,
        "namespace": verb.namespace,
    }
    found = connection.execute(_LIST[step], parameters)
    return tuple(sorted((_entry(row, now) for row in found), key=lambda e: e.schedule.name))


def schedule_fire(connection: Connection, verb: ScheduleFire, now: int) -> FireOutcome:
    """Send the message of a due time that nobody has fired yet, or leave it out, and move on."""
    row = _find(connection, verb.schedule)
    if row is None or row["paused"] or row["next_at"] != verb.due_at:
        return NotDue()
    id_ = None
    # Setting a schedule may put back a due time that was fired meanwhile.
    was_sent = row["last_at"] is not None and verb.due_at <= row["last_at"]
    is_running = row["overlap"] == "skip" and _is_running(connection, row)
    if not verb.skip and not was_sent and not is_running:
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
    return ScheduleEntry(
        Schedule(
            name=row["name"],
            queue=row["queue"],
            message=_message(row),
            cron=row["cron"],
            zone=row["zone"],
            every_ms=row["every_ms"],
            anchor=row["anchor"],
            at=row["at"],
            missed=row["missed"],
            overlap=row["overlap"],
            gap=row["gap"],
            fold=row["fold"],
            paused=bool(row["paused"]),
        ),
        next_at=row["next_at"],
        last_at=row["last_at"],
        last_id=row["last_id"],
        sent=row["sent"],
        now=now,
    )
