"""Receive: timers, wakes, channels in turn, leases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _channel, _finish, _queue
from penstock.sqlite.procedures._turns import Turns
from penstock.words.entities import Delivery
from penstock.words.outcomes import Received
from penstock.words.verbs import Receive

_SQL = statements("receive")


def receive(connection: Connection, verb: Receive, now: int) -> Received:
    """Lease what is ready, the channels in turn; nothing: say when to ask again."""
    queue = _queue.need(connection, verb.queue)
    _turn_timers(connection, queue, now, most=2 * verb.max_messages + 100)
    if not queue["paused"]:
        lease_ms = queue["lease_ms"] if verb.lease_ms is None else verb.lease_ms
        turns = Turns(connection, queue, verb, now, lease_ms)
        turns.choose()
        if turns.chosen:
            return Received(_lease(connection, turns, lease_ms, now), turn=turns.turn)
    (due_at,) = connection.execute(_SQL["next_timer"], {"queue": queue["id"]}).fetchone()
    return Received((), None if due_at is None else max(0, due_at - now))


def _turn_timers(connection: Connection, queue: sqlite3.Row, now: int, most: int) -> None:
    """What is due becomes ready, leases that ran out are charged, sleepers wake: a share."""
    about = {"queue": queue["id"], "now": now, "most": most}
    due, expired, sleepers = connection.execute(_SQL["timers"], about).fetchone()
    changes = _channel.Changes()
    if due:
        for channel, is_limited in connection.execute(_SQL["due"], about).fetchall():
            about["most"] -= 1
            if is_limited:
                changes.add(channel)
    if expired and about["most"]:
        rows = connection.execute(_SQL["expired"], about).fetchall()
        about["most"] -= len(rows)
        _charge_crashes(connection, queue, rows, changes, now)
    changes.write(connection, queue["id"])
    if sleepers and about["most"]:
        connection.execute(_SQL["wake"], about)


def _charge_crashes(
    connection: Connection,
    queue: sqlite3.Row,
    rows: Sequence[sqlite3.Row],
    changes: _channel.Changes,
    now: int,
) -> None:
    """A lease that ran out costs an attempt. The message is ready again, or dead."""
    deaths: list[_finish.Death] = []
    alive: list[int] = []
    for row in rows:
        failures, crashes = row["failures"], row["crashes"] + 1
        dies = queue["max_attempts"] is not None and failures + crashes >= queue["max_attempts"]
        if dies:
            deaths.append(_finish.Death(row, "crashes", failures, crashes, row["last_error"]))
        else:
            alive.append(row["id"])
        if row["limited"]:
            changes.add(row["channel"], size=-1 if dies else 0, leased=-1)
    connection.execute(_SQL["crash"], {"ids": json.dumps(alive)})
    _finish.bury(connection, queue, deaths, now)


def _lease(connection: Connection, turns: Turns, lease_ms: int, now: int) -> tuple[Delivery, ...]:
    ids = json.dumps([row[0] for row in turns.chosen])
    about = {"ids": ids, "lease_until": now + lease_ms, "lease_ms": lease_ms, "now": now}
    connection.execute(_SQL["lease"], about)
    rows = turns.chosen if turns.are_whole else connection.tuples(_SQL["leased"], about)
    return tuple(map(Delivery._make, rows))
