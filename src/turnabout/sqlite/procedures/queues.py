"""Verbs on whole queues: create, update, delete, purge."""

from __future__ import annotations

import json

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel, _finish, _floor, _queue, _queue_limits
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures.look import queue_entry
from turnabout.sqlite.procedures.receive import end_leases
from turnabout.words.entities import QueueEntry
from turnabout.words.errors import UsageError
from turnabout.words.limits import DEAD_SUFFIX
from turnabout.words.outcomes import AlreadyExists, Created, CreateOutcome, Deleted, Purged
from turnabout.words.policy import QueueSettings, settings_row
from turnabout.words.verbs import Purge, QueueCreate, QueueDelete, QueueUpdate

_PURGE = statements("purge")
_UPDATE = statements("queue_update")
_DELETE = statements("queue_delete")


def queue_create(connection: Connection, verb: QueueCreate, now: int) -> CreateOutcome:
    """Make a queue, unless there is one of that name."""
    if _queue.find(connection, verb.queue) is not None:
        return AlreadyExists(queue_entry(connection, verb.queue))
    _queue.make(connection, verb.queue, verb.settings, now)
    return Created(queue_entry(connection, verb.queue))


def queue_update(connection: Connection, verb: QueueUpdate, now: int) -> QueueEntry:
    """Change settings; the channels are looked at again under the new ones."""
    old = _queue.need(connection, verb.queue)
    before = _queue.settings(old)
    settings = before.changed(verb.changes)
    if settings.fifo != bool(old["fifo"]):
        raise UsageError("fifo is fixed when a queue is made: make another queue, and move to it")
    connection.execute(
        _UPDATE["change"],
        {
            **settings_row(settings),
            "dead_letter_id": _dead_letter_id(connection, old, settings, now),
            "id": old["id"],
            "modified_at": old["modified_at"] if settings == before else now,
        },
    )
    new = _queue.need(connection, verb.queue)
    if new["is_limited"] and not old["is_limited"]:
        leased = connection.execute(_UPDATE["leased_channels"], {"queue": old["id"]}).fetchall()
        _channel.limited(connection, new, [channel for (channel,) in leased])
    limits = _queue_limits.of(connection, new, now)
    if limits is not None:
        limits.begin(old)
    connection.execute(_UPDATE["wake_all"], {"queue": old["id"]})
    return queue_entry(connection, verb.queue)


def queue_delete(connection: Connection, verb: QueueDelete, now: int) -> Deleted:
    """Remove a queue with all that is in it."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["id"]}
    source = connection.execute(_DELETE["sources"], parameters).fetchone()
    if source is not None:
        raise UsageError(
            f"{verb.queue!r} is the dead-letter queue of {source['name']!r}: "
            "delete that one first, or give it another dead-letter queue"
        )
    (last,) = connection.execute(_DELETE["last"], parameters).fetchone()
    _floor.raise_to(connection, queue["id"], last)
    messages = connection.execute(_DELETE["messages"], parameters).rowcount
    for step in ("channels", "history", "dedup", "events", "redrives", "queue"):
        connection.execute(_DELETE[step], {**parameters, "now": now})
    return Deleted(messages)


def purge(connection: Connection, verb: Purge, now: int) -> Purged:
    """Cancel messages: a row of history each."""
    queue = _queue.need(connection, verb.queue)
    states = ("scheduled", "ready") if verb.state is None else (verb.state,)
    if "leased" not in states:
        queue = end_leases(connection, queue, now)  # what ran out is nobody's
    chosen = connection.execute(
        _PURGE["choose"],
        {
            "queue": queue["id"],
            "channel": verb.channel,
            "states": json.dumps(states),
            "now": now,
        },
    ).fetchall()
    changes = _channel.ChannelChanges()
    for _, channel, leased in chosen:
        changes.add(channel, size=-1, leased=-leased)
    _queue_limits.give_back(connection, queue, sum(leased for *_, leased in chosen))
    _finish.Finish(connection, queue, now).end("cancelled", [row["id"] for row in chosen])
    if queue["has_channels"]:
        changes.write(connection, queue["id"])
    return Purged(len(chosen))


def _dead_letter_id(
    connection: Connection, queue: Queue, settings: QueueSettings, now: int
) -> int | None:
    """Set the dead-letter queue. A queue without one stays without, unless one is named."""
    if settings.dead_letter is not None:
        return _queue.dead_letter_id(connection, queue["id"], settings.dead_letter, now)
    if queue["dead_letter"] is None or queue["name"].endswith(DEAD_SUFFIX):
        return queue["dead_letter_id"] if queue["dead_letter"] is None else None
    return _queue.dead_letter_id(connection, queue["id"], queue["name"] + DEAD_SUFFIX, now)
