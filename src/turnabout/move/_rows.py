"""What a row of the file is as a row of PostgreSQL: columns, kinds, and one number for all of it.

The columns are those of both stores' migrations; a test compares, so that a new one cannot be left
behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from turnabout.move._source import Row
from turnabout.words.policy import POLICY_COLUMNS, SETTINGS_COLUMNS

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
    *("queue_id", "name", *POLICY_COLUMNS, "paused", "pause_reason", "own"),
    *("rate_tat_us", "rate_depth_us"),
)
DEDUP = ("queue_id", "scope", "key", "message_id", "until_ms")
SCHEDULE = (
    *("name", "queue", "template", "payload", "cron", "zone", "every_ms", "anchor", "at"),
    *(
        "missed",
        "overlap",
        "gap",
        "fold",
        "paused",
        "next_at",
        "last_at",
        "last_id",
        "sent",
        "refused",
    ),
)
REDRIVE = (
    *("id", "queue_id", "queue", "target", "channel", "died_from", "died_until", "error"),
    *(
        "ids",
        "started_by",
        "per_second",
        "max_redrives",
        "state",
        "moved",
        "skipped",
        "last_id",
        "next_at",
    ),
    *("created_at", "finished_at"),
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
    queue_id, is_leased = queues[row["queue_id"]], row["status"] == _LEASED
    return _row(
        MESSAGE,
        row,
        queue_id=queue_id,
        at=None if is_leased else row["at"] or None,
        leased_at=None if is_leased else row["leased_at"],
        attempt=row["attempt"] - is_leased,
    )


def lease(row: Row, queues: Queues) -> tuple[Any, ...]:
    """The lease of one message."""
    return _row(LEASE, row, queue_id=queues[row["queue_id"]])


def history(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A finished message."""
    queue_id, outcome = queues[row["queue_id"]], _OUTCOMES[row["outcome"]]
    # A message can end twice in a millisecond: there the transaction tells which came later.
    return _row(HISTORY, row, queue_id=queue_id, outcome=outcome, xid=row["seq"])


def event(row: Row, queues: Queues, xid: str) -> tuple[Any, ...]:
    """An event, with the number that it has in the file, in the transaction that began the move."""
    return _row(EVENT, row, queue_id=queues[row["queue_id"]], xid=xid)


def channel(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A channel's policy and its bucket."""
    own = bool(row["paused"]) or any(row[column] is not None for column in POLICY_COLUMNS)
    bucket = {"rate_tat_us": row["tat_us"], "rate_depth_us": row["depth_us"]}
    return _row(CHANNEL, row, queue_id=queues[row["queue_id"]], own=own, **bucket)


def dedup(row: Row, queues: Queues) -> tuple[Any, ...]:
    """An entry of dedup."""
    return _row(DEDUP, row, queue_id=queues[row["queue_id"]])


def schedule(row: Row) -> tuple[Any, ...]:
    """A schedule."""
    return _row(SCHEDULE, row)


def redrive(row: Row, queues: Queues) -> tuple[Any, ...]:
    """A redrive; 0 stands for a queue that is gone."""
    ids = None if row["ids"] is None else json.loads(row["ids"])
    return _row(REDRIVE, row, queue_id=queues.get(row["queue_id"], 0), ids=ids)


def namespace(row: Row) -> tuple[Any, ...]:
    """A namespace with its quotas."""
    return _row(NAMESPACE, row)


def token(row: Row) -> tuple[Any, ...]:
    """A token."""
    return _row(TOKEN, row)


def tally(row: Row, queue: int) -> tuple[Any, ...]:
    """The counts of a queue. The file counts what has expired as cancelled, too."""
    return _row(TALLY, row, queue_id=queue, cancelled=row["cancelled"] - row["expired"])


def queue_limit(row: Row, queue: int) -> tuple[Any, ...]:
    """The bucket of a queue with limits of its own. Its slots are counted there."""
    depth = (row["queue_rate_burst"] or 0) * (row["queue_rate_interval_us"] or 0)
    return _row(
        QUEUE_LIMIT, row, queue_id=queue, rate_tat_us=row["queue_tat_us"], rate_depth_us=depth
    )


def settings(row: Row, dead_letter: str | None) -> tuple[Any, ...]:
    """The settings of a queue, with the real name of its dead-letter queue."""
    return _row(QUEUE, row, dead_letter=dead_letter)


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


def _row(columns: tuple[str, ...], row: Row, **instead: Any) -> tuple[Any, ...]:
    """The columns of a row, with other values for some. A text of SQLite may hold a NUL."""
    found: list[Any] = []
    for column in columns:
        value = instead[column] if column in instead else row[column]
        found.append(_CONVERT[type(value)](column, value))
    return tuple(found)


def _whole(column: str, value: Any) -> Any:
    return bool(value) if column in _FLAGS else value


def _text(_: str, value: Any) -> Any:
    return cast("str", value).replace("\x00", "\\x00") if "\x00" in value else value


def _same(_: str, value: Any) -> Any:
    return value


_CONVERT: Mapping[type[Any], Callable[[str, Any], Any]] = {
    int: _whole,
    bool: _same,
    str: _text,
    bytes: _same,
    float: _same,
    type(None): _same,
}
