"""Cancel and retry: what a person says about messages that nobody holds, or that somebody does."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _events, _finish, _queue
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.outcomes import (
    Cancelled,
    CancelOutcome,
    CancelRequested,
    NotWaiting,
    Retried,
    RetryOutcome,
)
from turnabout.words.verbs import Cancel, Retry

_HELD = statements("held")
_CANCEL = statements("cancel")
_RETRY = statements("retry")
_LEASED = 2
_CANCELLED, _REQUESTED, _RETRIED = Cancelled(), CancelRequested(), Retried()
_GONE = NotWaiting("gone")


def cancel(connection: Connection, verb: Cancel, now: int) -> tuple[CancelOutcome, ...]:
    """Waiting messages end; the holders of leased ones learn of it at their next `extend`."""
    queue = _queue.need(connection, verb.queue)
    rows = _rows(connection, queue, verb.ids)
    changes = _channel.ChannelChanges()
    outcomes: list[CancelOutcome] = []
    ended: list[int] = []
    requested: list[int] = []
    for id_ in verb.ids:
        row = rows.get(id_)
        if row is None:
            outcomes.append(_GONE)
        elif row["status"] == _LEASED:
            requested.append(id_)
            outcomes.append(_REQUESTED)
        else:
            del rows[id_]  # named again, it is gone
            changes.add(row["channel"], size=-1)
            ended.append(id_)
            outcomes.append(_CANCELLED)
    if requested:
        connection.execute(_CANCEL["request"], {"ids": json.dumps(requested)})
    _finish.Finish(connection, queue, now).end("cancelled", ended)
    if queue["has_channels"]:
        changes.write(connection, queue["id"])
    return tuple(outcomes)


def retry(connection: Connection, verb: Retry, now: int) -> tuple[RetryOutcome, ...]:
    """Waiting messages are ready, and what was charged to them is forgotten."""
    queue = _queue.need(connection, verb.queue)
    rows = _rows(connection, queue, verb.ids)
    changes = _channel.ChannelChanges()
    outcomes: list[RetryOutcome] = []
    ready: list[int] = []
    for id_ in verb.ids:
        row = rows.get(id_)
        if row is None:
            outcomes.append(_GONE)
        elif row["status"] == _LEASED:
            outcomes.append(NotWaiting("leased"))
        else:
            changes.add(row["channel"])
            ready.append(id_)
            outcomes.append(_RETRIED)
    connection.execute(_RETRY["retry"], {"ids": json.dumps(ready)})
    _events.note(connection, queue, "deferred", ready, now)
    if queue["has_channels"]:
        changes.write(connection, queue["id"])
    return tuple(outcomes)


def _rows(connection: Connection, queue: Queue, ids: Sequence[int]) -> dict[int, sqlite3.Row]:
    """Select the messages that are unfinished in the queue."""
    parameters = {"queue": queue["id"], "ids": json.dumps(ids)}
    return {row["id"]: row for row in connection.execute(_HELD["held"], parameters)}
