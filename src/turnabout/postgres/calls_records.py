"""Calls of the verbs about what is kept: endings, history, events, redrives, schedules."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import credentials as c
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.limits import shown
from turnabout.words.outcomes import Cleared, Fired, FireOutcome, NotDue
from turnabout.words.records import (
    Ending,
    Event,
    EventPage,
    HistoryEntry,
    HistoryPage,
    Redrive,
    RedriveFilter,
    Result,
)
from turnabout.words.schedules import Schedule, ScheduleEntry

_CURSOR = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")
_PLACE = re.compile(_CURSOR.pattern + r"(?:\.([0-9]{1,19}\.[0-9]{1,9}\.[1-4]))?")
"""Of a page of history; earlier libraries gave the first two numbers alone."""
_PART = 10_000

_REDRIVE = (
    "id, queue, target, channel, died_from, died_until, error, per_second, state, moved, skipped,"
    " created_at, finished_at, next_at"
)
_SCHEDULE = (
    "name, queue, template::text, payload, cron, zone, every_ms, anchor, at, missed, overlap, gap,"
    " fold, paused, next_at, last_at, last_id, sent"
)
_TEMPLATE = (
    "content_type",
    "channel",
    "priority",
    "delay_ms",
    "ttl_ms",
    "dedup_key",
    "dedup_mode",
    "dedup_window_ms",
    "dedup_scope",
)


def _place(cursor: str | None, what: str) -> tuple[str | None, str | None]:
    """The two numbers of a cursor, as text: either may be anything up to 64 bits."""
    if cursor is None:
        return None, None
    match = _match(_CURSOR, cursor, what)
    return match[1], match[2]


def _match(form: re.Pattern[str], cursor: str, what: str) -> re.Match[str]:
    match = form.fullmatch(cursor)
    if match is None:
        raise UsageError(f"{shown(cursor)} is no cursor: take it from a page of {what}")
    return match


# --- what has ended ------------------------------------------------------------------------------


def _result(data: bytes | None, content_type: str | None) -> Result | None:
    return None if data is None or content_type is None else Result(data, content_type)


def _endings(verb: v.Endings, rows: Rows) -> tuple[Ending | None, ...]:
    return tuple(map(_ending, rows))


def _ending(row: Row) -> Ending | None:
    id_, outcome, finished_at, attempt, failures, crashes, error, data, content_type = row
    if outcome is None:
        return None
    if outcome == "unknown":
        return Ending(id_, outcome)
    result = _result(data, content_type)
    return Ending(id_, outcome, finished_at, attempt, failures, crashes, error, result)


def _history_parameters(verb: v.History, now: Now) -> Sequence[Any]:
    """One more is asked for: whether there is more."""
    match = None if verb.cursor is None else _match(_PLACE, verb.cursor, "history")
    return (
        verb.queue,
        verb.limit + 1,
        verb.outcome,
        verb.channel,
        verb.error,
        verb.finished_from,
        verb.finished_until,
        *((None, None) if match is None else match.group(1, 2)),
        now,
        None if match is None else match[3],
    )


def _history(verb: v.History, rows: Rows) -> HistoryPage:
    entries = tuple(map(_entry, rows[: verb.limit]))
    if len(rows) <= verb.limit:
        return HistoryPage(entries, None)
    last, rest = entries[-1], rows[verb.limit - 1][-1]
    return HistoryPage(entries, f"{last.finished_at}.{last.id}.{rest}")


def _entry(row: Row) -> HistoryEntry:
    *plain, data, result_type, payload, content_type, headers, _ = row
    kept: Any = None
    if content_type is not None:  # the payload was kept
        kept = {} if headers is None else json.loads(headers)
    return HistoryEntry(
        *plain,
        result=_result(data, result_type),
        payload=payload,
        content_type=content_type,
        headers=kept,
    )


def _clear_parameters(verb: v.Clear, now: Now) -> Sequence[Any]:
    return verb.queue, verb.which, _PART if verb.limit is None else min(verb.limit, _PART)


# --- events --------------------------------------------------------------------------------------


def _events_parameters(verb: v.Events, now: Now) -> Sequence[Any]:
    return verb.queue, *_place(verb.cursor, "events"), verb.limit


def _events(verb: v.Events, rows: Rows) -> EventPage:
    if verb.cursor is None:
        return EventPage((), rows[0][0])
    events = tuple(
        Event(kind, verb.queue, at, id_, channel, attempt, due_at, cursor)
        for cursor, kind, at, id_, channel, attempt, due_at in rows
    )
    return EventPage(events, rows[-1][0] if rows else verb.cursor)


# --- redrives ------------------------------------------------------------------------------------


def _redrive_parameters(verb: v.RedriveStart, now: Now) -> Sequence[Any]:
    kept = verb.filter
    return (
        verb.queue,
        verb.target,
        kept.channel,
        kept.died_from,
        kept.died_until,
        kept.error,
        verb.per_second,
        verb.max_redrives,
        verb.dry_run,
        now,
    )


def _redrive(row: Row) -> Redrive:
    id_, queue, target, channel, died_from, died_until, error, *rest = row
    kept = RedriveFilter(channel, died_from, died_until, error)
    return Redrive(id_, queue, target, kept, *rest)


def _one_redrive(verb: Any, rows: Rows) -> Redrive:
    return _redrive(rows[0][:14])


def _redrive_call(
    name: str, parameters: Callable[[Any, Now], Sequence[Any]], places: str, **options: Any
) -> Call:
    text = f"select {_REDRIVE} from turnabout.{name}({places})"
    return Call(text, parameters, _one_redrive, **options)


# --- schedules -----------------------------------------------------------------------------------


def _set_parameters(verb: v.ScheduleSet, now: Now) -> Sequence[Any]:
    given = verb.schedule
    message = given.message
    template = {name: getattr(message, name) for name in _TEMPLATE}
    row = {
        "name": given.name,
        "queue": given.queue,
        "template": {**template, "headers": message.headers and dict(message.headers)},
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
    }
    return json.dumps(row), message.payload, now


def _schedule(row: Row) -> ScheduleEntry:
    now, name, queue, template, payload, *when = row
    *timing, next_at, last_at, last_id, sent = when
    message = Outgoing(payload, **json.loads(template))
    return ScheduleEntry(
        Schedule(name, queue, message, *timing), next_at, last_at, last_id, sent, now
    )


def _schedules(verb: v.ScheduleList, rows: Rows) -> tuple[ScheduleEntry, ...]:
    return tuple(map(_schedule, rows))


def _fired(verb: v.ScheduleFire, rows: Rows) -> FireOutcome:
    return Fired(rows[0][0]) if rows else NotDue()


def _repeats_parameters(verb: c.Repeats, now: Now) -> Sequence[Any]:
    messages = verb.messages
    return (
        verb.queue,
        [m.channel for m in messages],
        [m.dedup_key for m in messages],
        [m.dedup_mode for m in messages],
        [m.dedup_scope for m in messages],
        now,
    )


CALLS: dict[type[Any], Call] = {
    v.Endings: Call(
        "select * from turnabout.endings($1::text, $2::bigint[], $3::bigint)",
        lambda e, now: (e.queue, "{" + ",".join(map(str, e.ids)) + "}", now),
        _endings,
        repeatable=True,
    ),
    v.History: Call(
        "select * from turnabout.history($1::text, $2::int, $3::text, $4::text, $5::text,"
        " $6::bigint, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::text)",
        _history_parameters,
        _history,
        repeatable=True,
    ),
    v.Clear: Call(
        "select turnabout.clear($1::text, $2::text, $3::int)",
        _clear_parameters,
        lambda c, rows: Cleared(rows[0][0]),
        in_parts=True,
    ),
    v.Events: Call(
        "select * from turnabout.events($1::text, $2::xid8, $3::bigint, $4::int)",
        _events_parameters,
        _events,
        repeatable=True,
    ),
    v.RedriveStart: _redrive_call(
        "redrive_start",
        _redrive_parameters,
        "$1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::text, $7::int, $8::int,"
        " $9::boolean, $10::bigint",
    ),
    v.RedriveStep: Call(
        f"select (s.redrive).{_REDRIVE.replace(', ', ', (s.redrive).')}, s.notified"
        " from turnabout.redrive_step($1::bigint, $2::bigint, $3::text) s",
        lambda r, now: (r.id, now, r.namespace),
        _one_redrive,
        notifies=lambda r, rows: rows[0][14],
    ),
    v.RedriveCancel: _redrive_call(
        "redrive_cancel",
        lambda r, now: (r.id, now, r.namespace),
        "$1::bigint, $2::bigint, $3::text",
        repeatable=True,
    ),
    v.RedriveList: Call(
        f"select {_REDRIVE} from turnabout.redrive_list($1::text, $2::int, $3::text)",
        lambda r, now: (r.queue, r.limit, r.namespace),
        lambda r, rows: tuple(map(_redrive, rows)),
        repeatable=True,
    ),
    v.ScheduleSet: Call(
        f"select coalesce($3::bigint, turnabout.clock_ms()), {_SCHEDULE}"
        " from turnabout.schedule_set($1::jsonb, $2::bytea, $3::bigint)",
        _set_parameters,
        lambda s, rows: _schedule(rows[0]),
        repeatable=True,
    ),
    v.ScheduleDelete: Call(
        "select turnabout.schedule_delete($1::text)",
        lambda s, now: (s.schedule,),
        lambda s, rows: rows[0][0],
    ),
    v.ScheduleList: Call(
        f"select coalesce($4::bigint, turnabout.clock_ms()), {_SCHEDULE}"
        " from turnabout.schedule_list($1::text, $2::boolean, $3::text, $4::bigint,"
        " $5::text)",
        lambda s, now: (s.queue, s.due, s.schedule, now, s.namespace),
        _schedules,
        repeatable=True,
    ),
    v.ScheduleFire: Call(
        "select * from turnabout.schedule_fire($1::text, $2::bigint, $3::bigint, $4::boolean,"
        " $5::bigint)",
        lambda s, now: (s.schedule, s.due_at, s.next_at, s.skip, now),
        _fired,
        notifies=lambda s, rows: [row[1] for row in rows if row[0] is not None],
    ),
    c.Totals: Call(
        "select * from turnabout.totals($1::text, $2::boolean, $3::bigint)",
        lambda t, now: (t.namespace, t.bytes, now),
        lambda t, rows: tuple(c.QueueTotals(*row) for row in rows),
        repeatable=True,
    ),
    c.Repeats: Call(
        "select turnabout.repeats($1::text, $2::text[], $3::text[], $4::text[], $5::text[],"
        " $6::bigint)",
        _repeats_parameters,
        lambda r, rows: rows[0][0],
        repeatable=True,
    ),
}
