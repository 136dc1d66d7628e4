"""Calls of the verbs that a server needs of its database's owner: totals, repeats, what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, call, each, single
from turnabout.words.administration import QueuesDue, QueueTotals, Repeats, Totals


def _repeats_parameters(verb: Repeats, now: Now) -> Sequence[Any]:
    names = ("channel", "dedup_key", "dedup_mode", "dedup_scope")
    return (verb.queue, *([getattr(m, name) for m in verb.messages] for name in names), now)


CALLS: dict[type[Any], Call] = {
    Totals: call(
        "select * from turnabout.totals($namespace::text, $bytes::boolean, $now::bigint)",
        each(QueueTotals),
        repeatable=True,
    ),
    Repeats: call(
        "select turnabout.repeats($queue::text, $channels::text[], $keys::text[], $modes::text[],"
        " $scopes::text[], $now::bigint)",
        single,
        _repeats_parameters,
        repeatable=True,
    ),
    QueuesDue: call(
        "select turnabout.queues_due($old::boolean, $limit::int, $now::bigint)",
        each(str),
        repeatable=True,
    ),
}
