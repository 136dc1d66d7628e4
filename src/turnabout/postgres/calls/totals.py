"""Calls of the verbs that a server needs of its database's owner: totals, and repeated sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now
from turnabout.words.administration import QueueTotals, Repeats, Totals


def _repeats_parameters(verb: Repeats, now: Now) -> Sequence[Any]:
    messages = verb.messages
    return (
        verb.queue,
        [m.channel for m in messages],
        [m.dedup_key for m in messages],
        [m.dedup_mode for m in messages],
        [m.dedup_scope for m in messages],
        now,
    )


CALLS: dict[type[Any], Call] = {
    Totals: Call(
        "select * from turnabout.totals($1::text, $2::boolean, $3::bigint)",
        lambda t, now: (t.namespace, t.bytes, now),
        lambda t, rows: tuple(QueueTotals(*row) for row in rows),
        repeatable=True,
    ),
    Repeats: Call(
        "select turnabout.repeats($1::text, $2::text[], $3::text[], $4::text[], $5::text[],"
        " $6::bigint)",
        _repeats_parameters,
        lambda r, rows: rows[0][0],
        repeatable=True,
    ),
}
