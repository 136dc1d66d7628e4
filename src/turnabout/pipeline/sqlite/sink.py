"""Staged sends: messages put aside by executors, published by a driver, once for a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite.statements import statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._savepoint import Savepoint
from turnabout.sqlite.procedures.send import send
from turnabout.words.entities import Outgoing
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.verbs import Send

_STAGE = statements("stage")
_PUBLISH = statements("publish")
_UNSTAGE = statements("unstage")
_AT_ONCE = 1_000
_BYTES_AT_ONCE = 16 * 1024 * 1024
_ROWS = 50
_VALUES = "(?, ?, ?, ?, ?)"
_ADD_ALIKE = _STAGE["add_alike"].replace(_VALUES, ", ".join([_VALUES] * _ROWS))
"""Values are most of what a row costs, so those that all of a call share are bound once."""


def stage(connection: Connection, verb: p.Stage, now: int) -> None:
    """Put messages aside."""
    _queue.be_here(connection)
    rest = verb.messages
    kinds = {_shared(staged.message) for staged in rest}
    if len(kinds) == 1:
        shared = (verb.attempt, now, *kinds.pop())
        end = len(rest) - len(rest) % _ROWS
        for first in range(0, end, _ROWS):
            own = chain.from_iterable(map(_own, rest[first : first + _ROWS]))
            connection.execute(_ADD_ALIKE, (*own, *shared))
        rest = rest[end:]
    connection.executemany(_STAGE["add"], [_row(verb.attempt, staged, now) for staged in rest])


def publish(
    connection: Connection, verb: p.Publish, now: int
) -> p.Published | p.AlreadyPublished | p.Refused:
    """Send what was staged, with the note of its batch, or nothing."""
    _queue.be_here(connection)
    about = {"sink": verb.sink, "batch": verb.batch, "attempts": json.dumps(verb.attempts)}
    (newest,) = connection.execute(_PUBLISH["newest"], about).fetchone()
    if newest is not None and newest > verb.batch:
        return p.PublishedLater(newest)
    before = connection.execute(_PUBLISH["published"], about).fetchone()
    if before is not None:
        connection.execute(_UNSTAGE["attempts"], about)
        return p.AlreadyPublished(before["messages"])
    queues = [tuple(row) for row in connection.execute(_PUBLISH["queues"], about)]
    found = sum(count for _, count, _ in queues)
    if found != verb.messages:
        return p.StageIncomplete(verb.messages, found)
    savepoint = Savepoint(connection)
    sending = _Sending(connection, now)
    refused = sending.send(verb.attempts, queues)
    if refused is not None:
        savepoint.undo()
        return refused
    savepoint.keep()
    connection.to_notify.update(sending.queues)
    connection.execute(_UNSTAGE["attempts"], about)
    connection.execute(_PUBLISH["note"], {**about, "messages": found, "now": now})
    connection.execute(_PUBLISH["forget"], about)
    return p.Published(found, sending.duplicates)


def unstage(connection: Connection, verb: p.Unstage, now: int) -> int:
    """Remove what these attempts put aside, and what is old."""
    _queue.be_here(connection)
    about = {"attempts": json.dumps(verb.attempts), "before": now - p.STAGE_SECONDS * 1000}
    removed = connection.execute(_UNSTAGE["attempts"], about).rowcount
    return removed + connection.execute(_UNSTAGE["old"], about).rowcount


class _Sending:
    """Staged messages on their way to their queues, in order: by one statement for each attempt,
    where there are no keys and no limits; else through `send`, some at once for each queue.
    """

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self._waiting: dict[str, list[Outgoing]] = {}
        self._bytes = 0
        self.queues: set[str] = set()
        self.duplicates = 0

    def send(
        self, attempts: tuple[str, ...], queues: Sequence[tuple[str, int, int]]
    ) -> ChannelFull | QueueFull | None:
        """Send all that they staged for these queues: of each its name, the number of messages, and
        whether any has a key. Why there is no room, if there is none.
        """
        plain = {name: count for name, count, keyed in queues if not keyed and self._is_free(name)}
        names = json.dumps(list(plain))
        if len(plain) < len(queues):
            refused = self._send_others(attempts, names)
            if refused is not None:
                return refused
        for attempt in attempts if plain else ():
            about = {"attempt": attempt, "queues": names, "now": self._now}
            self._connection.execute(_PUBLISH["send"], about)
        for name, count in plain.items():
            queue = _queue.need(self._connection, name)
            self._connection.execute(_queue.SQL["count_sent"], {"n": count, "queue": queue["id"]})
        self.queues.update(plain)
        return None

    def _is_free(self, name: str) -> bool:
        """Whether nothing limits this queue, and nobody wants to hear of each message."""
        queue = _queue.find(self._connection, name)
        if queue is None:
            _queue.make(self._connection, name, None, self._now)
            queue = _queue.need(self._connection, name)
        is_limited = queue["is_limited"] or queue["has_channels"]
        return not is_limited and queue["max_messages"] is None and queue["events"] != "all"

    def _send_others(self, attempts: tuple[str, ...], plain: str) -> ChannelFull | QueueFull | None:
        for attempt in attempts:
            cursor = self._connection.cursor()
            cursor.row_factory = None
            about = {"attempt": attempt, "queues": plain}
            for queue, *fields in cursor.execute(_PUBLISH["staged"], about):
                message = _message(*fields)
                waiting = self._waiting.setdefault(queue, [])
                waiting.append(message)
                self._bytes += len(message.payload)
                refused = None
                if self._bytes >= _BYTES_AT_ONCE:
                    refused = self._send_all()
                elif len(waiting) == _AT_ONCE:
                    refused = self._send(queue)
                if refused is not None:
                    return refused
        return self._send_all()

    def _send_all(self) -> ChannelFull | QueueFull | None:
        for queue in list(self._waiting):
            refused = self._send(queue)
            if refused is not None:
                return refused
        return None

    def _send(self, queue: str) -> ChannelFull | QueueFull | None:
        messages = tuple(self._waiting.pop(queue))
        self._bytes -= sum(len(message.payload) for message in messages)
        sent = send(self._connection, Send(queue, messages), self._now)
        if isinstance(sent, (ChannelFull, QueueFull)):
            return sent
        self.queues.add(queue)
        self.duplicates += len(sent.duplicates)
        return None


def _shared(m: Outgoing) -> tuple[Any, ...]:
    """The fields that messages staged together most often have in common."""
    return (
        *(m.priority, m.delay_ms, m.ttl_ms, m.dedup_mode, m.dedup_window_ms, m.dedup_scope),
        m.content_type,
    )


def _own(staged: p.StagedMessage) -> tuple[Any, ...]:
    """And the rest; a bytearray, as in `send`."""
    m = staged.message
    return staged.queue, m.channel, _headers(m), m.dedup_key, bytearray(m.payload)


def _headers(m: Outgoing) -> str | None:
    return json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None


def _row(attempt: str, staged: p.StagedMessage, now: int) -> tuple[Any, ...]:
    """A message as it is put aside."""
    m = staged.message
    return (
        *(attempt, now, staged.queue, m.channel, m.priority, m.delay_ms, m.ttl_ms),
        *(m.dedup_key, m.dedup_mode, m.dedup_window_ms, m.dedup_scope),
        *(_headers(m), m.content_type, bytearray(m.payload)),
    )


_FIELDS = tuple(name for name in Outgoing.__dataclass_fields__ if name not in ("headers", "due_at"))
"""The columns of `staged`, but for queue and headers. (The sink takes no `due_at`.)"""


def _message(headers: str | None, *fields: Any) -> Outgoing:
    """It again, as it was put aside."""
    told = None if headers is None else json.loads(headers)
    return Outgoing(**dict(zip(_FIELDS, fields, strict=True)), headers=told)
