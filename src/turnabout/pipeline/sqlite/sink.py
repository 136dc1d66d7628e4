"""Staged sends: what `replay` puts aside, and sends once for each of its batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.pipeline.gathered import gathered
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
_BYTES_AT_ONCE = 16 * 1024 * 1024
_FIELDS = tuple(name for name in Outgoing.__struct_fields__ if name not in ("headers", "due_at"))
"""The columns of `staged`, but for queue and headers. (The sink takes no `due_at`.)"""


def stage(connection: Connection, verb: p.Stage, now: int) -> None:
    """Put messages aside."""
    _queue.be_here(connection)
    rows = [_row(verb.attempt, staged, now) for staged in verb.messages]
    connection.executemany(_STAGE["add"], rows)


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
    (found,) = connection.execute(_PUBLISH["count"], about).fetchone()
    if found != verb.messages:
        return p.StageIncomplete(verb.messages, found)
    savepoint = Savepoint(connection)
    duplicates = 0
    for queue, messages in _chunks(connection, verb.attempts):
        sent = send(connection, Send(queue, messages), now)
        if isinstance(sent, (ChannelFull, QueueFull)):
            savepoint.undo()
            return sent
        duplicates += len(sent.duplicates)
        connection.to_notify.add(queue)
    savepoint.keep()
    connection.execute(_UNSTAGE["attempts"], about)
    connection.execute(_PUBLISH["note"], {**about, "messages": found, "now": now})
    connection.execute(_PUBLISH["forget"], about)
    return p.Published(found, duplicates)


def unstage(connection: Connection, verb: p.Unstage, now: int) -> int:
    """Remove what these attempts put aside, and what is old."""
    _queue.be_here(connection)
    about = {"attempts": json.dumps(verb.attempts), "before": now - p.STAGE_SECONDS * 1000}
    removed = connection.execute(_UNSTAGE["attempts"], about).rowcount
    return removed + connection.execute(_UNSTAGE["old"], about).rowcount


def _chunks(
    connection: Connection, attempts: Sequence[str]
) -> Iterator[tuple[str, tuple[Outgoing, ...]]]:
    """Read staged messages in order, some of a queue at once."""
    for attempt in attempts:
        cursor = connection.cursor()
        cursor.row_factory = None
        rows = cursor.execute(_PUBLISH["staged"], {"attempt": attempt})
        for queue, group in groupby(rows, itemgetter(0)):
            messages = (_message(*fields) for _, *fields in group)
            for chunk in gathered(messages, _BYTES_AT_ONCE, _size):
                yield queue, tuple(chunk)


def _size(message: Outgoing) -> int:
    """The payload's, but at most a thousand are sent at once."""
    return max(len(message.payload), -(-_BYTES_AT_ONCE // 1_000))


def _row(attempt: str, staged: p.StagedMessage, now: int) -> tuple[Any, ...]:
    """A message as it is put aside; a bytearray, as in `send`."""
    m = staged.message
    headers = json.dumps(dict(m.headers), ensure_ascii=False) if m.headers else None
    return (
        *(attempt, now, staged.queue, m.channel, m.priority, m.delay_ms, m.ttl_ms),
        *(m.dedup_key, m.dedup_mode, m.dedup_window_ms, m.dedup_scope),
        *(headers, m.content_type, bytearray(m.payload)),
    )


def _message(headers: str | None, *fields: Any) -> Outgoing:
    """Restore a message as it was put aside."""
    told = None if headers is None else json.loads(headers)
    return Outgoing(**dict(zip(_FIELDS, fields, strict=True)), headers=told)
