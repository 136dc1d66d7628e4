"""Calls of the verbs about queues and channels: settings, policies, counts, removal, tend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import verbs as v
from turnabout.words.entities import ChannelPolicy, ChannelStats, QueueEntry, QueueStats
from turnabout.words.errors import UsageError
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.outcomes import AlreadyExists, Created, Deleted, Purged
from turnabout.words.policy import (
    NO_POLICY,
    POLICY_COLUMNS,
    SETTINGS_COLUMNS,
    Policy,
    QueueSettings,
    policy_of,
    policy_row,
    settings_of,
    settings_row,
)

_ENTRY = f"name, dead_letter, created_at, {', '.join(SETTINGS_COLUMNS)}"


def _entry(row: Row) -> QueueEntry:
    columns = dict(zip(SETTINGS_COLUMNS, row[3:], strict=True))
    if columns["dead_letter"] == row[0] + DEAD_SUFFIX:
        columns["dead_letter"] = None  # as it is unless somebody names another
    return QueueEntry(row[0], settings_of(columns), row[1], row[2])


def _create_answer(verb: v.QueueCreate, rows: Rows) -> Created | AlreadyExists:
    made, *row = rows[0]
    entry = _entry(row)
    return Created(entry) if made else AlreadyExists(entry)


def _update_parameters(verb: v.QueueUpdate, now: Now) -> Sequence[Any]:
    if "fifo" in verb.changes:
        raise UsageError("fifo is fixed when a queue is made: make another queue")
    # Which kind of queue it is only the database knows: what needs a FIFO queue is refused there.
    new = settings_row(QueueSettings(fifo=True).changed(verb.changes))
    if new["dead_letter"] is None and not verb.queue.endswith(DEAD_SUFFIX):
        new["dead_letter"] = verb.queue + DEAD_SUFFIX
    named: set[str] = set()
    for setting, value in verb.changes.items():
        named.update(_columns_of(setting, value))
    return verb.queue, json.dumps({c: x for c, x in new.items() if c in named}), now


def _columns_of(setting: str, value: Any) -> Sequence[str]:
    if setting == "policy":
        if not isinstance(value, Mapping):
            return POLICY_COLUMNS
        return tuple(policy_columns(cast("Mapping[str, Any]", value)))
    if setting == "backoff_jitter":
        return ("backoff_jitter_percent",)
    return (setting.replace("_seconds", "_ms"),)


def policy_columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a change of policy sets, checked."""
    policy = NO_POLICY.changed(changes)
    row: dict[str, Any] = {
        **policy_row(policy),
        "paused": policy.paused,
        "pause_reason": policy.pause_reason,
    }
    wanted = {name if name != "rate" else "rate_count" for name in changes}
    return {
        column: value
        for column, value in row.items()
        if column in wanted or ("rate" in changes and column.startswith("rate_"))
    }


def _policy_parameters(verb: v.PolicySet, now: Now) -> Sequence[Any]:
    changes = json.dumps(policy_columns(verb.changes))
    return verb.queue, verb.channel, changes, verb.replace, now


def _policy(columns: Mapping[str, Any] | None) -> Policy:
    if columns is None:
        return NO_POLICY
    full = dict.fromkeys(POLICY_COLUMNS) | dict(columns)
    return policy_of(
        full, paused=bool(columns.get("paused")), pause_reason=columns.get("pause_reason")
    )


def _policy_answer(verb: Any, rows: Rows) -> Policy:
    return _policy(rows[0][0])


def _stats_answer(verb: v.Stats, rows: Rows) -> tuple[QueueStats, ...]:
    return tuple(QueueStats(*row) for row in rows)


CALLS: dict[type[Any], Call] = {
    v.Stats: Call(
        "select * from turnabout.stats($1::text, $2::bigint, $3::text)",
        lambda s, now: (s.queue, now, s.namespace),
        _stats_answer,
        repeatable=True,
    ),
    v.StatsOfChannels: Call(
        "select * from turnabout.stats_of_channels($1::text, $2::int, $3::bigint)",
        lambda s, now: (s.queue, s.limit, now),
        lambda s, rows: tuple(ChannelStats(*row) for row in rows),
        repeatable=True,
    ),
    v.Purge: Call(
        "select turnabout.purge($1::text, $2::text, $3::text, 10000, $4::bigint)",
        lambda p, now: (p.queue, p.channel, p.state, now),
        lambda p, rows: Purged(rows[0][0]),
        in_parts=True,
    ),
    v.ChannelDelete: Call(
        "select turnabout.channel_delete($1::text, $2::text, 10000, $3::bigint)",
        lambda c, now: (c.queue, c.channel, now),
        lambda c, rows: Deleted(rows[0][0]),
        in_parts=True,
    ),
    v.QueueCreate: Call(
        "with made as (select * from turnabout.queue_create($1::text, $2::jsonb, $3::bigint))"
        f" select true, {_ENTRY} from made where id is not null"
        f" union all select false, {_ENTRY}"
        " from turnabout.queue_list((select $1::text from made where id is null))"
        " where (select id from made) is null",
        lambda q, now: (q.queue, json.dumps(settings_row(q.settings)), now),
        _create_answer,
    ),
    v.QueueGet: Call(
        f"select {_ENTRY} from turnabout.queue_list($1::text)",
        lambda q, now: (q.queue,),
        lambda q, rows: _entry(rows[0]),
        repeatable=True,
    ),
    v.QueueUpdate: Call(
        f"select {_ENTRY} from turnabout.queue_update($1::text, $2::jsonb, $3::bigint)",
        _update_parameters,
        lambda q, rows: _entry(rows[0]),
    ),
    v.QueueList: Call(
        f"select {_ENTRY} from turnabout.queue_list(null, $1::text)",
        lambda q, now: (q.namespace,),
        lambda q, rows: tuple(map(_entry, rows)),
        repeatable=True,
    ),
    v.QueueDelete: Call(
        "select turnabout.queue_delete($1::text)",
        lambda q, now: (q.queue,),
        lambda q, rows: Deleted(rows[0][0]),
    ),
    v.PolicySet: Call(
        "select turnabout.policy_set($1::text, $2::text, $3::jsonb, $4::boolean, $5::bigint)",
        _policy_parameters,
        _policy_answer,
    ),
    v.PolicyGet: Call(
        "select turnabout.policy_get($1::text, $2::text)",
        lambda p, now: (p.queue, p.channel),
        _policy_answer,
        repeatable=True,
    ),
    v.PolicyList: Call(
        "select * from turnabout.policy_list($1::text)",
        lambda p, now: (p.queue,),
        lambda p, rows: tuple(ChannelPolicy(name, _policy(columns)) for name, columns in rows),
        repeatable=True,
    ),
    v.Maintain: Call(
        "select turnabout.maintain($1::text, $2::bigint)",
        lambda t, now: (t.queue, now),
        lambda t, rows: None,
        repeatable=True,
    ),
}
