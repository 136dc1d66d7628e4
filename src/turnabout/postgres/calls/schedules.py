"""Calls of the verbs about schedules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, call, each, in_room, one, single
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import Fired, FireOutcome, NotDue
from turnabout.words.schedules import Schedule, ScheduleEntry, row_of

_SCHEDULE = (
    "name, queue, template::text, payload, cron, zone, every_ms, anchor, at, missed, overlap, gap,"
    " fold, paused, next_at, last_at, last_id, sent, refused"
)


def _set_parameters(verb: v.ScheduleSet, now: Now) -> Sequence[Any]:
    row = row_of(verb.schedule)
    payload = row.pop("payload")
    return now, json.dumps({**row, "next_at": verb.next_at}), payload


def _schedule(
    now: int, name: str, queue: str, template: str, payload: bytes, *when: Any
) -> ScheduleEntry:
    *timing, next_at, last_at, last_id, sent, refused = when
    message = Outgoing(payload, **json.loads(template))
    return ScheduleEntry(
        Schedule(name, queue, message, *timing), next_at, last_at, last_id, sent, now, refused
    )


def _fired(verb: v.ScheduleFire, rows: Rows) -> FireOutcome:
    return Fired(rows[0][0]) if rows else NotDue()


CALLS: dict[type[Any], Call] = {
    v.ScheduleSet: call(
        f"select coalesce($now::bigint, turnabout.clock_ms()), {_SCHEDULE}"
        " from turnabout.schedule_set($row::jsonb, $payload::bytea, $now::bigint)",
        one(_schedule),
        _set_parameters,
        repeatable=True,
    ),
    v.ScheduleDelete: call("select turnabout.schedule_delete($schedule::text)", single),
    v.ScheduleList: call(
        in_room(
            f"coalesce($now::bigint, turnabout.clock_ms()), {_SCHEDULE}",
            "schedule_list($queue::text, $due::boolean, $schedule::text, $now::bigint,"
            " $namespace::text, $after::text, $limit::int)",
            "payload",
        ),
        each(_schedule),
        repeatable=True,
    ),
    v.ScheduleFire: call(
        "select * from turnabout.schedule_fire($schedule::text, $due_at::bigint, $next_at::bigint,"
        " $skip::boolean, $now::bigint, $refused::boolean)",
        _fired,
        notifies=lambda s, rows: [row[1] for row in rows if row[0] is not None],
    ),
}
