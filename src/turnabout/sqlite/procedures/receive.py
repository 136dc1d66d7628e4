"""Receive: timers, wakes, channels in turn, leases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import among, statements
from turnabout.sqlite.procedures import (
    _channel,
    _events,
    _expiry,
    _finish,
    _queue,
    _queue_limits,
)
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures._round_robin import RoundRobin, Row
from turnabout.sqlite.procedures.inbox import drain
from turnabout.sqlite.procedures.settle import ack
from turnabout.words.entities import delivery_of
from turnabout.words.outcomes import AckOutcome, Received
from turnabout.words.value import replace
from turnabout.words.verbs import Receive

_SQL = statements("receive")
_NEXT = f"{_SQL['next']} and exists ({_SQL['is_quiet']})"
"""The next message, where it is quiet: a round robin in one statement."""
_STALE, _STALE_ROUNDS = 1_000, 5


def receive(connection: Connection, verb: Receive, now: int) -> Received:
    """Ack, then lease what is ready, the channels in turn; nothing: say when to ask again."""
    acked: tuple[AckOutcome, ...] = ()
    if verb.acks:
        acked = ack(connection, verb, now)
    queue, turn = _unlimited(connection, verb.queue), None
    is_next = queue is not None and verb.max_messages == 1 and verb.shard is None
    chosen = _quiet(connection, _NEXT, queue, verb, now) if queue and is_next else []
    if queue and not (chosen or _quiet(connection, _SQL["is_quiet"], queue, verb, now)):
        queue = None
    if queue is None or not is_next:
        robin: RoundRobin | None
        if queue is not None:
            robin = RoundRobin(connection, queue, verb, now)
            robin.choose()
        else:
            drain(connection, verb, now)
            queue = _queue.need(connection, verb.queue)
            robin = _choose(connection, queue, verb, now)
        if robin is None:
            return Received((), 0, acked=acked)  # more is to be stepped over: the next call goes on
        chosen, turn = robin.chosen, robin.turn
    if not chosen:
        return Received((), _empty_ms(connection, queue, now), acked=acked)
    lease_ms = queue["lease_ms"] if verb.lease_ms is None else verb.lease_ms
    _lease(connection, queue, [row[0] for row in chosen], lease_ms, now)
    lease = (now + lease_ms, lease_ms, 0)  # leases have no numbers here
    return Received(tuple([delivery_of(row + lease) for row in chosen]), turn=turn, acked=acked)


def _unlimited(connection: Connection, name: str) -> Queue | None:
    """The queue's row as it was when it was last read, if no limit had a say then."""
    queue = _queue.known(connection, name)
    has_a_say = ("is_limited", "paused", "has_channels", "has_own_limits")
    return None if queue is None or any(map(queue.__getitem__, has_a_say)) else queue


def _quiet(connection: Connection, step: str, queue: Queue, verb: Receive, now: int) -> list[Row]:
    """Take the message that a step found, if it is still there and no timer is due."""
    parameters = {"queue": queue["id"], "version": queue["version"], "now": now}
    return connection.tuples(step, {**parameters, "channel": verb.turn.channel})


def _empty_ms(connection: Connection, queue: Queue, now: int) -> int | None:
    """Milliseconds until something is due, as there is nothing now."""
    (due_at,) = connection.execute(_SQL["next_timer"], {"queue": queue["id"]}).fetchone()
    limits = _queue_limits.of(connection, queue, now)
    times = [at for at in (due_at, limits and limits.opens_at()) if at is not None]
    return max(0, min(times) - now) if times else None


def _choose(connection: Connection, queue: Queue, verb: Receive, now: int) -> RoundRobin | None:
    """The messages to lease; None: there is more to step over than one call does."""
    finish = turn_timers(connection, queue, now, most=2 * verb.max_messages + 100)
    limits = _queue_limits.of(connection, queue, now)
    if limits is not None:
        verb = replace(verb, max_messages=min(verb.max_messages, limits.allows()))
    robin = RoundRobin(connection, queue, verb, now)
    if queue["paused"] or not verb.max_messages:
        return robin
    for _ in range(_STALE_ROUNDS):
        robin.choose()
        if finish is None:
            return robin
        _step_over(connection, queue, robin, finish)
        if robin.chosen:
            return robin
        if not _expiry.expire(connection, queue, finish, _STALE):
            finish = None
        robin = RoundRobin(connection, queue, verb, now)
    return None


def end_leases(connection: Connection, queue: Queue, now: int) -> Queue:
    """Charge all leases that ran out; the queue as it is then."""
    parameters = {"queue": queue["id"], "now": now, "most": -1}
    rows = connection.execute(_SQL["expired"], parameters).fetchall()
    if not rows:
        return queue
    changes = _channel.ChannelChanges()
    _charge_crashes(connection, queue, _finish.Finish(connection, queue, now), rows, changes)
    _queue_limits.give_back(connection, queue, len(rows))
    changes.write(connection, queue["id"])
    return _queue.need(connection, queue["name"])


def turn_timers(connection: Connection, queue: Queue, now: int, most: int) -> _finish.Finish | None:
    """Process a bounded share of timers: due messages, expired leases, times to live, sleeping
    channels. Returns a way to end more expired messages, if there may be more.
    """
    parameters = {"queue": queue["id"], "now": now, "most": most}
    due, expired, sleepers, stale = connection.execute(_SQL["timers"], parameters).fetchone()
    changes = _channel.ChannelChanges()
    if due:
        for channel, is_limited in connection.execute(_SQL["due"], parameters).fetchall():
            parameters["most"] -= 1
            if is_limited:
                changes.add(channel)
    finish = _finish.Finish(connection, queue, now) if expired or stale else None
    if finish is not None and expired and parameters["most"]:
        rows = connection.execute(_SQL["expired"], parameters).fetchall()
        parameters["most"] -= len(rows)
        _charge_crashes(connection, queue, finish, rows, changes)
        stale = _expiry.is_any_stale(connection, queue, now)  # they have come back
        _queue_limits.give_back(connection, queue, len(rows))
    changes.write(connection, queue["id"])
    if sleepers and parameters["most"]:
        connection.execute(_SQL["wake"], parameters)
    if finish is None or not stale or not _expiry.expire(connection, queue, finish, _STALE):
        return None
    return finish


def _charge_crashes(
    connection: Connection,
    queue: Queue,
    finish: _finish.Finish,
    rows: Sequence[sqlite3.Row],
    changes: _channel.ChannelChanges,
) -> None:
    """A lease that ran out costs an attempt. The message is ready again, or ends."""
    letters: list[_finish.DeadLetter] = []
    alive: list[int] = []
    cancelled: list[int] = []
    for row in rows:
        failures, crashes = row["failures"], row["crashes"] + 1
        ends = not _finish.blocks(queue)
        if row["cancel_requested"]:
            ends = True
            cancelled.append(row["id"])
        elif limit := _finish.exhausted(queue, row, failures + crashes):
            reason = "crashes" if limit == "attempts" else limit
            letters.append(_finish.DeadLetter.as_it_is(row, reason, failures, crashes))
        else:
            ends = False
            alive.append(row["id"])
        if row["limited"]:
            changes.add(row["channel"], size=-1 if ends else 0, leased=-1)
    connection.execute(_SQL["crash"], {"ids": json.dumps(alive)})
    _events.note(connection, queue, "failed", alive, finish.now)
    if cancelled:
        connection.execute(_SQL["crash_at_end"], {"ids": json.dumps(cancelled)})
        finish.end("cancelled", cancelled)
    finish.dead_letter(letters)


def _step_over(
    connection: Connection, queue: Queue, robin: RoundRobin, finish: _finish.Finish
) -> None:
    """End those of the chosen messages that have waited too long."""
    parameters = {"ids": json.dumps([row[0] for row in robin.chosen]), "now": finish.now}
    stale = connection.execute(_SQL["stale"], parameters).fetchall()
    ids = {row["id"] for row in stale}
    robin.chosen = [row for row in robin.chosen if row[0] not in ids]
    changes = _channel.ChannelChanges()
    for row in stale:
        changes.add(row["channel"], size=-1, leased=-row["limited"])  # as its visit has counted it
    finish.end("expired", sorted(ids))
    if queue["has_channels"]:
        changes.write(connection, queue["id"])


def _lease(
    connection: Connection, queue: Queue, ids: Sequence[int], lease_ms: int, now: int
) -> None:
    """The leases of what was chosen."""
    connection.execute(*among(_SQL["lease"], (now + lease_ms, now), ids))
    limits = _queue_limits.of(connection, queue, now)
    if limits is not None:
        limits.take(len(ids))
    if queue["events"] == "all":
        _events.note(connection, queue, "leased", ids, now)
