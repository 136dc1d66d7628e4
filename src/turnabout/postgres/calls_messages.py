"""Calls of the verbs that move messages: send, receive, what ends a lease, cancel, retry, peek."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows, first
from turnabout.words import verbs as v
from turnabout.words.entities import NO_HEADERS, Delivery, Origin, Outgoing, Peeked, Receipt, Turn
from turnabout.words.errors import BrokenInvariant
from turnabout.words.outcomes import (
    Acked,
    Blocked,
    Cancelled,
    CancelRequested,
    ChannelFull,
    Dead,
    Deferred,
    Extended,
    LeaseLost,
    NotWaiting,
    QueueFull,
    Received,
    Released,
    Retried,
    Retrying,
    SendOutcome,
    Sent,
)


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
        None if plain else [m.ttl_ms for m in messages],
        *_dedup(messages),
    )


def _dedup(messages: Sequence[Outgoing]) -> Sequence[Sequence[Any] | None]:
    if not any(m.dedup_key for m in messages):
        return _NO_DEDUP
    return (
        [m.dedup_key for m in messages],
        [m.dedup_mode for m in messages],
        [m.dedup_window_ms for m in messages],
        [m.dedup_scope for m in messages],
    )


_NO_DEDUP = (None, None, None, None)


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
    return not (
        message.priority
        or message.headers
        or message.delay_ms is not None
        or message.ttl_ms is not None
    )


def _send_answer(verb: v.Send, rows: Rows) -> SendOutcome:
    ((ids, channel, most, size, duplicates, replaced),) = rows
    if ids is not None:
        return Sent(tuple(ids), tuple(duplicates or ()), tuple(replaced or ()))
    if channel is None:
        return QueueFull(most, size)
    return ChannelFull(channel, most, size)


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
        return Received((), last[12])
    return Received(tuple(map(Delivery._make, rows[:-1])), None, Turn(last[2], last[1]))


def _ack_parameters(verb: v.Ack, now: Now) -> Sequence[Any]:
    receipts, results = verb.receipts, verb.results
    if not any(results):
        return verb.queue, _ids(receipts), _attempts(receipts), now, None, None
    return (
        verb.queue,
        _ids(receipts),
        _attempts(receipts),
        now,
        [None if r is None else r.data for r in results],
        [None if r is None else r.content_type for r in results],
    )


def _release_parameters(verb: v.Release, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return verb.queue, _ids(receipts), _attempts(receipts), now


def _settled(outcome: Acked | Released) -> Callable[[v.Ack | v.Release, Rows], tuple[Any, ...]]:
    """The answer when the function names the exceptions only, and null says that there are none."""

    def answer(verb: v.Ack | v.Release, rows: Rows) -> tuple[Any, ...]:
        ((others,),) = rows
        if others is None:
            return (outcome,) * len(verb.receipts)
        return tuple(outcome if now is None else _otherwise(now) for now in others)

    return answer


def _otherwise(now: Any) -> Cancelled | LeaseLost:
    return Cancelled() if now == "cancelled" else LeaseLost(now)


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


def _defer_answer(verb: v.Defer, rows: Rows) -> tuple[Any, ...]:
    ordered = sorted(rows, key=first)
    return tuple(Deferred(at) if now is None else _otherwise(now) for _, at, now in ordered)


def _extend_answer(verb: v.Extend, rows: Rows) -> tuple[Any, ...]:
    return tuple(
        Extended(at, wish) if now is None else LeaseLost(now)
        for _, at, wish, now in sorted(rows, key=first)
    )


def _fail_answer(verb: v.Fail, rows: Rows) -> tuple[Any, ...]:
    return tuple(_failed(*row[1:]) for row in sorted(rows, key=first))


def _failed(
    outcome: str, at: int | None, what: Any
) -> Retrying | Dead | Blocked | Cancelled | LeaseLost:
    if outcome == "retrying" and at is not None:
        return Retrying(at)
    match outcome:
        case "dead":
            return Dead(what)
        case "lost":
            return LeaseLost(what)
        case "blocked":
            return Blocked()
        case "cancelled":
            return Cancelled()
        case _:
            raise BrokenInvariant(f"fail answered {outcome} at {at}: please report this")


def _cancel_answer(verb: v.Cancel, rows: Rows) -> tuple[Any, ...]:
    return tuple(_CANCELLED[outcome] for _, outcome in sorted(rows, key=first))


def _retry_answer(verb: v.Retry, rows: Rows) -> tuple[Any, ...]:
    return tuple(_RETRIED[outcome] for _, outcome in sorted(rows, key=first))


_CANCELLED: Mapping[str, Any] = {
    "cancelled": Cancelled(),
    "requested": CancelRequested(),
    "leased": NotWaiting("leased"),
    "gone": NotWaiting("gone"),
}
_RETRIED: Mapping[str, Any] = {
    "retried": Retried(),
    "leased": NotWaiting("leased"),
    "gone": NotWaiting("gone"),
}


def _id_parameters(verb: v.Cancel | v.Retry, now: Now) -> Sequence[Any]:
    return verb.queue, "{" + ",".join(map(str, verb.ids)) + "}", now


def _peek_answer(verb: v.Peek, rows: Rows) -> tuple[Peeked, ...]:
    return tuple(map(_peeked, rows))


def _peeked(row: Row) -> Peeked:
    *plain, headers, state, error, origin, expires_at, wish = row
    return Peeked(
        *plain,
        headers=NO_HEADERS if headers is None else json.loads(headers),
        saved_state=state,
        error=error,
        origin=None if origin is None else Origin(**json.loads(origin)),
        expires_at=expires_at,
        cancel_requested=wish,
    )


CALLS: dict[type[Any], Call] = {
    v.Send: Call(
        "select * from turnabout.send($1::text, $2::bytea[], $3::text, $4::text[], $5::smallint[],"
        " $6::bigint[], $7::text[], $8::text[], $9::bigint, $10::bigint[], $11::text[],"
        " $12::text[], $13::bigint[], $14::text[])",
        _send_parameters,
        _send_answer,
    ),
    v.Receive: Call(
        "select * from turnabout.receive($1::text, $2::int, $3::bigint, $4::text,"
        " $5::int, $6::int, $7::int, $8::bigint)",
        _receive_parameters,
        _receive_answer,
        repeatable=True,
        nowait=b"select * from turnabout.receive_within($1::text, $2::int, $3::bigint,"
        b" $4::text, $5::int, $6::int, $7::int, $8::bigint)",
        without_timers=b"select * from turnabout.receive($1::text, $2::int, $3::bigint, $4::text,"
        b" $5::int, $6::int, $7::int, $8::bigint, check_due => false)",
    ),
    v.Ack: Call(
        "select turnabout.ack($1::text, $2::bigint[], $3::int[], $4::bigint, true,"
        " $5::bytea[], $6::text[])",
        _ack_parameters,
        _settled(Acked()),
        nowait=b"select turnabout.ack($1::text, $2::bigint[], $3::int[], $4::bigint, false,"
        b" $5::bytea[], $6::text[])",
    ),
    v.Defer: Call(
        "select * from turnabout.defer($1::text, $2::bigint[], $3::int[], $4::bigint[],"
        " $5::bytea[], $6::bigint)",
        _defer_parameters,
        _defer_answer,
    ),
    v.Fail: Call(
        "select * from turnabout.fail($1::text, $2::bigint[], $3::int[], $4::text[], $5::boolean[],"
        " $6::bigint[], $7::bigint)",
        _fail_parameters,
        _fail_answer,
    ),
    v.Extend: Call(
        "select * from turnabout.extend($1::text, $2::bigint[], $3::int[], $4::bigint, $5::bigint)",
        _extend_parameters,
        _extend_answer,
        repeatable=True,
    ),
    v.Release: Call(
        "select turnabout.release($1::text, $2::bigint[], $3::int[], $4::bigint)",
        _release_parameters,
        _settled(Released()),
    ),
    v.Cancel: Call(
        "select * from turnabout.cancel($1::text, $2::bigint[], $3::bigint)",
        _id_parameters,
        _cancel_answer,
    ),
    v.Retry: Call(
        "select * from turnabout.retry($1::text, $2::bigint[], $3::bigint)",
        _id_parameters,
        _retry_answer,
    ),
    v.Peek: Call(
        "select * from turnabout.peek($1::text, $2::int, $3::text, $4::text, $5::bigint,"
        " $6::bigint)",
        lambda p, now: (p.queue, p.limit, p.state, p.channel, p.after_id, now),
        _peek_answer,
        repeatable=True,
    ),
}
