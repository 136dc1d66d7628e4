"""Calls of the verbs about redrives."""

from __future__ import annotations

from typing import Any

from turnabout.postgres.call import Call, Rows, call, each
from turnabout.words import verbs as v
from turnabout.words.records import Redrive, RedriveFilter

_REDRIVE = (
    "id, queue, target, channel, died_from, died_until, error, ids, per_second, state, moved,"
    " skipped, created_at, finished_at, next_at, started_by"
)


def _redrive(*row: Any) -> Redrive:
    id_, queue, target, channel, died_from, died_until, error, ids, *rest = row
    named = None if ids is None else tuple(ids)
    kept = RedriveFilter(channel, died_from, died_until, error, named)
    return Redrive(id_, queue, target, kept, *rest)


def _one(verb: Any, rows: Rows) -> Redrive:
    return _redrive(*rows[0][:16])


CALLS: dict[type[Any], Call] = {
    v.RedriveStart: call(
        f"select {_REDRIVE} from turnabout.redrive_start($queue::text, $target::text,"
        " $filter.channel::text, $filter.died_from::bigint, $filter.died_until::bigint,"
        " $filter.error::text, $per_second::int, $max_redrives::int, $dry_run::boolean,"
        " $now::bigint, $filter.ids::bigint[], $started_by::text)",
        _one,
    ),
    v.RedriveStep: call(
        f"select (s.redrive).{_REDRIVE.replace(', ', ', (s.redrive).')}, s.notified"
        " from turnabout.redrive_step($id::bigint, $now::bigint, $namespace::text) s",
        _one,
        notifies=lambda r, rows: rows[0][16],
    ),
    v.RedriveCancel: call(
        f"select {_REDRIVE}"
        " from turnabout.redrive_cancel($id::bigint, $now::bigint, $namespace::text)",
        _one,
        repeatable=True,
    ),
    v.RedriveList: call(
        f"select {_REDRIVE}"
        " from turnabout.redrive_list($queue::text, $limit::int, $namespace::text)",
        each(_redrive),
        repeatable=True,
    ),
}
