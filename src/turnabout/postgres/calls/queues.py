"""Calls of the verbs about queues and channels: settings, policies, counts, removal, maintain."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from turnabout.postgres.call import Call, Now, Rows, call, each, nothing, one
from turnabout.words import verbs as v
from turnabout.words.entities import (
    ChannelPolicy,
    ChannelStats,
    QueueEntry,
    QueueStats,
)
from turnabout.words.errors import UsageError
from turnabout.words.fairness import ChannelShare, FairShares
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.outcomes import AlreadyExists, Created, Deleted, Purged
from turnabout.words.policy import (
    NO_POLICY,
    PAUSE_COLUMNS,
    POLICY_COLUMNS,
    QUEUE_RATE_COLUMNS,
    SETTINGS_COLUMNS,
    Policy,
    QueueSettings,
    column_of,
    own_policy_of,
    pause_row,
    policy_row,
    settings_of,
    settings_row,
)
from turnabout.words.workers import entries_of, kept_state

_ENTRY = f"name, dead_letter, created_at, modified_at, {', '.join(SETTINGS_COLUMNS)}"


def _entry(
    name: str, dead_letter: str | None, created_at: int, modified_at: int, *settings: Any
) -> QueueEntry:
    columns = dict(zip(SETTINGS_COLUMNS, settings, strict=True))
    if columns["dead_letter"] == name + DEAD_SUFFIX:
        columns["dead_letter"] = None  # as it is unless somebody names another
    return QueueEntry(name, settings_of(columns), dead_letter, created_at, modified_at)


def _created(is_new: object, *row: Any) -> Created | AlreadyExists:
    return Created(_entry(*row)) if is_new else AlreadyExists(_entry(*row))


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
    if setting == "queue_rate":
        return QUEUE_RATE_COLUMNS
    return (column_of(setting),)


def policy_columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a change of policy sets, checked."""
    policy = NO_POLICY.changed(changes)
    row: dict[str, Any] = {**policy_row(policy), **pause_row(policy)}
    wanted = {name if name != "rate" else "rate_count" for name in changes}
    return {
        column: value
        for column, value in row.items()
        if column in wanted or ("rate" in changes and column.startswith("rate_"))
    }


def _policy_parameters(verb: v.PolicySet, now: Now) -> Sequence[Any]:
    changes = json.dumps(policy_columns(verb.changes))
    return verb.queue, verb.channel, changes, verb.replace, verb.pause_ms, now


def _policy(text: str | None) -> Policy:
    """Columns read as text: programs configure their drivers' JSON in ways of their own."""
    if text is None:
        return NO_POLICY
    return own_policy_of(dict.fromkeys((*POLICY_COLUMNS, *PAUSE_COLUMNS)) | json.loads(text))


def _channel_policy(name: str, text: str) -> ChannelPolicy:
    return ChannelPolicy(name, _policy(text))


def _shares(_: v.Fairness, rows: Rows) -> FairShares:
    """The first row has the sums."""
    (_, ready, leased, oldest, _, _, served, busy, held, _, starved, waiting, found, *rest) = rows[
        0
    ]
    channels = tuple(ChannelShare(*row[:10], starved=bool(row[10])) for row in rows[1:])
    sums = (ready or 0, leased or 0, waiting, held, starved, oldest, served or 0, busy or 0)
    window, by_leases = rest
    return FairShares(channels, found, *sums, window, by_leases)


CALLS: dict[type[Any], Call] = {
    v.Stats: call(
        "select * from turnabout.stats($queue::text, $now::bigint, $namespace::text, $after::text,"
        " $limit::int)",
        each(QueueStats),
        repeatable=True,
    ),
    v.StatsOfChannels: call(
        "select * from turnabout.stats_of_channels($queue::text, $limit::int, $now::bigint)",
        each(ChannelStats),
        repeatable=True,
    ),
    v.Fairness: call(
        "select * from turnabout.fairness($queue::text, $window_ms::bigint, $sort::text,"
        " $find::text, $offset::int, $limit::int, $now::bigint)",
        _shares,
        repeatable=True,
    ),
    v.WorkerReport: call(
        "select turnabout.worker_report($queue::text, $worker::text, $state::text, $now::bigint)",
        nothing,
        lambda verb, now: (verb.queue, verb.worker, kept_state(verb.state), now),
        repeatable=True,
    ),
    v.WorkerList: call(
        "select * from turnabout.worker_list($queue::text, $now::bigint)",
        lambda _, rows: entries_of(rows),
        repeatable=True,
    ),
    v.Purge: call(
        "select turnabout.purge($queue::text, $channel::text, $state::text, 10000, $now::bigint)",
        one(Purged),
        in_parts=True,
    ),
    v.ChannelDelete: call(
        "select turnabout.channel_delete($queue::text, $channel::text, 10000, $now::bigint)",
        one(Deleted),
        in_parts=True,
    ),
    v.QueueCreate: call(
        "with made as (select * from"
        " turnabout.queue_create($queue::text, $settings::jsonb, $now::bigint))"
        f" select true, {_ENTRY} from made where id is not null"
        f" union all select false, {_ENTRY}"
        " from turnabout.queue_list((select $queue::text from made where id is null))"
        " where (select id from made) is null",
        one(_created),
        lambda q, now: (q.queue, json.dumps(settings_row(q.settings)), now),
    ),
    v.QueueGet: call(
        f"select {_ENTRY} from turnabout.queue_list($queue::text)", one(_entry), repeatable=True
    ),
    v.QueueUpdate: call(
        f"select {_ENTRY} from turnabout.queue_update($queue::text, $changes::jsonb, $now::bigint)",
        one(_entry),
        _update_parameters,
        settles=True,
    ),
    v.QueueList: call(
        f"select {_ENTRY}"
        " from turnabout.queue_list(null, $namespace::text, $after::text, $limit::int)",
        each(_entry),
        repeatable=True,
    ),
    v.QueueDelete: call("select turnabout.queue_delete($queue::text)", one(Deleted), settles=True),
    v.PolicySet: call(
        "select turnabout.policy_set($queue::text, $channel::text, $changes::jsonb,"
        " $replace::boolean, $pause_ms::bigint, $now::bigint)::text",
        one(_policy),
        _policy_parameters,
        settles=True,
    ),
    v.PolicyGet: call(
        "select turnabout.policy_get($queue::text, $channel::text)::text",
        one(_policy),
        repeatable=True,
    ),
    v.PolicyList: call(
        "select channel, policy::text"
        " from turnabout.policy_list($queue::text, $after::text, $limit::int)",
        each(_channel_policy),
        repeatable=True,
    ),
    v.Maintain: call(
        "select turnabout.maintain($queue::text, $now::bigint)", nothing, repeatable=True
    ),
}
