"""Steps on a queue's row that many procedures share."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, cast

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.words.entities import QueueEntry
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.words.limits import DEAD_SUFFIX, shown
from turnabout.words.policy import POLICY_COLUMNS, QueueSettings, settings_of, settings_row

SQL = statements("queue")
_ENDED = ("done", "dead", "cancelled", "expired")
_COUNTS = ("id", "version", "sent", "ids_until", "mixed", *_ENDED, "swept", "has_channels")
_REMEMBERED = 1_000
_BLOCK = 1_000

Queue = Mapping[str, Any]
"""A queue's row as it is now, and besides, whether it `has_channels` that are limited, whether it
`is_limited`: all of them are, whether it `has_own_limits` over all of them, and whether it
`is_plain`: no send can be refused, no event be noted, and no lease be counted."""


def find(connection: Connection, name: str) -> Queue | None:
    """The queue's row. Its settings are read again only when they have changed, as Python's sqlite3
    names all columns of each answer anew. Versions are random, as a rollback takes one back.
    """
    now = connection.execute(SQL["counts"], {"name": name}).fetchone()
    if now is None:
        return None
    id_, version, *_ = now
    row = connection.rows.get(name)
    if row is None or row["version"] != version or row["id"] != id_:
        row = dict(connection.execute(SQL["find"], {"name": name}).fetchone())
        row["is_limited"] = is_limited(row)
        row["has_own_limits"] = not (
            row["queue_max_concurrency"] is None is row["queue_rate_count"]
        )
        row["is_plain"] = not (
            row["is_limited"]
            or row["max_messages"] is not None
            or row["events"] == "all"
            or row["has_own_limits"]
        )
        if len(connection.rows) == _REMEMBERED:
            connection.rows.clear()
        connection.rows[name] = row
    row["has_channels"] = now[-1]
    found = row.copy()
    found.update(zip(_COUNTS, now, strict=True))
    return found


def known(connection: Connection, name: str) -> Queue | None:
    """The queue's row as it was when it was last read, its counts out of date. Who acts on it has
    to see, in a statement that is needed anyway, whether its `version` still is the same, and
    whether it still has no limited channels.
    """
    return connection.rows.get(name)


def be_here(connection: Connection) -> None:
    """Raise what a file says whose queues were moved, for verbs that look at none of them."""
    connection.execute(SQL["here"])


def need(connection: Connection, name: str) -> Queue:
    """The queue's row, or QueueNotFound."""
    row = find(connection, name)
    if row is None:
        raise QueueNotFound(name)
    return row


def next_ids(connection: Connection, queue: Queue, count: int, step: str = "last_id") -> range:
    """The ids of messages that are sent now: inserted under them, they are given and counted. By
    the step `last_id_if_plain` none, where the row is out of date, or a channel is limited.
    """
    found = connection.execute(SQL[step], {"queue": queue["id"], "version": queue["version"]})
    if (row := found.fetchone()) is None:
        return range(0)
    last, until = row
    if last + count > until:
        block = {"n": max(count, _BLOCK)}
        (until,) = connection.execute(SQL["take_block"], block).fetchone()
        connection.execute(SQL["use_block"], {**block, "until": until, "queue": queue["id"]})
        last = until - block["n"]
    return range(last + 1, last + 1 + count)


def leaving(queue: Queue, ids: Sequence[int]) -> dict[str, int]:
    """Parameters of a count of messages that leave the queue: none of its own ids among theirs is
    given again. Those of messages from other queues are of other blocks.
    """
    last = max([id_ for id_ in ids if id_ <= queue["ids_until"]], default=0)
    return {"n": len(ids), "last": last, "queue": queue["id"]}


def unfinished(row: Queue | sqlite3.Row) -> int:
    """Count the queue's unfinished messages."""
    return row["sent"] - row["done"] - row["dead"] - row["cancelled"]


def is_limited(row: Queue | sqlite3.Row) -> bool:
    """Whether every channel of the queue is limited: FIFO, or a default policy."""
    return bool(row["fifo"]) or any(row[column] is not None for column in POLICY_COLUMNS)


def make(connection: Connection, name: str, chosen: QueueSettings | None, now: int) -> int:
    """A new queue, and its dead-letter queue if that is missing. Chosen None: the defaults."""
    queue = _add(connection, name, chosen or _default_settings(name), now)
    if chosen is not None and chosen.dead_letter is not None:
        target = chosen.dead_letter
    elif name.endswith(DEAD_SUFFIX):
        return queue  # nothing comes after death
    else:
        target = name + DEAD_SUFFIX
    target_id = dead_letter_id(connection, queue, target, now)
    connection.execute(SQL["set_dead_letter"], {"id": queue, "dead_letter_id": target_id})
    return queue


def dead_letter_id(connection: Connection, queue: int, target: str, now: int) -> int:
    """The id of a dead-letter queue, made if missing.

    Raises: UsageError if dead messages would come back to the queue they died in.
    """
    row = find(connection, target)
    if row is None:
        return _add(connection, target, _dead_settings(), now)
    seen = row["id"]
    while seen is not None:
        if seen == queue:
            raise UsageError(
                f"{shown(target)} cannot be the dead-letter queue: "
                "its own dead messages would come back here"
            )
        seen = connection.execute(SQL["dead_letter_of"], {"id": seen}).fetchone()[0]
    return row["id"]


def entry(row: sqlite3.Row) -> QueueEntry:
    """The entity of a row that carries `dead_letter_name`."""
    times = row["created_at"], row["modified_at"]
    return QueueEntry(row["name"], settings(row), row["dead_letter_name"], *times)


def settings(row: Queue | sqlite3.Row) -> QueueSettings:
    """The settings in a queue's row."""
    return settings_of(cast("Mapping[str, Any]", row))  # a Row answers to names as a mapping does


def _add(connection: Connection, name: str, chosen: QueueSettings, now: int) -> int:
    row = {**settings_row(chosen), "name": name, "created_at": now}
    queue = connection.execute(SQL["add"], row).lastrowid
    assert queue is not None
    return queue


def _default_settings(name: str) -> QueueSettings:
    return _dead_settings() if name.endswith(DEAD_SUFFIX) else QueueSettings()


def _dead_settings() -> QueueSettings:
    """A dead-letter queue keeps its messages until somebody ends them."""
    return QueueSettings(max_attempts=None)
