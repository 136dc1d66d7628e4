"""Send: all of the messages or none."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _channel, _queue
from penstock.words.entities import Outgoing
from penstock.words.outcomes import ChannelFull, SendOutcome, Sent
from penstock.words.verbs import Send

_SQL = statements("send")
_READY, _SCHEDULED = 0, 1
_SIZES = (64, 32, 16, 8, 4, 2, 1)
"""Rows a statement. Many at once take half the time of one by one, and statements of few sizes stay
prepared."""
_Values = tuple[int, int, int, int, int, int, str | None, str]


def send(connection: Connection, verb: Send, now: int) -> SendOutcome:
    """Put messages in, unless a channel has no room for them."""
    queue = _queue.find(connection, verb.queue)
    if queue is None:
        _queue.make(connection, verb.queue, None, now)
        queue = _queue.need(connection, verb.queue)
    sizes = Counter(message.channel for message in verb.messages)

    # 1. Limited channels: their rows, and whether there is room.
    limited = _channel.limited(connection, queue, sizes)
    for channel, row in limited.items():
        max_size = queue["max_size"] if row["max_size"] is None else row["max_size"]
        if max_size is not None and row["size"] + sizes[channel] > max_size:
            return ChannelFull(channel, max_size, row["size"])

    # 2. The messages. The ids of one transaction follow one another.
    are_limited_alike = not limited or len(limited) == len(sizes)
    if are_limited_alike and _are_alike(verb.messages):
        shared = _values(verb.messages[0], queue, limited, now)
        _insert_alike(connection, shared, verb.messages)
    else:
        rows = [_values(m, queue, limited, now) for m in verb.messages]
        _insert(connection, rows, verb.messages)
    (last,) = connection.execute(_SQL["last_id"]).fetchone()

    # 3. The counts, and the channels wake up.
    count = len(verb.messages)
    connection.execute(_queue.SQL["count_sent"], {"n": count, "queue": queue["id"]})
    changes = _channel.Changes()
    for channel in limited:
        changes.add(channel, size=sizes[channel])
    changes.write(connection, queue["id"])
    return Sent(tuple(range(last - count + 1, last + 1)))


def _are_alike(messages: Sequence[Outgoing]) -> bool:
    """Whether they are many that differ in channel and payload only, as those sent together do."""
    if len(messages) == 1:
        return False
    kinds = {(m.priority, m.delay_ms, m.content_type, m.headers is None) for m in messages}
    return len(kinds) == 1 and messages[0].headers is None


def _values(
    m: Outgoing, queue: sqlite3.Row, limited: Mapping[str, sqlite3.Row], now: int
) -> _Values:
    """All of a row but channel and payload. A FIFO queue holds a delayed one in its place."""
    delay = queue["delay_ms"] if m.delay_ms is None else m.delay_ms
    return (
        queue["id"],
        _SCHEDULED if delay and not queue["fifo"] else _READY,
        int(m.channel in limited),
        now + delay if delay else 0,
        m.priority,
        now,
        json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None,
        m.content_type,
    )


def _insert(connection: Connection, rows: Sequence[_Values], messages: Sequence[Outgoing]) -> None:
    for statement, part in _parts("insert", len(rows)):
        values: list[Any] = []
        for shared, m in zip(rows[part], messages[part], strict=True):
            values += shared
            values += _own(m)
        connection.execute(statement, values)


def _insert_alike(connection: Connection, shared: _Values, messages: Sequence[Outgoing]) -> None:
    for statement, part in _parts("insert_alike", len(messages)):
        values = (*chain.from_iterable(map(_own, messages[part])), *shared)
        connection.execute(statement, values)


def _own(m: Outgoing) -> tuple[str, bytearray]:
    """Channel and payload. Python's sqlite3 looks for an adapter of bytes, at a third of the time
    of an insert, and not of a bytearray.
    """
    return m.channel, bytearray(m.payload)


@lru_cache
def _parts(step: str, count: int) -> Sequence[tuple[str, slice]]:
    """So many rows in parts, the largest first, each with its statement."""
    parts: list[tuple[str, slice]] = []
    first = 0
    for size in _SIZES:
        while count - first >= size:
            parts.append((_with_rows(_SQL[step], size), slice(first, first + size)))
            first += size
    return parts


def _with_rows(statement: str, size: int) -> str:
    """The statement with so many rows of values."""
    return re.sub(r"values (\([?, ]+\))", lambda m: f"values {', '.join([m[1]] * size)}", statement)
