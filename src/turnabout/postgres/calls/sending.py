"""The call of send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turnabout.postgres.call import Call, Now, Rows, call
from turnabout.postgres.everyday import everyday
from turnabout.words import verbs as v
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import ChannelFull, QueueFull, SendOutcome, Sent


def _send_parameters(verb: v.Send, now: Now) -> Sequence[Any]:
    """A column that all messages leave at its default is not sent at all."""
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
        [m.due_at for m in messages] if any(m.due_at is not None for m in messages) else None,
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


def _is_plain(message: Outgoing) -> bool:
    return not (
        message.priority
        or message.headers
        or message.delay_ms is not None
        or message.ttl_ms is not None
    )


def _send_one(verb: v.Send, now: Now) -> Mapping[str, Any] | None:
    if len(verb.messages) != 1:
        return None
    (one,) = verb.messages
    if one.dedup_key or one.delay_ms is not None or one.due_at is not None:
        return None
    return {
        "queue": verb.queue,
        "payload": one.payload,
        "channel": one.channel,
        "priority": one.priority,
        "ttl": one.ttl_ms,
        "type": one.content_type,
        "header": _headers_out(one.headers),
        "now": now,
    }


def _send_answer(verb: v.Send, rows: Rows) -> SendOutcome:
    ((ids, channel, most, size, duplicates, replaced),) = rows
    if ids is not None:
        return Sent(tuple(ids), tuple(duplicates or ()), tuple(replaced or ()))
    if channel is None:
        return QueueFull(most, size)
    return ChannelFull(channel, most, size)


CALLS: dict[type[Any], Call] = {
    v.Send: call(
        "select * from turnabout.send($queue::text, $payloads::bytea[], $type::text,"
        " $channels::text[], $priorities::smallint[], $delays::bigint[], $headers::text[],"
        " $types::text[], $now::bigint, $ttls::bigint[], $keys::text[], $modes::text[],"
        " $windows::bigint[], $scopes::text[], $dues::bigint[])",
        _send_answer,
        _send_parameters,
        everyday=(everyday("send", _send_one),),
    ),
}
