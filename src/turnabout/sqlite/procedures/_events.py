"""Events that verbs record in queues whose `events` are `all`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.limits import FOREVER_MS
from turnabout.words.records import EventKind

_SQL = statements("event")
_DUE = frozenset(("created", "leased", "deferred", "failed"))


def note(
    connection: Connection, queue: Queue, kind: EventKind, ids: Sequence[int], now: int
) -> None:
    """An event for each of these messages, which still are as the event leaves them, or found them
    if it ends them. Nothing, unless the queue wants it.
    """
    if queue["events"] != "all" or not ids:
        return
    parameters = {"ids": json.dumps(list(ids)), "kind": kind, "due": kind in _DUE}
    connection.execute(_SQL["note"], {**parameters, "now": now, "never": FOREVER_MS})
    connection.to_notify.add(queue["name"])
