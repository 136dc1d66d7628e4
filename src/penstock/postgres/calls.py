"""Verbs as calls of PostgreSQL functions: for each, the SQL text, its parameters, its answer.

Pure and without colour; both stores use it. Every statement is one `select` of one function, with
every parameter cast, so that any client can run it and the server plans it once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.words import verbs as v
from penstock.words.entities import (
    ChannelPolicy,
    ChannelStats,
    Delivery,
    Origin,
    Outgoing,
    Peeked,
    QueueEntry,
    QueueStats,
    Receipt,
    Turn,
)
from penstock.words.errors import BrokenInvariant, UsageError
from penstock.words.limits import DEAD_SUFFIX
from penstock.words.outcomes import (
    Acked,
    AlreadyExists,
    ChannelFull,
    Created,
    Dead,
    Deferred,
    Deleted,
    Extended,
    LeaseLost,
    Purged,
    Received,
    Released,
    Retrying,
    Sent,
)
from penstock.words.policy import (
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

Row = Sequence[Any]
Rows = Sequence[Row]
Now = int | None

_NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """One function call. `repeatable`: it changes nothing that a second run would spoil."""

    text: str
    parameters: Callable[[Any, Now], Sequence[Any]]
    answer: Callable[[Any, Rows], Any]
    repeatable: bool = False
    impatient: bytes | None = None
    """The call to make instead when this one met rows that others hold for long."""
    sql: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sql", self.text.encode())


def _send_parameters(verb: v.Send, now: Now) -> Sequence[Any]:
    """What all messages leave at its default is not sent at all."""
    messages = verb.messages
    kind = messages[0].content_type
    plain = all(map(_is_plain, messages))
    return (
        verb.queue,
        [m.payload for m in messages],
        kind,
        [m.channel for m in messages] if any(m.channel for m in messages) else None,
        None if plain else [m.priority for m in messages],
        None if plain else [m.delay_ms for m in messages],
        None if plain else [_headers_out(m.headers) for m in messages],
        None
        if all(m.content_type == kind for m in messages)
        else [m.content_type for m in messages],
        now,
    )


def _headers_out(headers: Mapping[str, str] | None) -> str | None:
    return json.dumps(dict(headers)) if headers else None


def _ids(receipts: Sequence[Receipt]) -> str:
    """An array as a literal: much cheaper to write than the driver's own arrays."""
    return "{" + ",".join([str(r[0]) for r in receipts]) + "}"


def _attempts(receipts: Sequence[Receipt]) -> str:
    """The attempts, or a single one that holds for all."""
    attempts = [r[1] for r in receipts]
    if attempts.count(attempts[0]) == len(attempts):
        return f"{{{attempts[0]}}}"
    return "{" + ",".join(map(str, attempts)) + "}"


def _is_plain(message: Outgoing) -> bool:
    return message.delay_ms is None and not message.priority and not message.headers


def _send_answer(verb: v.Send, rows: Rows) -> Sent | ChannelFull:
    ((ids, channel, max_size, size),) = rows
    if ids is None:
        return ChannelFull(channel, max_size, size)
    return Sent(tuple(ids))


def _receive_parameters(verb: v.Receive, now: Now) -> Sequence[Any]:
    shard, turn = verb.shard, verb.turn
    return (
        verb.queue,
        verb.max_messages,
        verb.lease_ms,
        turn.channel,
        turn.served,
        None if shard is None else shard.index,
        None if shard is None else shard.count,
        now,
    )


def _receive_answer(verb: v.Receive, rows: Rows) -> Received:
    """A last row without an id tells more: when to ask again (`at`), if it is alone; else where the
    turn goes on (`channel`, and in `attempt` how often that was served).
    """
    last = rows[-1]
    if last[0] is not None:
        return Received(tuple(map(Delivery._make, rows)))
    if len(rows) == 1:
        return Received((), last[11])
    return Received(tuple(map(Delivery._make, rows[:-1])), None, Turn(last[2], last[1]))


def _receipts(verb: v.Ack | v.Release, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return verb.queue, _ids(receipts), _attempts(receipts), now


def _settled(outcome: Acked | Released) -> Callable[[v.Ack | v.Release, Rows], tuple[Any, ...]]:
    """The answer when the function names what was lost only, and null says that nothing was."""

    def answer(verb: v.Ack | v.Release, rows: Rows) -> tuple[Any, ...]:
        ((lost,),) = rows
        if lost is None:
            return (outcome,) * len(verb.receipts)
        return tuple(outcome if now is None else LeaseLost(now) for now in lost)

    return answer


def _defer_parameters(verb: v.Defer, now: Now) -> Sequence[Any]:
    items = verb.deferrals
    receipts = [d.receipt for d in items]
    return (
        verb.queue,
        _ids(receipts),
        _attempts(receipts),
        [d.delay_ms for d in items],
        [d.state for d in items],
        now,
    )


def _fail_parameters(verb: v.Fail, now: Now) -> Sequence[Any]:
    items = verb.failures
    receipts = [f.receipt for f in items]
    return (
        verb.queue,
        _ids(receipts),
        _attempts(receipts),
        [f.error for f in items],
        [f.retry for f in items],
        [f.delay_ms for f in items],
        now,
    )


def _extend_parameters(verb: v.Extend, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return verb.queue, _ids(receipts), _attempts(receipts), verb.lease_ms, now


def _timed(kind: Callable[[int], Any]) -> Callable[[Any, Rows], tuple[Any, ...]]:
    """The answer when each row tells a time, or what the message is now."""

    def answer(verb: Any, rows: Rows) -> tuple[Any, ...]:
        ordered = sorted(rows, key=_first)
        return tuple(kind(at) if now is None else LeaseLost(now) for _, at, now in ordered)

    return answer


def _fail_answer(verb: v.Fail, rows: Rows) -> tuple[Any, ...]:
    return tuple(_failed(*row[1:]) for row in sorted(rows, key=_first))


def _failed(at: int | None, dead: str | None, now: Any) -> Retrying | Dead | LeaseLost:
    if now is not None:
        return LeaseLost(now)
    if dead is not None:
        return Dead(dead or None)
    if at is None:
        raise BrokenInvariant("fail answered with neither a time nor a grave: please report this")
    return Retrying(at)


def _first(row: Row) -> int:
    return row[0]


def _peek_answer(verb: v.Peek, rows: Rows) -> tuple[Peeked, ...]:
    return tuple(map(_peeked, rows))


def _peeked(row: Row) -> Peeked:
    *plain, headers, state, error, origin = row
    return Peeked(
        *plain,
        headers=_NO_HEADERS if headers is None else json.loads(headers),
        saved_state=state,
        error=error,
        origin=None if origin is None else Origin(**json.loads(origin)),
    )


_ENTRY = f"name, dead_letter, created_at, {', '.join(SETTINGS_COLUMNS)}"


def _entry(row: Row) -> QueueEntry:
    columns = dict(zip(SETTINGS_COLUMNS, row[3:], strict=True))
    return QueueEntry(row[0], settings_of(columns), row[1], row[2])


def _create_answer(verb: v.QueueCreate, rows: Rows) -> Created | AlreadyExists:
    made, *row = rows[0]
    entry = _entry(row)
    return Created(entry) if made else AlreadyExists(entry)


def _update_parameters(verb: v.QueueUpdate, now: Now) -> Sequence[Any]:
    if "fifo" in verb.changes:
        raise UsageError("fifo is fixed when a queue is made: make another queue")
    new = settings_row(QueueSettings().changed(verb.changes))
    if new["dead_letter"] is None and not verb.queue.endswith(DEAD_SUFFIX):
        new["dead_letter"] = verb.queue + DEAD_SUFFIX
    named: set[str] = set()
    for setting in verb.changes:
        named.update(_columns_of(setting))
    return verb.queue, json.dumps({c: x for c, x in new.items() if c in named}), now


def _columns_of(setting: str) -> Sequence[str]:
    if setting == "policy":
        return POLICY_COLUMNS
    if setting == "backoff_jitter":
        return ("backoff_jitter_percent",)
    return (setting.replace("_seconds", "_ms"),)


def policy_columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a change of policy sets, checked."""
    policy = NO_POLICY.changed(changes)
    row: dict[str, Any] = {**policy_row(policy), "paused": policy.paused}
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
    return policy_of(full, paused=bool(columns.get("paused")))


def _policy_answer(verb: Any, rows: Rows) -> Policy:
    return _policy(rows[0][0])


def _stats_answer(verb: v.Stats, rows: Rows) -> tuple[QueueStats, ...]:
    return tuple(QueueStats(*row) for row in rows)


CALLS: dict[type[Any], Call] = {
    v.Send: Call(
        "select * from penstock.send($1::text, $2::bytea[], $3::text, $4::text[], $5::smallint[],"
        " $6::bigint[], $7::text[], $8::text[], $9::bigint)",
        _send_parameters,
        _send_answer,
    ),
    v.Receive: Call(
        "select * from penstock.receive($1::text, $2::int, $3::bigint, $4::text,"
        " $5::int, $6::int, $7::int, $8::bigint)",
        _receive_parameters,
        _receive_answer,
        repeatable=True,
    ),
    v.Ack: Call(
        "select penstock.ack($1::text, $2::bigint[], $3::int[], $4::bigint, true)",
        _receipts,
        _settled(Acked()),
        impatient=b"select penstock.ack($1::text, $2::bigint[], $3::int[], $4::bigint)",
    ),
    v.Defer: Call(
        "select * from penstock.defer($1::text, $2::bigint[], $3::int[], $4::bigint[],"
        " $5::bytea[], $6::bigint)",
        _defer_parameters,
        _timed(Deferred),
    ),
    v.Fail: Call(
        "select * from penstock.fail($1::text, $2::bigint[], $3::int[], $4::text[], $5::boolean[],"
        " $6::bigint[], $7::bigint)",
        _fail_parameters,
        _fail_answer,
    ),
    v.Extend: Call(
        "select * from penstock.extend($1::text, $2::bigint[], $3::int[], $4::bigint, $5::bigint)",
        _extend_parameters,
        _timed(Extended),
        repeatable=True,
    ),
    v.Release: Call(
        "select penstock.release($1::text, $2::bigint[], $3::int[], $4::bigint)",
        _receipts,
        _settled(Released()),
    ),
    v.Peek: Call(
        "select * from penstock.peek($1::text, $2::int, $3::text, $4::text, $5::bigint,"
        " $6::bigint)",
        lambda p, now: (p.queue, p.limit, p.state, p.channel, p.after_id, now),
        _peek_answer,
        repeatable=True,
    ),
    v.Stats: Call(
        "select * from penstock.stats($1::text, $2::bigint)",
        lambda s, now: (s.queue, now),
        _stats_answer,
        repeatable=True,
    ),
    v.StatsOfChannels: Call(
        "select * from penstock.stats_of_channels($1::text, $2::int, $3::bigint)",
        lambda s, now: (s.queue, s.limit, now),
        lambda s, rows: tuple(ChannelStats(*row) for row in rows),
        repeatable=True,
    ),
    v.Purge: Call(
        "select penstock.purge($1::text, $2::text, $3::text, 10000, $4::bigint)",
        lambda p, now: (p.queue, p.channel, p.state, now),
        lambda p, rows: Purged(rows[0][0]),
    ),
    v.QueueCreate: Call(
        "with made as (select * from penstock.queue_create($1::text, $2::jsonb, $3::bigint))"
        f" select true, {_ENTRY} from made where id is not null"
        f" union all select false, {_ENTRY} from penstock.queue"
        " where name = $1::text and (select id from made) is null",
        lambda q, now: (q.queue, json.dumps(settings_row(q.settings)), now),
        _create_answer,
    ),
    v.QueueGet: Call(
        f"select {_ENTRY} from penstock.queue_list($1::text)",
        lambda q, now: (q.queue,),
        lambda q, rows: _entry(rows[0]),
        repeatable=True,
    ),
    v.QueueUpdate: Call(
        f"select {_ENTRY} from penstock.queue_update($1::text, $2::jsonb, $3::bigint)",
        _update_parameters,
        lambda q, rows: _entry(rows[0]),
    ),
    v.QueueList: Call(
        f"select {_ENTRY} from penstock.queue_list()",
        lambda q, now: (),
        lambda q, rows: tuple(map(_entry, rows)),
        repeatable=True,
    ),
    v.QueueDelete: Call(
        "select penstock.queue_delete($1::text)",
        lambda q, now: (q.queue,),
        lambda q, rows: Deleted(rows[0][0]),
    ),
    v.PolicySet: Call(
        "select penstock.policy_set($1::text, $2::text, $3::jsonb, $4::boolean, $5::bigint)",
        _policy_parameters,
        _policy_answer,
    ),
    v.PolicyGet: Call(
        "select penstock.policy_get($1::text, $2::text)",
        lambda p, now: (p.queue, p.channel),
        _policy_answer,
        repeatable=True,
    ),
    v.PolicyList: Call(
        "select * from penstock.policy_list($1::text)",
        lambda p, now: (p.queue,),
        lambda p, rows: tuple(ChannelPolicy(name, _policy(columns)) for name, columns in rows),
        repeatable=True,
    ),
    v.Tend: Call(
        "select penstock.tend($1::text, $2::bigint)",
        lambda t, now: (t.queue, now),
        lambda t, rows: None,
        repeatable=True,
    ),
}
