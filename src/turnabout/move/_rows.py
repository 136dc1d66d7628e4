"""Rows of the file as rows of PostgreSQL.

What has the same name on both sides is copied; here is what differs. A test names all columns that
are on one side only, so that a new one cannot be left behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from sqlite3 import Row
from typing import Any

from turnabout.words.policy import POLICY_COLUMNS

Queues = Mapping[int, int]
"""The number of a queue there, by its number in the file."""
Maker = Callable[[Row], Any]
Made = dict[str, Maker]
"""Columns that are not simply copied, and what makes each."""
Converter = Callable[[Row], tuple[Any, ...]]

_OUTCOMES = {"done": 1, "dead": 2, "cancelled": 3, "expired": 4}
_LEASED = 2
_SUMMED = ("id", "at", "attempt", "priority", "failures", "crashes", "sent_at")


def made(table: str, queues: Queues, xid: str) -> Made:
    """The columns of a table that are not simply copied."""
    queue_id: Made = {"queue_id": lambda row: queues[row["queue_id"]]}
    of_the_queue: Made = {"queue_id": lambda row: queues[row["id"]]}
    found: dict[str, Made] = {
        "queue": {
            "id": lambda row: queues[row["id"]],
            "dead_letter": lambda row: row["dead_letter_name"],
        },
        # The file counts what has expired as cancelled, too.
        "tally": {**of_the_queue, "cancelled": lambda row: row["cancelled"] - row["expired"]},
        "queue_limit": {
            **of_the_queue,
            "rate_tat_us": lambda row: row["queue_tat_us"],
            "rate_depth_us": lambda row: (
                (row["queue_rate_burst"] or 0) * (row["queue_rate_interval_us"] or 0)
            ),
        },
        "channel": {
            **queue_id,
            "own": _has_policy,
            "rate_tat_us": lambda row: row["tat_us"],
            "rate_depth_us": lambda row: row["depth_us"],
            "wake_at": lambda _: None,  # it is awake: the next receive sees when to look again
        },
        # A lease is a row of its own there, and begins when this is attempt `attempt + 1`.
        "message": {
            **queue_id,
            "at": lambda row: None if is_leased(row) else row["at"] or None,
            "leased_at": lambda row: None if is_leased(row) else row["leased_at"],
            "attempt": lambda row: row["attempt"] - is_leased(row),
        },
        # A message can end twice in a millisecond: there the transaction tells which came later.
        "history": {
            **queue_id,
            "outcome": lambda row: _OUTCOMES[row["outcome"]],
            "xid": lambda row: row["seq"],
        },
        "event": {**queue_id, "xid": lambda _: xid},
        "redrive": {
            "queue_id": lambda row: queues.get(row["queue_id"], 0),  # 0: the queue is gone
            "ids": lambda row: None if row["ids"] is None else json.loads(row["ids"]),
        },
        "dedup": queue_id,
    }
    return found.get(table, {})


def is_leased(row: Row) -> bool:
    """Whether a message is leased."""
    return row["status"] == _LEASED


def _has_policy(row: Row) -> bool:
    return bool(row["paused"]) or any(
        row[column] is not None for column in (*POLICY_COLUMNS, "paused_until")
    )


def converter(columns: Iterable[str], made: Made) -> Converter:
    """Make a function from a row of the file to one of these columns."""
    makers = [(name, made.get(name)) for name in columns]
    return lambda row: tuple([_text(make(row) if make else row[name]) for name, make in makers])


def _text(value: Any) -> Any:
    """A text of SQLite may hold a NUL, one of PostgreSQL may not."""
    return value.replace("\x00", "\\x00") if type(value) is str else value


def summer(columns: list[str]) -> Callable[[tuple[Any, ...]], int]:
    """Make a function from a message to one number; those of a queue are added up.

    The same as the statement `checksums`, and to be changed with it.
    """
    places = [columns.index(name) for name in _SUMMED]
    payload, channel = columns.index("payload"), columns.index("channel")

    def checksum(row: tuple[Any, ...]) -> int:
        parts = [str(row[place]) for place in places if row[place] is not None]
        parts += [_md5(row[payload]), _md5(row[channel].encode())]
        return int(_md5("|".join(parts).encode())[:12], 16)

    return checksum


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
