"""Send: all of the messages or none."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _channel, _queue
from penstock.words.entities import Outgoing
from penstock.words.outcomes import ChannelFull, SendOutcome, Sent
from penstock.words.verbs import Send

_SQL = statements("send")
_READY, _SCHEDULED = 0, 1
_TOGETHER = 50
_ONE = _SQL["insert"]
_MANY = _ONE + ("," + _ONE.partition("values")[2]) * (_TOGETHER - 1)
_Row = tuple[int, int, bool, int, str, int, int, str | None, str, bytes]


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
    _insert(connection, _rows(verb.messages, queue, limited, now))
    (last,) = connection.execute(_SQL["last_id"]).fetchone()

    # 3. The counts, and the channels wake up.
    count = len(verb.messages)
    connection.execute(_queue.SQL["count_sent"], {"n": count, "queue": queue["id"]})
    changes = _channel.Changes()
    for channel in limited:
        changes.add(channel, size=sizes[channel])
    changes.write(connection, queue["id"])
    return Sent(tuple(range(last - count + 1, last + 1)))


def _insert(connection: Connection, rows: Sequence[_Row]) -> None:
    """50 rows a statement, and the rest one by one: half the time of one by one."""
    whole = len(rows) - len(rows) % _TOGETHER
    for first in range(0, whole, _TOGETHER):
        together = rows[first : first + _TOGETHER]
        connection.execute(_MANY, tuple(chain.from_iterable(together)))
    connection.executemany(_ONE, rows[whole:])


def _rows(
    messages: tuple[Outgoing, ...],
    queue: sqlite3.Row,
    limited: Mapping[str, sqlite3.Row],
    now: int,
) -> list[_Row]:
    """Each message with its time. A FIFO queue holds a delayed one in its place, as ready."""
    queue_id, fifo, delay_ms = queue["id"], queue["fifo"], queue["delay_ms"]
    rows: list[_Row] = []
    for m in messages:
        delay = delay_ms if m.delay_ms is None else m.delay_ms
        rows.append(
            (
                queue_id,
                _SCHEDULED if delay and not fifo else _READY,
                m.channel in limited,
                now + delay if delay else 0,
                m.channel,
                m.priority,
                now,
                json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None,
                m.content_type,
                m.payload,
            )
        )
    return rows
