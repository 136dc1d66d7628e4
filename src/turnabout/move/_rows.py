"""What a row of the file is as a row of PostgreSQL: columns, kinds, and one number for all of it.

The columns are those of both stores' migrations; a test compares, so that a new one cannot be left
behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from turnabout.move._source import Row
from turnabout.words.policy import PAUSE_COLUMNS, POLICY_COLUMNS, SETTINGS_COLUMNS

Queues = Mapping[int, int]
"""The number of a queue here, by its number in the file."""

MESSAGE = (
    *("id", "at", "sent_at", "leased_at", "queue_id", "attempt", "failures", "crashes"),
    *("delivered_before", "priority", "channel", "content_type", "headers", "payload", "state"),
    *("first_error", "last_error", "origin", "expires_at", "cancel_requested"),
)
LEASE = ("queue_id", "id", "attempt", "at", "leased_at")
HISTORY = (
    *("id", "sent_at", "leased_at", "finished_at", "queue_id", "attempt", "failures", "crashes"),
    *("outcome", "channel", "error", "result", "result_type", "payload", "content_type", "headers"),
    "xid",
)
EVENT = ("seq", "at", "message_id", "due_at", "queue_id", "attempt", "kind", "channel", "xid")
CHANNEL = (
    *("queue_id", "name", *POLICY_COLUMNS, *PAUSE_COLUMNS, "own"),
    *("rate_tat_us", "rate_depth_us"),
)
DEDUP = ("queue_id", "scope", "key", "message_id", "until_ms")
SCHEDULE = (
    *("name", "queue", "template", "payload", "cron", "zone", "every_ms", "anchor", "at"),
    *("missed", "overlap", "gap", "fold", "paused"),
    *("next_at", "last_at", "last_id", "sent", "refused"),
)
REDRIVE = (
    *("id", "queue_id", "queue", "target", "channel", "died_from", "died_until", "error"),
    *("ids", "started_by", "per_second", "max_redrives", "state", "moved", "skipped"),
    *("last_id", "next_at", "created_at", "finished_at"),
)
NAMESPACE = (
    *("name", "max_messages", "max_bytes", "requests_per_second", "max_queues", "max_policies"),
    *("max_schedules", "max_history_bytes", "max_polls", "weight", "created_at"),
)
TOKEN = (
    *("id", "digest", "namespace", "label", "scopes", "created_at", "expires_at", "revoked_at"),
)
SINK_BATCH = ("sink", "batch", "messages", "published_at")
TALLY = ("queue_id", "sent", "done", "dead", "cancelled", "expired")
QUEUE_LIMIT = ("queue_id", "rate_tat_us", "rate_depth_us")
QUEUE = (*SETTINGS_COLUMNS, "created_at")

_FLAGS = frozenset({"cancel_requested", "paused", "own", "fifo", "history_payload"})
_OUTCOMES = {"done": 1, "dead": 2, "cancelled": 3, "expired": 4}
_LEASED = 2


def message(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A message, without its lease: that is a `lease` there, which begins when this is attempt
    `attempt + 1`.
    """
    is_leased = row["status"] == _LEASED
    return row_of(
        MESSAGE,
        row,
        queues,
        at=None if is_leased else row["at"] or None,
        leased_at=None if is_leased else row["leased_at"],
        attempt=row["attempt"] - is_leased,
    )


def history(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A finished message."""
    # A message can end twice in a millisecond: there the transaction tells which came later.
    return row_of(HISTORY, row, queues, outcome=_OUTCOMES[row["outcome"]], xid=row["seq"])


def channel(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A channel's policy and its bucket."""
    limits = (*POLICY_COLUMNS, "paused_until")
    own = bool(row["paused"]) or any(row[column] is not None for column in limits)
    bucket = {"rate_tat_us": row["tat_us"], "rate_depth_us": row["depth_us"]}
    return row_of(CHANNEL, row, queues, own=own, **bucket)


def redrive(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A redrive; 0 stands for a queue that is gone."""
    ids = None if row["ids"] is None else json.loads(row["ids"])
    return row_of(REDRIVE, row, queue_id=queues.get(row["queue_id"], 0), ids=ids)


def tally(row: Row, queue: int) -> tuple[Any, ...]:
    """The counts of a queue. The file counts what has expired as cancelled, too."""
    return row_of(TALLY, row, queue_id=queue, cancelled=row["cancelled"] - row["expired"])


def queue_limit(row: Row, queue: int) -> tuple[Any, ...]:
    """The bucket of a queue with limits of its own. Its slots are counted there."""
    depth = (row["queue_rate_burst"] or 0) * (row["queue_rate_interval_us"] or 0)
    return row_of(
        QUEUE_LIMIT, row, queue_id=queue, rate_tat_us=row["queue_tat_us"], rate_depth_us=depth
    )


def checksum(row: tuple[Any, ...]) -> int:
    """A number for a message as `message` makes it; those of a queue are added up.

    The same as the statement `checksums`, and to be changed with it.
    """
    parts = [str(row[place]) for place in _SUMMED if row[place] is not None]
    parts += [_md5(row[_PAYLOAD]), _md5(row[_CHANNEL].encode())]
    return int(_md5("|".join(parts).encode())[:12], 16)


_SUMMED = [
    MESSAGE.index(name)
    for name in ("id", "at", "attempt", "priority", "failures", "crashes", "sent_at")
]
_PAYLOAD, _CHANNEL = MESSAGE.index("payload"), MESSAGE.index("channel")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def row_of(
    columns: tuple[str, ...], row: Row, queues: Queues | None = None, **instead: Any
) -> tuple[Any, ...]:
    """The columns of a row; with the queue's number here, and other values for some."""
    if queues is not None:
        instead["queue_id"] = queues[row["queue_id"]]
    return tuple(
        [_converted(name, instead[name] if name in instead else row[name]) for name in columns]
    )


def _converted(column: str, value: Any) -> Any:
    """A text of SQLite may hold a NUL; its flags are numbers."""
    if type(value) is str:
        return value.replace("\x00", "\\x00")
    return bool(value) if type(value) is int and column in _FLAGS else value
