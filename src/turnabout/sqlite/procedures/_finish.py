"""How messages end: with a row of history, or by moving to the dead-letter queue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import among, statements
from turnabout.sqlite.procedures import _channel, _events, _queue
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.limits import FOREVER_MS
from turnabout.words.outcomes import Blocked, Dead
from turnabout.words.records import Result

SQL = statements("finish")


@dataclass(frozen=True, slots=True)
class Death:
    """A message that dies, as it was, and what its last attempt came to."""

    row: sqlite3.Row
    reason: Literal["attempts", "refused", "crashes", "channel"]
    failures: int
    crashes: int
    error: str | None


def blocks(queue: Queue) -> bool:
    """Whether a message without attempts left stays, and its channel waits for a person."""
    return queue["on_exhausted"] == "block"


class Finish:
    """Ends messages of a queue, in one verb: the only one that does, as it counts their places in
    the history on from the queue's row. Their channels are the caller's affair.
    """

    __slots__ = ("_after", "_connection", "now", "queue")

    def __init__(self, connection: Connection, queue: Queue, now: int) -> None:
        self._connection = connection
        self.queue = queue
        self.now = now
        self._after: int = queue["done"] + queue["dead"] + queue["cancelled"]

    def end(
        self,
        outcome: Literal["done", "cancelled", "expired"],
        ids: Sequence[int],
        results: Sequence[Result | None] = (),
        *,
        attempt: int | None = None,
    ) -> bool:
        """These messages have ended, with these results if they are done and have any.

        With an attempt: if all are leased at it, in channels without limits. False: some are not,
        and the caller has to undo it all.
        """
        if not ids:
            return True
        queue, connection = self.queue, self._connection
        _events.note(connection, queue, outcome, ids, self.now)
        if self._keeps(outcome):
            about = {"queue": queue["id"], "ids": json.dumps(ids), "outcome": outcome}
            connection.execute(SQL["keep"], {**about, "now": self.now, "after": self._after})
            self._keep_more(results)
        self._after += len(ids)
        if attempt is None:
            connection.execute(*among(SQL["drop"], (), ids))
        else:
            held = among(SQL["drop_held"], (), ids, (queue["id"], attempt))
            if connection.execute(*held).rowcount < len(ids):
                return False
        connection.execute(_queue.SQL[f"count_{outcome}"], {"n": len(ids), "queue": queue["id"]})
        connection.news.add(queue["name"])
        return True

    def bury(self, deaths: Sequence[Death]) -> Dead | Blocked:
        """These messages have no attempts left. What becomes of them is the queue's setting."""
        queue, connection = self.queue, self._connection
        if blocks(queue):
            self._block(deaths)
            return Blocked()
        if not deaths:
            return Dead(None)
        if queue["on_exhausted"] == "dead_letter_channel":
            deaths = [*deaths, *self._waiting_behind(deaths)]
        ids = [death.row["id"] for death in deaths]
        _events.note(connection, queue, "dead", ids, self.now)
        if self._keeps("dead"):
            self._keep_dead(deaths)
        self._after += len(ids)
        connection.execute(_queue.SQL["count_dead"], {"n": len(ids), "queue": queue["id"]})
        connection.news.add(queue["name"])
        target = queue["dead_letter_id"]
        if target is None or queue["on_exhausted"] == "drop":
            connection.execute(*among(SQL["drop"], (), ids))
            return Dead(None)
        (name,) = connection.execute(_queue.SQL["name"], {"id": target}).fetchone()
        moves = [(death.row["id"], death.row["channel"], self._origin(death)) for death in deaths]
        move(connection, _queue.need(connection, name), moves, self.now)
        return Dead(name)

    def _keeps(self, outcome: str) -> bool:
        """Whether the queue keeps history of such endings."""
        failed_ms = self.queue["history_failed_ms"]
        if outcome == "done" or failed_ms is None:
            return bool(self.queue["history_ms"])
        return bool(failed_ms)

    def _keep_more(self, results: Sequence[Result | None]) -> None:
        """What the rows just kept get beside the usual."""
        queue, connection = self.queue, self._connection
        if queue["history_payload"]:
            about = {"queue": queue["id"], "after": self._after}
            connection.execute(SQL["keep_payloads"], about)
        rows = [
            (result.data, result.content_type, queue["id"], self._after + place)
            for place, result in enumerate(results, 1)
            if result is not None
        ]
        if rows:
            connection.executemany(SQL["keep_result"], rows)

    def _keep_dead(self, deaths: Sequence[Death]) -> None:
        self._connection.executemany(
            SQL["keep_dead"],
            [
                (place, death.failures, death.crashes, self.now, death.error, death.row["id"])
                for place, death in enumerate(deaths, self._after + 1)
            ],
        )
        self._keep_more(())

    def _block(self, deaths: Sequence[Death]) -> None:
        rows: list[tuple[Any, ...]] = [
            (FOREVER_MS, death.failures, death.crashes, death.error, death.error, death.row["id"])
            for death in deaths
        ]
        self._connection.executemany(SQL["block"], rows)
        ids = [death.row["id"] for death in deaths]
        _events.note(self._connection, self.queue, "failed", ids, self.now)

    def _waiting_behind(self, deaths: Sequence[Death]) -> list[Death]:
        """All that waits in the channels of these messages dies with them."""
        found: list[Death] = []
        changes = _channel.Changes()
        for channel in {death.row["channel"] for death in deaths}:
            about = {"queue": self.queue["id"], "channel": channel}
            for row in self._connection.execute(SQL["waiting"], about):
                error = row["last_error"]
                found.append(Death(row, "channel", row["failures"], row["crashes"], error))
                changes.add(channel, size=-1)
        if self.queue["has_channels"]:
            changes.write(self._connection, self.queue["id"])
        return sorted(found, key=lambda death: death.row["id"])

    def _origin(self, death: Death) -> str:
        first = death.row["first_error"]
        earlier = death.row["origin"]
        story: dict[str, Any] = {
            "queue": self.queue["name"],
            "reason": death.reason,
            "failures": death.failures,
            "crashes": death.crashes,
            "died_at": self.now,
            "first_error": death.error if first is None else first,
            "last_error": death.error,
        }
        if earlier is not None and (redrives := json.loads(earlier).get("redrives")):
            story["redrives"] = redrives  # a story begins anew, the guard against loops does not
        return json.dumps(story, ensure_ascii=False)


def move(
    connection: Connection,
    target: Queue,
    moves: Sequence[tuple[int, str, str | None]],
    now: int,
) -> None:
    """Messages go to another queue: id, channel and story of each. Once per reading of its row."""
    limited = _channel.limited(connection, target, {channel for _, channel, _ in moves})
    changes = _channel.Changes()
    moved: list[tuple[Any, ...]] = []
    for id_, channel, origin in moves:
        moved.append((target["id"], channel in limited, origin, id_))
        if channel in limited:
            changes.add(channel, size=1)
    connection.executemany(SQL["move"], moved)
    changes.write(connection, target["id"])
    connection.execute(_queue.SQL["count_sent"], {"n": len(moves), "queue": target["id"]})
    _events.note(connection, target, "created", [id_ for id_, _, _ in moves], now)
    connection.news.add(target["name"])
