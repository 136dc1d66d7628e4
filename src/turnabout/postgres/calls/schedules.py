"""Calls of the verbs about schedules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import Fired, FireOutcome, NotDue
from turnabout.words.schedules import Schedule, ScheduleEntry

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


CALLS: dict[type[Any], Call] = {
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
}
