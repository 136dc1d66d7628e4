"""Calls of the verbs of pipelines: subscriptions and epochs, staged sends, the log, watermarks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.postgres.call import Call, Now, Row, Rows
from turnabout.words.errors import UsageError
from turnabout.words.limits import ID_MAX, shown
from turnabout.words.outcomes import ChannelFull, QueueFull

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


def _lease_parameters(verb: p.EpochLease, now: Now) -> Sequence[Any]:
    return (
        verb.subscription,
        verb.generation,
        list(verb.queues),
        verb.after,
        verb.max_messages,
        verb.lease_ms,
        verb.parts,
        verb.by_channel,
        verb.beyond,
        now,
    )


def _leased(verb: p.EpochLease, rows: Rows) -> p.Leased | p.Superseded:
    ((owner, epoch, messages, acked, lost, _),) = rows
    return p.Superseded(owner) if owner is not None else p.Leased(epoch, messages, acked, lost)


def _planned(verb: p.EpochPlan, rows: Rows) -> p.Planned | p.NoEpoch | p.Superseded:
    ((owner, acked, newest, plans, returned, dead, parts, queues, messages, _),) = rows
    if owner is not None:
        return p.Superseded(owner)
    if plans is None:
        return p.NoEpoch(acked, newest)
    some = tuple(map(p.Part, parts or (), queues or (), messages or ()))
    return p.Planned(some, plans, returned, dead)


def _renewed(verb: p.EpochExtend, rows: Rows) -> p.Renewed | p.Superseded:
    ((owner, messages, lost),) = rows
    return p.Superseded(owner) if owner is not None else p.Renewed(messages, lost)


def _subscription(row: Row) -> p.Subscription:
    name, owner, generation, epoch, acked, messages, until, most, queues, opened, seen = row
    return p.Subscription(
        name, owner, generation, epoch, acked, messages, until, most, tuple(queues), opened, seen
    )


def _changed_queues(verb: Any, rows: Rows) -> Sequence[str]:
    """The queues that changed: the last column."""
    return rows[0][-1] or ()


# --- staged sends --------------------------------------------------------------------------------


def _stage_parameters(verb: p.Stage, now: Now) -> Sequence[Any]:
    messages = [staged.message for staged in verb.messages]

    def column(value: Callable[[Any], Any]) -> list[Any] | None:
        """What all messages leave at its default is not sent at all."""
        values = [value(message) for message in messages]
        return values if any(v is not None for v in values) else None

    return (
        verb.attempt,
        [staged.queue for staged in verb.messages],
        [m.payload for m in messages] or "{}",
        [m.content_type for m in messages],
        column(lambda m: m.channel or None),
        column(lambda m: m.priority or None),
        column(lambda m: m.delay_ms),
        column(lambda m: json.dumps(dict(m.headers)) if m.headers else None),
        column(lambda m: m.ttl_ms),
        column(lambda m: m.dedup_key),
        column(lambda m: m.dedup_mode),
        column(lambda m: m.dedup_window_ms),
        column(lambda m: m.dedup_scope),
        now,
    )


def _published(
    verb: p.Publish, rows: Rows
) -> (
    p.Published
    | p.AlreadyPublished
    | p.PublishedLater
    | p.StageIncomplete
    | ChannelFull
    | QueueFull
):
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


def _state(verb: p.LogLook, rows: Rows) -> p.LogState:
    ((end_xid, end_id, floor_xid, floor_id, waiting_ms),) = rows
    return p.LogState(_position(end_xid, end_id), _position(floor_xid, floor_id), waiting_ms)


def _watermark(row: Row) -> p.Watermark:
    return p.Watermark(*row)


CALLS: dict[type[Any], Call] = {
    p.SubscriptionOpen: Call(
        "select * from turnabout_pipeline.subscription_open($1::text, $2::text, $3::bigint)",
        lambda s, now: (s.subscription, s.owner, now),
        lambda s, rows: p.Opened(*rows[0]),
        repeatable=True,
    ),
    p.SubscriptionRelease: Call(
        "select * from turnabout_pipeline.subscription_release($1::text, $2::boolean, $3::bigint)",
        lambda s, now: (s.subscription, s.forget, now),
        lambda s, rows: rows[0][0],
        notifies=_changed_queues,
    ),
    p.SubscriptionList: Call(
        "select * from turnabout_pipeline.subscription_list()",
        lambda s, now: (),
        lambda s, rows: tuple(map(_subscription, rows)),
        repeatable=True,
    ),
    p.EpochLease: Call(
        "select * from turnabout_pipeline.epoch_lease($1::text, $2::bigint, $3::text[],"
        " $4::bigint, $5::int, $6::bigint, $7::int, $8::boolean, $9::bigint, $10::bigint)",
        _lease_parameters,
        _leased,
        repeatable=True,
        notifies=_changed_queues,
    ),
    p.EpochPlan: Call(
        "select * from turnabout_pipeline.epoch_plan($1::text, $2::bigint, $3::bigint,"
        " $4::bigint, $5::int, $6::text, $7::bigint)",
        lambda e, now: (
            e.subscription,
            e.generation,
            e.epoch,
            e.lease_ms,
            e.max_plans,
            e.error,
            now,
        ),
        _planned,
        notifies=_changed_queues,
    ),
    p.EpochExtend: Call(
        "select * from turnabout_pipeline.epoch_extend($1::text, $2::bigint, $3::bigint,"
        " $4::bigint)",
        lambda e, now: (e.subscription, e.generation, e.lease_ms, now),
        _renewed,
        repeatable=True,
    ),
    p.Stage: Call(
        "select turnabout_pipeline.stage($1::text, $2::text[], $3::bytea[], $4::text[], $5::text[],"
        " $6::smallint[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::text[],"
        " $12::bigint[], $13::text[], $14::bigint)",
        _stage_parameters,
        lambda s, rows: None,
    ),
    p.Publish: Call(
        "select * from turnabout_pipeline.publish($1::text, $2::bigint, $3::text[], $4::bigint,"
        " $5::bigint)",
        lambda s, now: (s.sink, s.batch, list(s.attempts), s.messages, now),
        _published,
        repeatable=True,
        notifies=_changed_queues,
    ),
    p.Unstage: Call(
        "select turnabout_pipeline.unstage($1::text[], $2::bigint)",
        lambda s, now: (list(s.attempts), now),
        lambda s, rows: rows[0][0],
        repeatable=True,
    ),
    p.LogNext: Call(
        "select state, xid::text, id, known_xid::text, known_id, messages, more"
        " from turnabout_pipeline.log_next($1::xid8, $2::bigint, $3::xid8, $4::bigint, $5::bigint,"
        " $6::boolean)",
        lambda n, now: (*_numbers(n.after), n.limit, n.ignore_loss),
        _next,
        repeatable=True,
    ),
    p.LogAt: Call(
        "select xid::text, id, known_xid::text,"
        " known_id from turnabout_pipeline.log_at($1::bigint)",
        lambda n, now: (n.at,),
        lambda n, rows: _position(*rows[0]),
        repeatable=True,
    ),
    p.LogCut: Call(
        "select xid::text, id, messages"
        " from turnabout_pipeline.log_cut($1::xid8, $2::bigint, $3::xid8, $4::bigint, $5::int)",
        lambda c, now: (*_place(c.after), *_place(c.until), c.parts),
        _cut,
        repeatable=True,
    ),
    p.LogLook: Call(
        "select end_xid::text, end_id, floor_xid::text, floor_id, waiting_ms"
        " from turnabout_pipeline.log_look($1::bigint)",
        lambda n, now: (now,),
        _state,
        repeatable=True,
    ),
    p.LogPurge: Call(
        "select turnabout_pipeline.log_purge($1::xid8, $2::bigint, $3::bigint, $4::bigint,"
        " $5::boolean)",
        lambda n, now: (*_place(n.until), n.finished_before, n.limit, n.dry_run),
        lambda n, rows: rows[0][0],
    ),
    p.WatermarkSet: Call(
        "select turnabout_pipeline.watermark_set($1::text, $2::text, $3::xid8, $4::bigint,"
        " $5::bigint, $6::bigint)",
        lambda w, now: (w.archive, w.position, *_place(w.position), w.messages, now),
        lambda w, rows: None,
        repeatable=True,
    ),
    p.WatermarkDelete: Call(
        "select turnabout_pipeline.watermark_delete($1::text)",
        lambda w, now: (w.archive,),
        lambda w, rows: rows[0][0],
    ),
    p.WatermarkList: Call(
        "select * from turnabout_pipeline.watermark_list($1::bigint)",
        lambda w, now: (now,),
        lambda w, rows: tuple(map(_watermark, rows)),
        repeatable=True,
    ),
}
