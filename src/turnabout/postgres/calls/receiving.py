"""Calls that hand messages out, or show them: receive, peek."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words import verbs as v
from turnabout.words.entities import NO_HEADERS, Delivery, Origin, Peeked, Turn
from turnabout.words.outcomes import Received


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
        return Received(tuple(starmap(Delivery, rows)))
    if len(rows) == 1:
        return Received((), last[12])
    return Received(tuple(starmap(Delivery, rows[:-1])), None, Turn(last[2], last[1]))


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
    v.Peek: Call(
        "select * from turnabout.peek($1::text, $2::int, $3::text, $4::text, $5::bigint,"
        " $6::bigint)",
        lambda p, now: (p.queue, p.limit, p.state, p.channel, p.after_id, now),
        _peek_answer,
        repeatable=True,
    ),
}
