"""Calls that hand messages out, or show them: receive, peek."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, call, each, in_room
from turnabout.postgres.calls.settling import (
    acked_but,
    lease_of_many,
    lease_of_one,
    receipt_arrays,
    result_arrays,
)
from turnabout.postgres.everyday import BEHIND_MARK, EACH, IN_TURN, LINE, everyday
from turnabout.words import verbs as v
from turnabout.words.entities import (
    NO_HEADERS,
    Delivery,
    Peeked,
    Turn,
    delivery_of,
    errors_of,
    note_of,
    origin_of,
)
from turnabout.words.outcomes import Acked, AckOutcome, Received

_ACKED = Acked()
ONLY_ACKED = (None,) * len(Delivery._fields)
"""Answer of everyday statements that acked and leased nothing: ask again, without acks."""


def _receive_parameters(verb: v.Receive, now: Now) -> Sequence[Any]:
    shard, turn = verb.shard, verb.turn
    part = (None, None) if shard is None else (shard.index, shard.count)
    limits = (verb.max_messages, verb.lease_ms)
    parameters = (verb.queue, *limits, turn.channel, turn.served, *part, now)
    if not verb.acks:
        return (*parameters, None, None, None, None, None)
    return (*parameters, *receipt_arrays(verb.acks), *result_arrays(verb.results))


_RECEIVE = (
    "$queue::text, $most::int, $lease_ms::bigint, $channel::text, $served::int, $index::int,"
    " $count::int, $now::bigint, $ids::bigint[], $attempts::int[], $leases::bigint[],"
    " $data::bytea[], $kinds::text[]"
)


def _looked_for(verb: v.Receive, now: Now) -> Mapping[str, Any] | None:
    return {"queue": verb.queue, "channel": verb.turn.channel, "now": now}


def _some(verb: v.Receive, now: Now) -> Mapping[str, Any] | None:
    if not verb.max_messages or verb.shard is not None or verb.acks:
        return None
    return {
        "queue": verb.queue,
        "most": verb.max_messages,
        "lease_ms": verb.lease_ms,
        "channel": verb.turn.channel,
        "now": now,
    }


def _one(verb: v.Receive, now: Now) -> Mapping[str, Any] | None:
    return _some(verb, now) if verb.max_messages == 1 else None


_LOOK = everyday("look", _looked_for)


def _next(singles: Collection[bool]) -> Callable[[v.Receive, Now], Mapping[str, Any] | None]:
    """`singles`: whether for messages one by one, for several, or for both."""

    def values(verb: v.Receive, now: Now) -> Mapping[str, Any] | None:
        acks, most = verb.acks, verb.max_messages
        if not acks or not most or verb.results or verb.shard is not None:
            return None
        if (len(acks) == most == 1) not in singles:
            return None
        of = lease_of_many if len(acks) > 1 else lease_of_one
        lease = of(verb.queue, acks, now)
        if lease is None:
            return None
        if len(acks) == 1:
            lease["ids"] = f"{{{lease['id']}}}"
        return {**lease, "most": most, "lease_ms": verb.lease_ms, "channel": verb.turn.channel}

    return values


_NEXT: tuple[tuple[str, Collection[bool], str, Mapping[str, str]], ...] = (
    ("next", (True,), "", {}),
    ("next", (True,), "", {"take_one": BEHIND_MARK}),
    ("next_many", (True, False), IN_TURN, {}),
    ("next_many", (False,), LINE, {"take": LINE}),
    ("next_many", (False,), EACH, {"take": EACH}),
)


def _receive_answer(verb: v.Receive, rows: Rows) -> Received:
    """Read the last rows, which have no id: see the SQL function."""
    acked: tuple[AckOutcome, ...] = (_ACKED,) * len(verb.acks)
    last = rows[-1]
    if last == ONLY_ACKED:
        return Received((), 0, acked=acked)
    if last[0] is None and last[6] is not None:
        acked, rows = acked_but(json.loads(last[6])), rows[:-1]
        last = rows[-1]
    if last[0] is not None:
        return Received(tuple(map(delivery_of, rows)), acked=acked)
    if len(rows) == 1:
        return Received((), last[12], acked=acked)
    turn = Turn(last[2], last[1])
    return Received(tuple(map(delivery_of, rows[:-1])), None, turn, acked)


def _peeked(*row: Any) -> Peeked:
    headers, state, error, origin, expires_at, wish, ran_out, errors, note, since, *_ = row[11:]
    return Peeked(
        *row[:11],
        headers=NO_HEADERS if headers is None else json.loads(headers),
        saved_state=state,
        error=error,
        origin=origin_of(origin),
        expires_at=expires_at,
        cancel_requested=wish,
        ran_out=ran_out,
        errors=errors_of(None if errors is None else json.loads(errors)),
        note=note_of(note),
        leased_at=since,
    )


CALLS: dict[type[Any], Call] = {
    v.Receive: call(
        f"select * from turnabout.receive({_RECEIVE})",
        _receive_answer,
        _receive_parameters,
        repeatable=True,
        nowait=f"select * from turnabout.receive({_RECEIVE}, within => true)",
        without_timers=f"select * from turnabout.receive({_RECEIVE}, check_due => false)",
        everyday=(
            everyday("receive", _one, _LOOK),
            everyday("receive", _one, _LOOK, take_one=BEHIND_MARK),
            everyday("receive_many", _some, _LOOK),
            everyday("receive_many", _some, _LOOK, limits="none_awake", open="open_without_policy"),
            *[
                everyday(name, _next(singles), _LOOK, (keeps, way), **parts)
                for name, singles, way, parts in _NEXT
                for keeps in (False, True)
            ],
        ),
    ),
    v.Peek: call(
        in_room(
            "*",
            "peek($queue::text, $limit::int, $state::text, $channel::text, $after_id::bigint,"
            " $now::bigint)",
            "payload",
            "saved_state",
        ),
        each(_peeked),
        repeatable=True,
    ),
}
