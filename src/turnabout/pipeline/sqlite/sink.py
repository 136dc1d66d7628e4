"""Staged sends: what `replay` puts aside, and sends once for each of its batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite.statements import statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._savepoint import Savepoint
from turnabout.sqlite.procedures.send import send
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.value import replace
from turnabout.words.verbs import Send

_STAGE = statements("stage")
_PUBLISH = statements("publish")
_UNSTAGE = statements("unstage")
_DECODER: Final = msgspec.msgpack.Decoder(p.StagedMessages)


def stage(connection: Connection, verb: p.Stage, now: int) -> None:
    """Put messages aside."""
    _queue.be_here(connection)
    for part in verb.parts:
        row = (verb.attempt, now, part.queue, len(part.payloads), msgspec.msgpack.encode(part))
        connection.execute(_STAGE["add"], row)


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
    ours: Counter[tuple[str, str | None]] = Counter()  # of queues, and of their channels
    for part in _staged(connection, verb.attempts):
        messages = tuple(part.messages())
        sent = send(connection, Send(part.queue, messages), now)
        if isinstance(sent, (ChannelFull, QueueFull)):
            savepoint.undo()
            channel = sent.channel if isinstance(sent, ChannelFull) else None
            return replace(sent, size=sent.size - ours[part.queue, channel])
        ours[part.queue, None] += len(messages)
        ours.update((part.queue, message.channel) for message in messages)
        duplicates += len(sent.duplicates)
        connection.to_notify.add(part.queue)
    savepoint.keep()
    connection.execute(_UNSTAGE["attempts"], about)
    connection.execute(_PUBLISH["note"], {**about, "messages": found, "now": now})
    connection.execute(_PUBLISH["forget"], about)
    return p.Published(found, duplicates)


def unstage(connection: Connection, verb: p.Unstage, now: int) -> int:
    """Remove what these attempts put aside, and what is old."""
    _queue.be_here(connection)
    about = {"attempts": json.dumps(verb.attempts), "before": now - p.STAGE_SECONDS * 1000}
    return sum(
        messages
        for name in ("attempts", "old")
        for (messages,) in connection.execute(_UNSTAGE[name], about).fetchall()
    )


def _staged(connection: Connection, attempts: Sequence[str]) -> Iterator[p.StagedMessages]:
    """Read staged messages in order, some of a queue at once."""
    for attempt in attempts:
        for (content,) in connection.execute(_PUBLISH["staged"], {"attempt": attempt}):
            yield _DECODER.decode(content)
