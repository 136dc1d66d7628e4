"""How messages end: with a row of history, or by moving to the dead-letter queue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from penstock.sqlite._connection import Connection
from penstock.sqlite._statements import statements
from penstock.sqlite.procedures import _channel, _queue

SQL = statements("finish")


@dataclass(frozen=True, slots=True)
class Death:
    """A message that dies, as it was, and what its last attempt came to."""

    row: sqlite3.Row
    reason: Literal["attempts", "refused", "crashes"]
    failures: int
    crashes: int
    error: str | None


def end(
    connection: Connection,
    queue: sqlite3.Row,
    outcome: Literal["done", "cancelled"],
    ids: Sequence[int],
    now: int,
) -> None:
    """These messages have ended. Their channels are the caller's affair.

    Once per reading of the queue's row, which counts the ended ones.
    """
    if not ids:
        return
    about = {"ids": json.dumps(ids), "outcome": outcome, "now": now}
    if queue["history_ms"]:
        connection.execute(SQL["keep"], {**about, "after": _finished(queue)})
    connection.execute(SQL["drop"], about)
    connection.execute(_queue.SQL[f"count_{outcome}"], {"n": len(ids), "queue": queue["id"]})


def bury(
    connection: Connection, queue: sqlite3.Row, deaths: Sequence[Death], now: int
) -> str | None:
    """These messages have died: they move to the dead-letter queue, or end. Its name, if any.

    Once per reading of the queue's row, which counts the ended ones.
    """
    if not deaths:
        return None
    ids = [death.row["id"] for death in deaths]
    if queue["history_ms"]:
        after = _finished(queue)
        connection.executemany(
            SQL["keep_dead"],
            [
                (after + place, death.failures, death.crashes, now, death.error, death.row["id"])
                for place, death in enumerate(deaths, 1)
            ],
        )
    connection.execute(_queue.SQL["count_dead"], {"n": len(ids), "queue": queue["id"]})
    if queue["dead_letter_id"] is None:
        connection.execute(SQL["drop"], {"ids": json.dumps(ids)})
        return None
    (name,) = connection.execute(_queue.SQL["name"], {"id": queue["dead_letter_id"]}).fetchone()
    _move(connection, queue, _queue.need(connection, name), deaths, now)
    connection.news.add(name)
    return name


def _move(
    connection: Connection,
    queue: sqlite3.Row,
    target: sqlite3.Row,
    deaths: Sequence[Death],
    now: int,
) -> None:
    limited = _channel.limited(connection, target, {death.row["channel"] for death in deaths})
    changes = _channel.Changes()
    moved: list[tuple[Any, ...]] = []
    for death in deaths:
        channel = death.row["channel"]
        origin = _origin(queue["name"], death, now)
        moved.append((target["id"], channel in limited, origin, death.row["id"]))
        if channel in limited:
            changes.add(channel, size=1)
    connection.executemany(SQL["move"], moved)
    changes.write(connection, target["id"])
    connection.execute(_queue.SQL["count_sent"], {"n": len(deaths), "queue": target["id"]})


def _origin(queue: str, death: Death, now: int) -> str:
    first = death.row["first_error"]
    return json.dumps(
        {
            "queue": queue,
            "reason": death.reason,
            "failures": death.failures,
            "crashes": death.crashes,
            "died_at": now,
            "first_error": death.error if first is None else first,
            "last_error": death.error,
        },
        ensure_ascii=False,
    )


def _finished(queue: sqlite3.Row) -> int:
    """How many messages of the queue have ended: the place of the last one in the history."""
    return queue["done"] + queue["dead"] + queue["cancelled"]
