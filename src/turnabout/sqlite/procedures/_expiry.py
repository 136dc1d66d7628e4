"""Expiry: messages that waited beyond their time to live end as expired."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _finish
from turnabout.sqlite.procedures._queue import Queue

_SQL = statements("expire")


def is_any_stale(connection: Connection, queue: Queue, now: int) -> bool:
    """Whether a waiting message of the queue should have ended by now."""
    parameters = {"queue": queue["id"], "now": now}
    return bool(connection.execute(_SQL["any"], parameters).fetchone()[0])


def expire(connection: Connection, queue: Queue, finish: _finish.Finish, most: int) -> bool:
    """End such messages, up to that many, the first ones first. Whether there may be more."""
    parameters = {"queue": queue["id"], "now": finish.now, "most": most}
    stale = connection.execute(_SQL["stale"], parameters).fetchall()
    changes = _channel.ChannelChanges()
    for row in stale:
        changes.add(row["channel"], size=-1)
    finish.end("expired", [row["id"] for row in stale])
    if queue["has_channels"]:
        changes.write(connection, queue["id"])
    return len(stale) == most
