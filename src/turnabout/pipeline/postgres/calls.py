"""Calls of the verbs of pipelines: subscriptions and epochs, staged sends, the log, watermarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.pipeline.staged import STAGED_FIELDS, StagedMessages
from turnabout.postgres.call import Call, Now, Rows, call, each, nothing, one, single
from turnabout.words.errors import UsageError
from turnabout.words.limits import ID_MAX, shown
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.payload import BYTES

_POSITION = re.compile(r"([0-9]{1,20})\.([0-9]{1,19})(?:<([0-9]{1,20})\.([0-9]{1,19}))?")
_XID_MAX = 2**64 - 1


def _numbers(position: str) -> tuple[str | None, str | None, str | None, str | None]:
    """A position's transaction and message, and behind a `<` those up to which it is known what is
    missing. As text: a transaction's number may be above 63 bits.
    """
    if position == p.START:
        return None, None, None, None
    match = _POSITION.fullmatch(position)
    if match is None or not all(
        int(match[nr] or 0) <= most for nr, most in enumerate((_XID_MAX, ID_MAX) * 2, 1)
    ):
        raise UsageError(
            f"{shown(position)} is not a position in a PostgreSQL log: take it from log_next"
        )
    return match[1], match[2], match[3], match[4]


def _place(position: str) -> tuple[str | None, str | None]:
    return _numbers(position)[:2]


def _position(
    xid: str | None, id_: int | None, known_xid: str | None = None, known_id: int | None = None
) -> str:
    if xid is None:
        return p.START
    return f"{xid}.{id_}" if known_xid is None else f"{xid}.{id_}<{known_xid}.{known_id}"


# --- leases by the batch -------------------------------------------------------------------------


def _leased(owner: str | None, *leased: Any) -> p.Leased | p.Superseded:
    return p.Leased(*leased[:5]) if owner is None else p.Superseded(owner)


def _planned(verb: p.EpochPlan, rows: Rows) -> p.Planned | p.NoEpoch | p.Superseded:
    ((owner, acked, newest, plans, *ended, parts, queues, messages, _),) = rows
    if owner is not None:
        return p.Superseded(owner)
    if plans is None:
        return p.NoEpoch(acked, newest)
    some = tuple(map(p.Part, parts or (), queues or (), messages or ()))
    return p.Planned(some, plans, *ended)


def _renewed(owner: str | None, messages: int, lost: int) -> p.Renewed | p.Superseded:
    return p.Renewed(messages, lost) if owner is None else p.Superseded(owner)


def _subscription(*row: Any) -> p.Subscription:
    *plain, queues, opened_at, seen_at = row
    times = {"opened_at": opened_at, "seen_at": seen_at}
    return p.Subscription(*plain, queues=tuple(queues), **times)


def _changed_queues(verb: Any, rows: Rows) -> Sequence[str]:
    """The queues that changed: the last column."""
    return rows[0][-1] or ()


# --- staged sends --------------------------------------------------------------------------------


def _stage_parameters(verb: p.Stage, now: Now) -> Sequence[Any]:
    parts = verb.parts
    together = StagedMessages("all", [])
    for part in parts:
        columns, count = part.columns, len(part.payloads)
        if part.content_type != parts[0].content_type:
            types = columns.get("content_type") or [None] * count
            columns = columns | {"content_type": [one or part.content_type for one in types]}
        together.add(part.payloads, columns)
    return (
        verb.attempt,
        [part.queue for part in parts],
        [len(part.payloads) for part in parts],
        together.payloads or "{}",
        parts[0].content_type if parts else BYTES,
        *(together.columns.get(name) for name in STAGED_FIELDS),
        now,
    )


def _published(verb: p.Publish, rows: Rows) -> p.Published | p.AlreadyPublished | p.Refused:
    ((state, sent, duplicates, channel, most, size, _),) = rows
    match state:
        case "published":
            return p.Published(sent, duplicates)
        case "already":
            return p.AlreadyPublished(sent)
        case "later":
            return p.PublishedLater(sent)
        case "incomplete":
            return p.StageIncomplete(verb.messages, sent)
        case _:
            return QueueFull(most, size) if channel is None else ChannelFull(channel, most, size)


# --- the log -------------------------------------------------------------------------------------


def _next(verb: p.LogNext, rows: Rows) -> p.LogRange | p.LogLost | p.LogAhead:
    ((state, xid, id_, *known, messages, more),) = rows
    match state:
        case "lost":
            return p.LogLost(_position(xid, id_))
        case "ahead":
            return p.LogAhead(_position(xid, id_))
        case _:
            until = _position(xid, id_, *known) if messages else verb.after
            return p.LogRange(verb.after, until, messages, more)


def _cut(verb: p.LogCut, rows: Rows) -> tuple[p.LogRange, ...]:
    ranges: list[p.LogRange] = []
    after = verb.after
    for nr, (xid, id_, messages) in enumerate(rows, 1):
        until = _position(xid, id_) if nr < len(rows) else verb.until
        ranges.append(p.LogRange(after, until, messages, nr < len(rows)))
        after = until
    return tuple(ranges)


def _state(
    end_xid: str, end_id: int, floor_xid: str, floor_id: int, waiting_ms: int | None
) -> p.LogState:
    return p.LogState(_position(end_xid, end_id), _position(floor_xid, floor_id), waiting_ms)


CALLS: dict[type[Any], Call] = {
    p.SubscriptionOpen: call(
        "select * from turnabout_pipeline.subscription_open($subscription::text, $owner::text,"
        " $now::bigint)",
        one(p.Opened),
        repeatable=True,
    ),
    p.SubscriptionRelease: call(
        "select * from turnabout_pipeline.subscription_release($subscription::text,"
        " $forget::boolean, $now::bigint)",
        single,
        notifies=_changed_queues,
    ),
    p.SubscriptionList: call(
        "select * from turnabout_pipeline.subscription_list()", each(_subscription), repeatable=True
    ),
    p.EpochLease: call(
        "select * from turnabout_pipeline.epoch_lease($subscription::text, $generation::bigint,"
        " $queues::text[], $after::bigint, $max_messages::int, $lease_ms::bigint, $parts::int,"
        " $by_channel::boolean, $beyond::bigint, $max_bytes::bigint, $now::bigint)",
        one(_leased),
        repeatable=True,
        notifies=_changed_queues,
    ),
    p.EpochPlan: call(
        "select * from turnabout_pipeline.epoch_plan($subscription::text, $generation::bigint,"
        " $epoch::bigint, $lease_ms::bigint, $max_plans::int, $error::text, $now::bigint)",
        _planned,
        notifies=_changed_queues,
    ),
    p.EpochExtend: call(
        "select * from turnabout_pipeline.epoch_extend($subscription::text, $generation::bigint,"
        " $lease_ms::bigint, $now::bigint)",
        one(_renewed),
        repeatable=True,
    ),
    p.Stage: call(
        "select turnabout_pipeline.stage($attempt::text, $queues::text[], $counts::int[],"
        " $payloads::bytea[], $type::text, $types::text[], $channels::text[],"
        " $priorities::smallint[], $delays::bigint[], $headers::text[], $ttls::bigint[],"
        " $keys::text[], $modes::text[], $windows::bigint[], $scopes::text[], $now::bigint)",
        nothing,
        _stage_parameters,
    ),
    p.Publish: call(
        "select * from turnabout_pipeline.publish($sink::text, $batch::bigint, $attempts::text[],"
        " $messages::bigint, $now::bigint)",
        _published,
        repeatable=True,
        notifies=_changed_queues,
    ),
    p.Unstage: call(
        "select turnabout_pipeline.unstage($attempts::text[], $now::bigint)",
        single,
        repeatable=True,
    ),
    p.LogNext: call(
        "select state, xid::text, id, known_xid::text, known_id, messages, more"
        " from turnabout_pipeline.log_next($xid::xid8, $id::bigint, $known_xid::xid8,"
        " $known_id::bigint, $limit::bigint, $ignore_loss::boolean)",
        _next,
        lambda n, now: (*_numbers(n.after), n.limit, n.ignore_loss),
        repeatable=True,
    ),
    p.LogAt: call(
        "select xid::text, id, known_xid::text, known_id"
        " from turnabout_pipeline.log_at($at::bigint)",
        one(_position),
        repeatable=True,
    ),
    p.LogCut: call(
        "select xid::text, id, messages from turnabout_pipeline.log_cut($after_xid::xid8,"
        " $after_id::bigint, $until_xid::xid8, $until_id::bigint, $parts::int, $exact::boolean)",
        _cut,
        lambda c, now: (*_place(c.after), *_place(c.until), c.parts, c.exact),
        repeatable=True,
    ),
    p.LogLook: call(
        "select end_xid::text, end_id, floor_xid::text, floor_id, waiting_ms"
        " from turnabout_pipeline.log_look($now::bigint)",
        one(_state),
        repeatable=True,
    ),
    p.LogFiles: call(
        "select table_id, number, blocks from turnabout.log_files", each(p.LogFile), repeatable=True
    ),
    p.LogPurge: call(
        "select turnabout_pipeline.log_purge($xid::xid8, $id::bigint, $finished_before::bigint,"
        " $limit::bigint, $dry_run::boolean)",
        single,
        lambda n, now: (*_place(n.until), n.finished_before, n.limit, n.dry_run),
    ),
    p.WatermarkSet: call(
        "select turnabout_pipeline.watermark_set($archive::text, $position::text, $xid::xid8,"
        " $id::bigint, $messages::bigint, $now::bigint)",
        nothing,
        lambda w, now: (w.archive, w.position, *_place(w.position), w.messages, now),
        repeatable=True,
    ),
    p.WatermarkDelete: call("select turnabout_pipeline.watermark_delete($archive::text)", single),
    p.WatermarkList: call(
        "select * from turnabout_pipeline.watermark_list($now::bigint)",
        each(p.Watermark),
        repeatable=True,
    ),
}
