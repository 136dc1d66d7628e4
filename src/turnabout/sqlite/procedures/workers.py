"""Workers of a queue: what they say of themselves."""

from __future__ import annotations

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _queue
from turnabout.words.verbs import WorkerList, WorkerReport
from turnabout.words.workers import FORGOTTEN_MS, HEARD_MS, WorkerEntry, entries_of, kept_state

_REPORT = statements("worker_report")


def worker_report(connection: Connection, verb: WorkerReport, now: int) -> None:
    """Keep a report, or remove a worker that has ended; and those not heard of for long."""
    queue = _queue.need(connection, verb.queue)
    named = {"queue": queue["name"], "worker": verb.worker}
    if verb.state is None:
        connection.execute(_REPORT["end"], named)
        return
    report = {"now": now, "state": kept_state(verb.state)}
    connection.execute(_REPORT["keep"], named | report)
    connection.execute(_REPORT["drop"], {"before": now - FORGOTTEN_MS})


def worker_list(connection: Connection, verb: WorkerList, now: int) -> tuple[WorkerEntry, ...]:
    """The workers that have reported within a minute."""
    queue = _queue.need(connection, verb.queue)
    parameters = {"queue": queue["name"], "since": now - HEARD_MS}
    return entries_of(connection.execute(statements("worker_list")["list"], parameters))
