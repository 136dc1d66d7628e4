"""Calls of the verbs that settle messages: what ends or extends a lease, cancel, retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, call, in_order
from turnabout.postgres.everyday import everyday
from turnabout.words import verbs as v
from turnabout.words.entities import Receipt, kept_note
from turnabout.words.errors import BrokenInvariant
from turnabout.words.outcomes import (
    Acked,
    AckOutcome,
    Blocked,
    Cancelled,
    CancelRequested,
    Dead,
    DeferOutcome,
    Deferred,
    Extended,
    FailOutcome,
    LeaseLost,
    NotWaiting,
    Released,
    ReleaseOutcome,
    Retried,
    Retrying,
)
from turnabout.words.records import Result


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
    """The numbers of the leases, or a single one of all."""
    leases = [r[2] for r in receipts]
    if leases.count(leases[0]) == len(leases):
        return f"{{{leases[0]}}}"
    return "{" + ",".join(map(str, leases)) + "}"


def receipt_arrays(receipts: Sequence[Receipt]) -> tuple[str, str, str]:
    """Ids, attempts and leases."""
    return _ids(receipts), _attempts(receipts), _leases(receipts)


def result_arrays(results: Sequence[Result | None]) -> tuple[Any, Any]:
    """Split results into data and content types; None: there are none."""
    if not any(results):
        return None, None
    data = [None if r is None else r.data for r in results]
    return data, [None if r is None else r.content_type for r in results]


def acked_but(lost: Sequence[Any]) -> tuple[AckOutcome, ...]:
    """Read the answer of `ack` where not all were held: null for those that are done."""
    return tuple([Acked() if now is None else LeaseLost(now) for now in lost])


def _ack_parameters(verb: v.Ack, now: Now) -> Sequence[Any]:
    ids, attempts, leases = receipt_arrays(verb.receipts)
    return verb.queue, ids, attempts, now, *result_arrays(verb.results), leases


def _ack_one(verb: v.Ack, now: Now) -> Mapping[str, Any] | None:
    """Parameters for one receipt; without its lease's number that would have to be searched."""
    if len(verb.receipts) != 1 or verb.results:
        return None
    return lease_of_one(verb.queue, verb.receipts, now)


def _ack_many(verb: v.Ack, now: Now) -> Mapping[str, Any] | None:
    """Parameters for receipts of one lease, the usual case."""
    return None if verb.results else lease_of_many(verb.queue, verb.receipts, now)


def lease_of_one(queue: str, receipts: Sequence[Receipt], now: Now) -> dict[str, Any] | None:
    """Parameters of everyday statements that ack one message."""
    ((id_, attempt, lease),) = receipts
    if not lease:
        return None
    return {"queue": queue, "id": id_, "attempt": attempt, "lease": lease, "now": now}


def lease_of_many(queue: str, receipts: Sequence[Receipt], now: Now) -> dict[str, Any] | None:
    """The same of a whole lease; None: they are not of one."""
    if len(receipts) < 2:
        return None
    _, attempt, lease = receipts[0]
    if not lease or any(r[1] != attempt or r[2] != lease for r in receipts):
        return None
    ids = _ids(receipts)
    return {"queue": queue, "ids": ids, "attempt": attempt, "lease": lease, "now": now}


def _release_parameters(verb: v.Release, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    return verb.queue, _ids(receipts), _attempts(receipts), now, _leases(receipts)


def _acked(verb: v.Ack, rows: Rows) -> tuple[AckOutcome, ...]:
    """The function names the exceptions only; null says that there are none."""
    ((others,),) = rows
    if others is None:
        return (Acked(),) * len(verb.receipts)
    return acked_but(others)


def _released(verb: v.Release, rows: Rows) -> tuple[ReleaseOutcome, ...]:
    """The function names the exceptions only."""
    others = {nr: _otherwise(now, what) for nr, now, what in rows}
    return tuple(others.get(nr, Released()) for nr in range(1, len(verb.receipts) + 1))


def _otherwise(now: Any, what: str | None) -> Dead | Blocked | Cancelled | LeaseLost:
    match now:
        case "cancelled":
            return Cancelled()
        case "blocked":
            return Blocked()
        case "dead":
            return Dead(what)
        case _:
            return LeaseLost(now)


def _defer_parameters(verb: v.Defer, now: Now) -> Sequence[Any]:
    items = verb.deferrals
    receipts = [d.receipt for d in items]
    delays, states = [d.delay_ms for d in items], [d.state for d in items]
    return verb.queue, _ids(receipts), _attempts(receipts), delays, states, now, _leases(receipts)


def _fail_parameters(verb: v.Fail, now: Now) -> Sequence[Any]:
    items = verb.failures
    receipts = [f.receipt for f in items]
    how = [f.error for f in items], [f.retry for f in items], [f.delay_ms for f in items]
    named, workers = (_ids(receipts), _attempts(receipts)), [f.worker for f in items]
    return verb.queue, *named, *how, now, _leases(receipts), workers


def _extend_parameters(verb: v.Extend, now: Now) -> Sequence[Any]:
    receipts = verb.receipts
    named = (_ids(receipts), _attempts(receipts))
    return (
        verb.queue,
        *named,
        verb.lease_ms,
        now,
        _leases(receipts),
        kept_note(verb.note),
        verb.exact,
    )


def _deferred(at: int, now: Any, what: str | None) -> DeferOutcome:
    return Deferred(at) if now is None else _otherwise(now, what)


def _extended(at: int, wish: Any, now: Any) -> Extended | LeaseLost:
    return Extended(at, wish) if now is None else LeaseLost(now)


def _failed(outcome: str, at: int | None, what: Any) -> FailOutcome:
    if outcome == "retrying" and at is not None:
        return Retrying(at)
    if outcome in ("dead", "blocked", "cancelled"):
        return _otherwise(outcome, what)
    if outcome == "lost":
        return LeaseLost(what)
    raise BrokenInvariant(f"fail answered {outcome} at {at}: please report this")


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


_ACK = (
    "select turnabout.ack($queue::text, $ids::bigint[], $attempts::int[], $now::bigint, {waits},"
    " $data::bytea[], $kinds::text[], $leases::bigint[])"
)
CALLS: dict[type[Any], Call] = {
    v.Ack: call(
        _ACK.format(waits="true"),
        _acked,
        _ack_parameters,
        nowait=_ACK.format(waits="false"),
        everyday=(
            *[everyday("ack", _ack_one, form=(keeps, "")) for keeps in (False, True)],
            *[everyday("ack_many", _ack_many, form=(keeps, "")) for keeps in (False, True)],
        ),
    ),
    v.Defer: call(
        "select * from turnabout.defer($queue::text, $ids::bigint[], $attempts::int[],"
        " $delays::bigint[], $states::bytea[], $now::bigint, $leases::bigint[])",
        in_order(_deferred),
        _defer_parameters,
    ),
    v.Fail: call(
        "select * from turnabout.fail($queue::text, $ids::bigint[], $attempts::int[],"
        " $errors::text[], $retry::boolean[], $delays::bigint[], $now::bigint,"
        " $leases::bigint[], $workers::text[])",
        in_order(_failed),
        _fail_parameters,
    ),
    v.Extend: call(
        "select * from turnabout.extend($queue::text, $ids::bigint[], $attempts::int[],"
        " $lease_ms::bigint, $now::bigint, $leases::bigint[], $note::text,"
        " $exact::boolean)",
        in_order(_extended),
        _extend_parameters,
        repeatable=True,
    ),
    v.Release: call(
        "select * from turnabout.release($queue::text, $ids::bigint[], $attempts::int[],"
        " $now::bigint, $leases::bigint[])",
        _released,
        _release_parameters,
    ),
    v.Cancel: call(
        "select * from turnabout.cancel($queue::text, $ids::bigint[], $now::bigint)",
        in_order(_CANCELLED.__getitem__),
    ),
    v.Retry: call(
        "select * from turnabout.retry($queue::text, $ids::bigint[], $now::bigint)",
        in_order(_RETRIED.__getitem__),
    ),
}
