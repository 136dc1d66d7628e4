"""Send: all of the messages or none."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _events, _queue
from turnabout.sqlite.procedures._dedup import DedupPlan
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.administration import Repeats
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import ChannelFull, QueueFull, SendOutcome, Sent
from turnabout.words.verbs import Send

_SQL = statements("send")
_READY, _SCHEDULED = 0, 1
_SIZES = (100, 50, 20, 10, 5, 2, 1)
"""Rows a statement: the numbers that people choose. Many at once take half the time of one by one,
and statements of few sizes stay prepared."""
_channel_of = attrgetter("channel")
_payload_of = attrgetter("payload")
_dedup_key_of = attrgetter("dedup_key")
_kind_of = attrgetter("priority", "delay_ms", "due_at", "content_type", "ttl_ms", "headers")
_NONE: Mapping[str, sqlite3.Row] = {}
_Values = tuple[int, int, int, int, int, int, str | None, str, int | None]


def send(connection: Connection, verb: Send, now: int) -> SendOutcome:
    """Put messages in, unless earlier ones stand for them, or there is no room for them."""
    sent = _send_plainly(connection, verb, now)
    if sent is not None:
        return Sent(tuple(sent))
    queue = _queue.find(connection, verb.queue)
    if queue is None:
        _queue.make(connection, verb.queue, None, now)
        queue = _queue.need(connection, verb.queue)
    messages: Sequence[Outgoing] = verb.messages
    plan = None
    if any(map(_dedup_key_of, messages)):
        plan = DedupPlan(connection, queue, messages, now)
        messages = plan.fresh

    # 1. Limited channels: their rows, and whether there is room, there and in the queue.
    sizes: Counter[str] = Counter()
    if queue["has_channels"] or queue["is_limited"]:
        sizes.update(map(_channel_of, messages))
    limited = _channel.limited(connection, queue, sizes)
    refusal = _refusal(queue, limited, sizes, len(messages))
    if refusal is not None:
        return refusal

    # 2. The messages, and what earlier ones get of them.
    ids = range(0)
    if messages:
        ids = _queue.next_ids(connection, queue, len(messages))
        are_limited_alike = not limited or len(limited) == len(sizes)
        insert = _insert if are_limited_alike else _insert_one_by_one
        insert(connection, queue, limited, messages, ids=ids, now=now)
    if plan is not None:
        plan.write(ids, [_values(message, queue, limited, now) for message in plan.replacing])

    # 3. The channels wake up.
    changes = _channel.ChannelChanges()
    for channel in limited:
        changes.add(channel, size=sizes[channel])
    changes.write(connection, queue["id"])
    _events.note(connection, queue, "created", ids, now)
    return Sent(tuple(ids)) if plan is None else plan.sent(ids)


def repeats(connection: Connection, verb: Repeats, now: int) -> bool:
    """Whether earlier messages stand for all of these."""
    queue = _queue.find(connection, verb.queue)
    if queue is None:
        return False
    plan = DedupPlan(connection, queue, verb.messages, now)
    return not plan.fresh and not plan.replacing


def _refusal(
    queue: Queue, limited: Mapping[str, sqlite3.Row], sizes: Counter[str], count: int
) -> ChannelFull | QueueFull | None:
    """The limit that a send would exceed."""
    for channel, row in limited.items():
        max_size = queue["max_size"] if row["max_size"] is None else row["max_size"]
        if max_size is not None and row["size"] + sizes[channel] > max_size:
            return ChannelFull(channel, max_size, row["size"])
    most = queue["max_messages"]
    if most is not None and count and _queue.unfinished(queue) + count > most:
        return QueueFull(most, _queue.unfinished(queue))
    return None


def _send_plainly(connection: Connection, verb: Send, now: int) -> Sequence[int] | None:
    """Send to a queue with no rules but counting, and return ids. Else None: nothing was sent."""
    queue, messages = _queue.known(connection, verb.queue), verb.messages
    if queue is None or not queue["is_plain"] or any(map(_dedup_key_of, messages)):
        return None
    ids = _queue.next_ids(connection, queue, len(messages), "last_id_if_plain")
    if ids:
        _insert(connection, queue, _NONE, messages, ids=ids, now=now)
    return ids or None


def _are_alike(messages: Sequence[Outgoing]) -> bool:
    """Whether they are many that differ in channel and payload only, as those sent together do."""
    return len(messages) > 1 and all(map(_kind_of(messages[0]).__eq__, map(_kind_of, messages)))


def _values(m: Outgoing, queue: Queue, limited: Mapping[str, sqlite3.Row], now: int) -> _Values:
    """Columns of a row but channel and payload. A FIFO queue holds a delayed one in its place."""
    delay = m.delay_from(now, queue["delay_ms"])
    ttl = queue["ttl_ms"] if m.ttl_ms is None else m.ttl_ms
    return (
        queue["id"],
        _SCHEDULED if delay and not queue["fifo"] else _READY,
        int(m.channel in limited),
        now + delay if delay else 0,
        m.priority,
        now,
        json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None,
        m.content_type,
        None if ttl is None else now + ttl,
    )


def _insert(
    connection: Connection,
    queue: Queue,
    limited: Mapping[str, sqlite3.Row],
    messages: Sequence[Outgoing],
    *,
    ids: range,
    now: int,
) -> None:
    """Insert messages, all limited or none."""
    if _are_alike(messages):
        _insert_alike(connection, _values(messages[0], queue, limited, now), messages, ids)
    else:
        _insert_one_by_one(connection, queue, limited, messages, ids=ids, now=now)


def _insert_one_by_one(
    connection: Connection,
    queue: Queue,
    limited: Mapping[str, sqlite3.Row],
    messages: Sequence[Outgoing],
    *,
    ids: range,
    now: int,
) -> None:
    """Insert them. sqlite3 looks for an adapter of bytes, in a third of the time of an insert, but
    not of a bytearray.
    """
    for statement, part in _parts("insert", len(messages)):
        values: list[Any] = []
        for id_, m in zip(ids[part], messages[part], strict=True):
            values += _values(m, queue, limited, now)
            values += (id_, m.channel, bytearray(m.payload))
        connection.execute(statement, values)


def _insert_alike(
    connection: Connection, shared: _Values, messages: Sequence[Outgoing], ids: range
) -> None:
    """Insert messages with many equal values, which are bound once."""
    channel = messages[0].channel
    to_one = all(map(channel.__eq__, map(_channel_of, messages)))
    width = 2 if to_one else 3
    for statement, part in _parts("insert_to_one" if to_one else "insert_alike", len(messages)):
        rows: list[Any] = [None] * (width * (part.stop - part.start))
        rows[::width] = ids[part]
        if not to_one:
            rows[1::width] = map(_channel_of, messages[part])
        rows[width - 1 :: width] = map(bytearray, map(_payload_of, messages[part]))
        rows += (*shared, channel) if to_one else shared
        connection.execute(statement, rows)


@lru_cache
def _parts(step: str, count: int) -> Sequence[tuple[str, slice]]:
    """`count` rows in parts, the largest first, each with its statement."""
    parts: list[tuple[str, slice]] = []
    first = 0
    for size in _SIZES:
        while count - first >= size:
            parts.append((_with_rows(_SQL[step], size), slice(first, first + size)))
            first += size
    return parts


def _with_rows(statement: str, size: int) -> str:
    """The statement with that many rows of values."""
    row = r"values (\((?:[^()]|\([^()]*\))*\))"
    return re.sub(row, lambda m: f"values {', '.join([m[1]] * size)}", statement)
