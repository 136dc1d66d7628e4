"""Steps on the receipts of recorded epochs that the pipeline's verbs share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnabout.pipeline.sqlite.statements import statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _queue

SQL = statements("epoch")
"""The steps of epoch.sql."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A part of an epoch: messages of one queue."""

    subscription: int
    epoch: int
    part: int
    queue_id: int
    queue: str
    messages: int

    @property
    def about(self) -> dict[str, Any]:
        """For the steps on a part."""
        return {
            "id": self.subscription,
            "epoch": self.epoch,
            "part": self.part,
            "queue": self.queue_id,
        }


def epochs(connection: Connection, row: sqlite3.Row, *, after: int, upto: int) -> list[int]:
    """The recorded epochs of a subscription in that range, in order."""
    about = {"id": row["id"], "after": after, "upto": upto}
    return [epoch for (epoch,) in connection.execute(SQL["epochs"], about)]


def parts(connection: Connection, row: sqlite3.Row, epoch: int) -> list[Parted]:
    """The parts of an epoch."""
    found = connection.execute(SQL["parts"], {"id": row["id"], "epoch": epoch})
    return [Parted(row["id"], epoch, *part) for part in found.fetchall()]


def held(connection: Connection, part: Parted) -> list[tuple[int, int]]:
    """Those of a part's receipts that hold, in order."""
    return connection.tuples(SQL["held"], part.about) if is_there(connection, part) else []


def is_there(connection: Connection, part: Parted) -> bool:
    """Whether the queue is the one that the messages were leased from."""
    queue = _queue.find(connection, part.queue)
    return queue is not None and queue["id"] == part.queue_id


def extend(connection: Connection, part: Parted, until: int) -> int:
    """Its leases run on; how many still do."""
    return connection.execute(SQL["extend"], {**part.about, "until": until}).rowcount


def drop(connection: Connection, subscription: int, epoch: int) -> None:
    """The epoch is recorded no longer."""
    for step in ("drop_messages", "drop_parts", "drop_epoch"):
        connection.execute(SQL[step], {"id": subscription, "epoch": epoch})


def record(
    connection: Connection,
    subscription: int,
    epoch: int,
    cut: Sequence[tuple[int, str, Sequence[int]]],
) -> None:
    """The parts of an epoch: queue and leased messages of each."""
    for part, (queue_id, queue, ids) in enumerate(cut):
        about = {"id": subscription, "epoch": epoch, "part": part, "queue_id": queue_id}
        about |= {"name": queue, "messages": len(ids), "ids": json.dumps(ids)}
        connection.execute(SQL["add_part"], about)
        connection.execute(SQL["add_messages"], about)
