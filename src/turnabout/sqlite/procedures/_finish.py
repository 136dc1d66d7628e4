"""Ending messages: with a row of history, or by a move to the dead-letter queue."""

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
from turnabout.words.entities import Failure
from turnabout.words.limits import ERRORS_MAX, FOREVER_MS
from turnabout.words.outcomes import Blocked, Dead
from turnabout.words.records import Result

SQL = statements("finish")


Reason = Literal["attempts", "refused", "crashes", "deliveries", "channel"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that dies, as it was, and what its last attempt came to."""

    row: sqlite3.Row
    reason: Reason
    failures: int
    crashes: int
    error: str | None
    errors: str | None
    """Errors of all attempts, as JSON."""

    @classmethod
    def as_it_is(cls, row: sqlite3.Row, reason: Reason, failures: int, crashes: int) -> DeadLetter:
        """One that dies without another error."""
        return cls(row, reason, failures, crashes, row["last_error"], row["errors"])


def with_error(row: sqlite3.Row, failure: Failure, now: int) -> str:
    """The errors of a message's attempts with one more: the first, and the last ones."""
    errors = json.loads(row["errors"] or "[]")
    if len(errors) >= ERRORS_MAX:
        del errors[1]
    error: dict[str, Any] = {"attempt": row["attempt"], "at": now, "error": failure.error}
    errors.append(error | {"leased_at": row["leased_at"], "worker": failure.worker})
    return json.dumps(errors, ensure_ascii=False)


def exhausted(
    queue: Queue, row: sqlite3.Row, charged: int
) -> Literal["attempts", "deliveries"] | None:
    """The limit that keeps a message from being retried. `row`: as it was when its lease ended."""
    if queue["max_attempts"] is not None and charged >= queue["max_attempts"]:
        return "attempts"
    deliveries = row["attempt"] - (row["delivered_before"] or 0)
    if queue["max_deliveries"] is not None and deliveries >= queue["max_deliveries"]:
        return "deliveries"
    return None


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
        """End messages, with their results if they are done and have any.

        With an attempt: if all are leased at it, in channels without limits. False: some are not,
        and the caller has to undo it all.
        """
        if not ids:
            return True
        queue, connection = self.queue, self._connection
        _events.note(connection, queue, outcome, ids, self.now)
        if self._keeps(outcome):
            parameters = {"queue": queue["id"], "ids": json.dumps(ids), "outcome": outcome}
            connection.execute(SQL["keep"], {**parameters, "now": self.now})
            self._keep_more(results)
        self._after += len(ids)
        if attempt is None:
            connection.execute(*among(SQL["drop"], (), ids))
        else:
            held = among(SQL["drop_held"], (), ids, (queue["id"], attempt))
            if connection.execute(*held).rowcount < len(ids):
                return False
        connection.execute(_queue.SQL[f"count_{outcome}"], _queue.leaving(queue, ids))
        connection.to_notify.add(queue["name"])
        return True

    def dead_letter(self, letters: Sequence[DeadLetter]) -> Dead | Blocked:
        """Deal with messages without attempts left, as the queue's settings say."""
        queue, connection = self.queue, self._connection
        if blocks(queue):
            self._block(letters)
            return Blocked()
        if not letters:
            return Dead(None)
        if queue["on_exhausted"] == "dead_letter_channel":
            letters = [*letters, *self._waiting_behind(letters)]
        ids = [letter.row["id"] for letter in letters]
        _events.note(connection, queue, "dead", ids, self.now)
        if self._keeps("dead"):
            self._keep_dead(letters)
        self._after += len(ids)
        connection.execute(_queue.SQL["count_dead"], _queue.leaving(queue, ids))
        connection.to_notify.add(queue["name"])
        target = queue["dead_letter_id"]
        if target is None or queue["on_exhausted"] == "drop":
            connection.execute(*among(SQL["drop"], (), ids))
            return Dead(None)
        (name,) = connection.execute(_queue.SQL["name"], {"id": target}).fetchone()
        moves = [
            (letter.row["id"], letter.row["channel"], self._origin(letter)) for letter in letters
        ]
        move(connection, _queue.need(connection, name), moves, self.now)
        return Dead(name)

    def _keeps(self, outcome: str) -> bool:
        """Whether the queue keeps history of such endings."""
        failed_ms = self.queue["history_failed_ms"]
        if outcome == "done" or failed_ms is None:
            return bool(self.queue["history_ms"])
        return bool(failed_ms)

    def _keep_more(self, results: Sequence[Result | None]) -> None:
        """Extra columns of the rows just kept."""
        queue, connection = self.queue, self._connection
        if queue["history_payload"]:
            parameters = {"queue": queue["id"], "after": self._after}
            connection.execute(SQL["keep_payloads"], parameters)
        rows = [
            (result.data, result.content_type, queue["id"], self._after + place)
            for place, result in enumerate(results, 1)
            if result is not None
        ]
        if rows:
            connection.executemany(SQL["keep_result"], rows)

    def _keep_dead(self, letters: Sequence[DeadLetter]) -> None:
        self._connection.executemany(
            SQL["keep_dead"],
            [
                (place, letter.failures, letter.crashes, self.now, letter.error, letter.row["id"])
                for place, letter in enumerate(letters, self._after + 1)
            ],
        )
        self._keep_more(())

    def _block(self, letters: Sequence[DeadLetter]) -> None:
        rows: list[tuple[Any, ...]] = [
            (
                FOREVER_MS,
                letter.failures,
                letter.crashes,
                letter.errors,
                letter.error,
                letter.row["id"],
            )
            for letter in letters
        ]
        self._connection.executemany(SQL["block"], rows)
        ids = [letter.row["id"] for letter in letters]
        _events.note(self._connection, self.queue, "failed", ids, self.now)

    def _waiting_behind(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Let all messages that wait in the channels of dead ones die, too."""
        found: list[DeadLetter] = []
        changes = _channel.ChannelChanges()
        for channel in {letter.row["channel"] for letter in letters}:
            parameters = {"queue": self.queue["id"], "channel": channel}
            for row in self._connection.execute(SQL["waiting"], parameters):
                found.append(DeadLetter.as_it_is(row, "channel", row["failures"], row["crashes"]))
                changes.add(channel, size=-1)
        if self.queue["has_channels"]:
            changes.write(self._connection, self.queue["id"])
        return sorted(found, key=lambda letter: letter.row["id"])

    def _origin(self, letter: DeadLetter) -> str:
        errors = json.loads(letter.errors or "[]")
        earlier = letter.row["origin"]
        story: dict[str, Any] = {
            "queue": self.queue["name"],
            "reason": letter.reason,
            "failures": letter.failures,
            "crashes": letter.crashes,
            "died_at": self.now,
            "first_error": errors[0]["error"] if errors else None,
            "last_error": letter.error,
            "errors": errors,
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
    changes = _channel.ChannelChanges()
    moved: list[tuple[Any, ...]] = []
    for id_, channel, origin in moves:
        moved.append((target["id"], channel in limited, origin, id_))
        if channel in limited:
            changes.add(channel, size=1)
    connection.executemany(SQL["move"], moved)
    changes.write(connection, target["id"])
    came = {"n": len(moves), "last": 0, "queue": target["id"]}
    connection.execute(_queue.SQL["moved"], came)
    _events.note(connection, target, "created", [id_ for id_, _, _ in moves], now)
    connection.to_notify.add(target["name"])
