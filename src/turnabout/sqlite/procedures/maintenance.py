"""Maintain: a bounded share of housekeeping; and in which queues there is any."""

from __future__ import annotations

import json
from typing import Any

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _floor, _queue
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures.inbox import drain
from turnabout.sqlite.procedures.receive import turn_timers
from turnabout.sqlite.procedures.redrives import redrive_step
from turnabout.words import limits
from turnabout.words.administration import QueuesDue
from turnabout.words.verbs import Maintain, RedriveStep

_SQL, _DUE = statements("maintain"), statements("queues_due")
_ROWS = 10_000
_ENTRIES = 1_000
_SLACK_MS = 10_000  # others' readings of the clock may be somewhat newer
_EVENTS_MS = 86_400_000


def maintain(connection: Connection, verb: Maintain, now: int) -> None:
    """Send what is in the inbox, turn the timers, sweep what is old, take a step of each redrive,
    drop the rows of channels that nobody needs. Writes nothing when there is nothing to do.
    """
    drain(connection, verb, now)
    queue = _queue.find(connection, verb.queue)
    if queue is None:
        return
    _clamp(connection, queue, {"queue": queue["id"], "now": now, "latest": now + _SLACK_MS})
    turn_timers(connection, queue, now, most=_ROWS)
    common: dict[str, Any] = {"queue": queue["id"], "now": now, "most": _ROWS}
    _sweep_history(connection, queue, common, now)
    _sweep_events(connection, common, now)
    _sweep_dedup(connection, common)
    if queue["has_channels"]:
        idle = connection.execute(_SQL["idle"], {**common, "now_us": now * 1000}).fetchall()
        if idle:
            names = json.dumps([row["name"] for row in idle], ensure_ascii=False)
            connection.execute(_SQL["drop"], {**common, "names": names})
    # Hardly anybody receives from a dead-letter queue: its redrives go on from here, too.
    parameters = {**common, "dead": queue["dead_letter_id"]}
    for (redrive,) in connection.execute(_SQL["redrives"], parameters).fetchall():
        redrive_step(connection, RedriveStep(redrive), now)


def queues_due(connection: Connection, verb: QueuesDue, now: int) -> tuple[str, ...]:
    """Some of the queues in which `maintain` has something to do."""
    parameters = {"now": now, "most": verb.limit, "none": limits.ID_MAX}
    found = connection.execute(_DUE["by_old_rows" if verb.old else "by_timers"], parameters)
    return tuple([name for (name,) in found.fetchall()])


def _clamp(connection: Connection, queue: Queue, parameters: dict[str, Any]) -> None:
    """Instants that lie further ahead than they can be, since the file's time followed a clock that
    was set back by days.
    """
    if connection.execute(_SQL["leases_ahead"], parameters).fetchone()[0]:
        connection.execute(_SQL["leases_back"], parameters)
    connection.execute(_SQL["debts_back"], parameters)
    if queue["has_own_limits"]:
        connection.execute(_SQL["debt_back"], parameters)
    waits = 0 if queue["fifo"] else 1
    if (
        connection.execute(_SQL["delays_back"], {**parameters, "waits": waits}).rowcount
        and not waits
    ):
        connection.execute(_SQL["heads_back"], parameters)


def _sweep_history(connection: Connection, queue: Queue, common: dict[str, Any], now: int) -> None:
    done_ms, failed_ms = queue["history_ms"], queue["history_failed_ms"]
    parameters = {**common, "swept": queue["swept"], "before": now - done_ms}
    (upto,) = connection.execute(_SQL["done_to"], parameters).fetchone()
    if upto is not None and upto > queue["swept"]:
        parameters["upto"] = upto
        (last,) = connection.execute(_SQL["last_done"], parameters).fetchone()
        connection.execute(_SQL["sweep_done"], parameters)
        connection.execute(_SQL["swept"], {**common, "upto": upto})
        _floor.raise_to(connection, queue["id"], last)
    parameters["before"] = now - (done_ms if failed_ms is None else failed_ms)
    if connection.execute(_SQL["any_failed"], parameters).fetchone()[0]:
        (last,) = connection.execute(_SQL["last_failed"], parameters).fetchone()
        connection.execute(_SQL["sweep_failed"], parameters)
        _floor.raise_to(connection, queue["id"], last)


def _sweep_events(connection: Connection, common: dict[str, Any], now: int) -> None:
    parameters = {**common, "before": now - _EVENTS_MS}
    (upto,) = connection.execute(_SQL["old_events"], parameters).fetchone()
    if upto is not None:
        connection.execute(_SQL["sweep_events"], {**parameters, "upto": upto})


def _sweep_dedup(connection: Connection, common: dict[str, Any]) -> None:
    """Windows that are over (where the message is there the entry stays, and counts for the modes
    that ask about the message), and some of the entries whose message has ended: those from a place
    on that is chosen by chance, so that no stretch of long-lived messages is in the way for ever.
    """
    parameters = {**common, "most": _ENTRIES}
    over, least, most = connection.execute(_SQL["any_dedup"], parameters).fetchone()
    if over:
        found = connection.execute(_SQL["windows_over"], parameters).fetchall()
        for step, is_there in (("sweep_entry", 0), ("without_window", 1)):
            rows = [(common["queue"], row[0], row[1]) for row in found if row[2] == is_there]
            connection.executemany(_SQL[step], rows)
    if least is None:
        return
    parameters["first"] = max(least, connection.random.randint(least - _ENTRIES, most))
    ended = connection.execute(_SQL["ended_dedup"], parameters).fetchall()
    if ended:
        rows = [(common["queue"], scope, key) for scope, key in ended]
        connection.executemany(_SQL["sweep_entry"], rows)
