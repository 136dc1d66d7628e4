"""Calls of the verbs about redrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import verbs as v
from turnabout.words.records import Redrive, RedriveFilter

_REDRIVE = (
    "id, queue, target, channel, died_from, died_until, error, per_second, state, moved, skipped,"
    " created_at, finished_at, next_at"
)


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


CALLS: dict[type[Any], Call] = {
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
}
