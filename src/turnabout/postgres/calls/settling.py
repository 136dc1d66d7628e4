"""Calls of the verbs that settle messages: what ends or extends a lease, cancel, retry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, first
from turnabout.words import verbs as v
from turnabout.words.entities import Receipt
from turnabout.words.errors import BrokenInvariant
from turnabout.words.outcomes import (
    Acked,
    Blocked,
    Cancelled,
    CancelRequested,
    Dead,
    Deferred,
    Extended,
    LeaseLost,
    NotWaiting,
    Released,
    Retried,
    Retrying,
)


def _ids(receipts: Sequence[Receipt]) -> str:
    """An array as a literal: much cheaper to write than the driver's own arrays."""
    return "{" + ",".join([str(r[0]) for r in receipts]) + "}"


def _attempts(receipts: Sequence[Receipt]) -> str:
    """The attempts, or a single one that holds for all."""
    attempts = [r[1] for r in receipts]
    if attempts.count(attempts[0]) == len(attempts):
        return f"{{{attempts[0]}}}"
    return "{" + ",".join(map(str, attempts)) + "}"


def _leases(receipts: Sequence[Receipt]) -> str:
    """The leases, or a single one of all."""
    leases = [r[2] for r in receipts]
    if leases.count(leases[0]) == len(leases):
        return f"{{{leases[0]}}}"
    return "{" + ",".join(map(str, leases)) + "}"


def _ack_parameters(verb: v.Ack, now: Now) -> Sequence[Any]:
    receipts, results = verb.receipts, verb.results
    if not any(results):
        return verb.queue, _ids(receipts), _attempts(receipts), now, None, None, _leases(receipts)
    return (
        verb.queue,
        _ids(receipts),
        _attempts(receipts),
        now,
        [None if r is None else r.data for r in results],
        [None if r is None else r.content_type for r in results],
        _leases(receipts),
    )


def _release_parameters(verb: v.Release, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return verb.queue, _ids(receipts), _attempts(receipts), now, _leases(receipts)


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
        _leases(receipts),
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
        _leases(receipts),
    )


def _extend_parameters(verb: v.Extend, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return (
        verb.queue,
        _ids(receipts),
        _attempts(receipts),
        verb.lease_ms,
        now,
        _leases(receipts),
    )


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


CALLS: dict[type[Any], Call] = {
    v.Ack: Call(
        "select turnabout.ack($1::text, $2::bigint[], $3::int[], $4::bigint, true,"
        " $5::bytea[], $6::text[], $7::bigint[])",
        _ack_parameters,
        _settled(Acked()),
        nowait=b"select turnabout.ack($1::text, $2::bigint[], $3::int[], $4::bigint, false,"
        b" $5::bytea[], $6::text[], $7::bigint[])",
    ),
    v.Defer: Call(
        "select * from turnabout.defer($1::text, $2::bigint[], $3::int[], $4::bigint[],"
        " $5::bytea[], $6::bigint, $7::bigint[])",
        _defer_parameters,
        _defer_answer,
    ),
    v.Fail: Call(
        "select * from turnabout.fail($1::text, $2::bigint[], $3::int[], $4::text[], $5::boolean[],"
        " $6::bigint[], $7::bigint, $8::bigint[])",
        _fail_parameters,
        _fail_answer,
    ),
    v.Extend: Call(
        "select * from turnabout.extend($1::text, $2::bigint[], $3::int[], $4::bigint, $5::bigint,"
        " $6::bigint[])",
        _extend_parameters,
        _extend_answer,
        repeatable=True,
    ),
    v.Release: Call(
        "select turnabout.release($1::text, $2::bigint[], $3::int[], $4::bigint, $5::bigint[])",
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
}
