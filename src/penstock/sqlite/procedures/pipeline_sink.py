"""Staged sends: messages put aside by executors, published by a driver, once for a batch."""

from __future__ import annotations

import json
from typing import Any

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _queue
from penstock.sqlite.procedures.send import send
from penstock.words import pipeline as p
from penstock.words.entities import Outgoing
from penstock.words.outcomes import ChannelFull, QueueFull
from penstock.words.verbs import Send

_STAGE = statements("stage")
_PUBLISH = statements("publish")
_UNSTAGE = statements("unstage")
_AT_ONCE = 1_000
_BYTES_AT_ONCE = 16 * 1024 * 1024


def stage(connection: Connection, verb: p.Stage, now: int) -> None:
    """Put messages aside."""
    _queue.be_here(connection)
    connection.executemany(
        _STAGE["add"], [_row(verb.attempt, staged, now) for staged in verb.messages]
    )


def publish(
    connection: Connection, verb: p.Publish, now: int
) -> (
    p.Published
    | p.AlreadyPublished
    | p.PublishedLater
    | p.StageIncomplete
    | ChannelFull
    | QueueFull
):
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
    (found,) = connection.execute(_PUBLISH["count"], about).fetchone()
    if found != verb.messages:
        return p.StageIncomplete(verb.messages, found)
    connection.execute("savepoint publish")
    sending = _Sending(connection, now)
    refused = sending.send(verb.attempts)
    if refused is not None:
        connection.execute("rollback to publish")
        connection.execute("release publish")
        return refused
    connection.execute("release publish")
    connection.news.update(sending.queues)
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
    """Staged messages on their way to their queues: some at once for each queue, in order."""

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self._now = now
        self._waiting: dict[str, list[Outgoing]] = {}
        self._bytes = 0
        self.queues: set[str] = set()
        self.duplicates = 0

    def send(self, attempts: tuple[str, ...]) -> ChannelFull | QueueFull | None:
        """Send all that they staged. Why there is no room, if there is none."""
        for attempt in attempts:
            cursor = self._connection.cursor()
            cursor.row_factory = None
            for queue, *fields in cursor.execute(_PUBLISH["staged"], {"attempt": attempt}):
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


def _row(attempt: str, staged: p.StagedMessage, now: int) -> tuple[Any, ...]:
    """A message as it is put aside; a bytearray, as in `send`."""
    m = staged.message
    headers = json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None
    return (
        *(attempt, now, staged.queue, m.channel, m.priority, m.delay_ms, m.ttl_ms),
        *(m.dedup_key, m.dedup_mode, m.dedup_window_ms, m.dedup_scope),
        *(headers, m.content_type, bytearray(m.payload)),
    )


_FIELDS = tuple(name for name in Outgoing.__dataclass_fields__ if name != "headers")
"""The columns of `staged`, but for queue and headers."""


def _message(headers: str | None, *fields: Any) -> Outgoing:
    """It again, as it was put aside."""
    told = None if headers is None else json.loads(headers)
    return Outgoing(**dict(zip(_FIELDS, fields, strict=True)), headers=told)
