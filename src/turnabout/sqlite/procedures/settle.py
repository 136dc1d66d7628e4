"""Ack, defer, fail, extend, release: what the holder of a lease says about its message.

A receipt holds while its message is leased at that attempt; else the answer is LeaseLost and
nothing is changed. Each receipt is judged as if it came alone: a second one for the same message
finds what the first one left. A message whose cancelling was asked for does not come back: what
would bring it back ends it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Literal

from turnabout.sqlite._connection import Connection, StartOver
from turnabout.sqlite._statements import among, statements
from turnabout.sqlite.procedures import _channel, _events, _finish, _queue, _queue_limits
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures._savepoint import Savepoint
from turnabout.words.entities import Failure, Receipt, kept_note
from turnabout.words.outcomes import (
    Acked,
    AckOutcome,
    Blocked,
    Cancelled,
    Dead,
    DeferOutcome,
    Deferred,
    Extended,
    ExtendOutcome,
    FailOutcome,
    LeaseLost,
    Released,
    ReleaseOutcome,
    Retrying,
)
from turnabout.words.records import Result
from turnabout.words.verbs import Ack, Defer, Extend, Fail, Receive, Release

_SQL = {name: statements(name) for name in ("held", "defer", "fail", "extend", "release")}
_READY, _SCHEDULED, _LEASED = 0, 1, 2
_ACKED, _RELEASED, _CANCELLED = Acked(), Released(), Cancelled()
_GONE = LeaseLost("gone")


class _HeldMessages:
    """The messages of some receipts, and what has become of them so far in this verb."""

    def __init__(
        self, connection: Connection, queue: Queue, receipts: Iterable[Receipt], now: int
    ) -> None:
        found = connection.execute(
            _SQL["held"]["held"],
            {"queue": queue["id"], "ids": json.dumps([receipt.id for receipt in receipts])},
        )
        self._rows: dict[int, sqlite3.Row] = {row["id"]: row for row in found}
        self._left: dict[int, LeaseLost] = {}
        self._connection = connection
        self._queue = queue
        self._now = now
        self.changes = _channel.ChannelChanges()
        self.finish = _finish.Finish(connection, queue, now)
        self.cancelled: list[int] = []
        self.letters: list[_finish.DeadLetter] = []

    def take(self, receipt: Receipt) -> sqlite3.Row | LeaseLost:
        """The message, if the receipt still holds."""
        row = self._rows.get(receipt.id)
        if row is None:
            return _GONE
        if row["status"] == _LEASED and row["attempt"] == receipt.attempt:
            return self._left.get(receipt.id) or row
        return LeaseLost(_state(row["status"], row["at"], self._now))

    def leave(self, row: sqlite3.Row, lost: LeaseLost, *, ended: bool = False) -> None:
        """The lease is over: a later receipt for the message finds `lost`."""
        self._left[row["id"]] = lost
        if row["limited"]:
            self.changes.add(row["channel"], size=-1 if ended else 0, leased=-1)

    def give_up(self, row: sqlite3.Row) -> bool:
        """Whether the message, which nothing is charged for, was delivered as often as it may be.
        Then its lease is over, and it is one of the `letters`.
        """
        failures, crashes = row["failures"], row["crashes"]
        if _finish.exhausted(self._queue, row, 0) is None:
            return False
        self.die(_finish.DeadLetter.as_it_is(row, "deliveries", failures, crashes))
        return True

    def die(self, letter: _finish.DeadLetter) -> None:
        """The message has no attempts left. Its lease is over."""
        stays = _finish.blocks(self._queue)
        self.leave(letter.row, LeaseLost("scheduled") if stays else _GONE, ended=not stays)
        self.letters.append(letter)

    def cancel(self, row: sqlite3.Row) -> bool:
        """Whether the message is to end instead of coming back. Then the lease is over."""
        if not row["cancel_requested"]:
            return False
        self.leave(row, _GONE, ended=True)
        self.cancelled.append(row["id"])
        return True

    def write(self) -> Dead | Blocked:
        """End what is not to come back, and tell the channels. What has become of the letters."""
        dead = self.finish.dead_letter(self.letters)
        self.finish.end("cancelled", self.cancelled)
        self.changes.write(self._connection, self._queue["id"])
        _queue_limits.give_back(self._connection, self._queue, len(self._left))
        return dead


def ack(connection: Connection, verb: Ack | Receive, now: int) -> tuple[AckOutcome, ...]:
    """Ack these receipts, or those that a receive acks first."""
    receipts = verb.receipts if isinstance(verb, Ack) else verb.acks
    ids, attempts, _ = zip(*receipts, strict=True)
    if _ack_plainly(connection, verb, ids, attempts, now):
        return (_ACKED,) * len(ids)
    queue = _queue.need(connection, verb.queue)
    finish = _finish.Finish(connection, queue, now)
    if _end_together(connection, finish, ids, attempts, verb.results):
        return (_ACKED,) * len(ids)
    held = _HeldMessages(connection, queue, receipts, now)
    outcomes: list[AckOutcome] = []
    done: list[int] = []
    results: list[Result | None] = []
    for receipt, result in zip_longest(receipts, verb.results):
        row = held.take(receipt)
        if isinstance(row, LeaseLost):
            outcomes.append(row)
            continue
        held.leave(row, _GONE, ended=True)
        done.append(receipt.id)
        results.append(result)
        outcomes.append(_ACKED)
    held.finish.end("done", done, results)
    held.write()
    return tuple(outcomes)


def defer(connection: Connection, verb: Defer, now: int) -> tuple[DeferOutcome, ...]:
    """Defer messages: they return later, uncharged."""
    queue = _queue.need(connection, verb.queue)
    held = _HeldMessages(connection, queue, (d.receipt for d in verb.deferrals), now)
    outcomes: list[DeferOutcome | None] = []
    back: list[tuple[Any, ...]] = []
    state_only: list[tuple[Any, ...]] = []
    for deferral in verb.deferrals:
        row = held.take(deferral.receipt)
        if isinstance(row, LeaseLost):
            outcomes.append(row)
        elif held.cancel(row):
            outcomes.append(_CANCELLED)
        elif held.give_up(row):
            state_only.append((_LEASED, row["at"], deferral.state, row["id"]))
            outcomes.append(None)
        else:
            status, at = _wait(queue, deferral.delay_ms, now)
            held.leave(row, LeaseLost(_state(status, at, now)))
            back.append((status, at, deferral.state, row["id"]))
            outcomes.append(Deferred(now + deferral.delay_ms))
    connection.executemany(_SQL["defer"]["put_back"], back + state_only)
    _events.note(connection, queue, "deferred", [id_ for *_, id_ in back], now)
    dead = held.write()
    return tuple(dead if outcome is None else outcome for outcome in outcomes)


def fail(connection: Connection, verb: Fail, now: int) -> tuple[FailOutcome, ...]:
    """Record failed attempts: messages return after a back-off, or are exhausted."""
    queue = _queue.need(connection, verb.queue)
    held = _HeldMessages(connection, queue, (f.receipt for f in verb.failures), now)
    outcomes: list[FailOutcome | None] = []
    back: list[tuple[Any, ...]] = []
    charged_only: list[tuple[Any, ...]] = []
    for failure in verb.failures:
        row, error = held.take(failure.receipt), failure.error
        if isinstance(row, LeaseLost):
            outcomes.append(row)
        elif held.cancel(row):
            charged_only.append((_LEASED, now, row["errors"], error, row["id"]))
            outcomes.append(_CANCELLED)
        elif reason := _why_dead(queue, row, failure):
            errors = _finish.with_error(row, failure, now)
            failures = row["failures"] + 1
            held.die(_finish.DeadLetter(row, reason, failures, row["crashes"], error, errors))
            outcomes.append(None)
        else:
            delay = failure.delay_ms
            if delay is None:
                charged = row["failures"] + 1 + row["crashes"]
                delay = _back_off(queue, charged, connection.random.random())
            status, at = _wait(queue, delay, now)
            held.leave(row, LeaseLost(_state(status, at, now)))
            errors = _finish.with_error(row, failure, now)
            back.append((status, at, errors, error, row["id"]))
            outcomes.append(Retrying(now + delay))
    connection.executemany(_SQL["fail"]["put_back"], back + charged_only)
    _events.note(connection, queue, "failed", [id_ for *_, id_ in back], now)
    dead = held.write()
    return tuple(dead if outcome is None else outcome for outcome in outcomes)


def extend(connection: Connection, verb: Extend, now: int) -> tuple[ExtendOutcome, ...]:
    """Extend leases. One that ends now is found by the next receive, as if it had run out."""
    queue = _queue.need(connection, verb.queue)
    held = _HeldMessages(connection, queue, verb.receipts, now)
    taken = [held.take(receipt) for receipt in verb.receipts]
    lease_ms = queue["lease_ms"] if verb.lease_ms is None else verb.lease_ms
    ids = [row["id"] for row in taken if not isinstance(row, LeaseLost)]
    extended = connection.execute(
        _SQL["extend"]["extend"],
        {
            "until": now + lease_ms,
            "exact": verb.exact,
            "ids": json.dumps(ids),
            "note": kept_note(verb.note),
        },
    )
    until = {row["id"]: Extended(row["at"], bool(row["cancel_requested"])) for row in extended}
    if verb.note is not None:
        _events.note(connection, queue, "noted", ids, now)
    return tuple(row if isinstance(row, LeaseLost) else until[row["id"]] for row in taken)


def release(connection: Connection, verb: Release, now: int) -> tuple[ReleaseOutcome, ...]:
    """Release messages at once, uncharged."""
    queue = _queue.need(connection, verb.queue)
    held = _HeldMessages(connection, queue, verb.receipts, now)
    outcomes: list[ReleaseOutcome | None] = []
    back: list[int] = []
    for receipt in verb.receipts:
        row = held.take(receipt)
        if isinstance(row, LeaseLost):
            outcomes.append(row)
        elif held.cancel(row):
            outcomes.append(_CANCELLED)
        elif held.give_up(row):
            outcomes.append(None)
        else:
            held.leave(row, LeaseLost("ready"))
            back.append(receipt.id)
            outcomes.append(_RELEASED)
    connection.execute(_SQL["release"]["release"], {"ids": json.dumps(back)})
    _events.note(connection, queue, "deferred", back, now)
    dead = held.write()
    return tuple(dead if outcome is None else outcome for outcome in outcomes)


def _ack_plainly(
    connection: Connection,
    verb: Ack | Receive,
    ids: Sequence[int],
    attempts: Sequence[int],
    now: int,
) -> bool:
    """Like `_end_together`, for queues that keep nothing but history and a count. False: nothing
    was changed. Raises: StartOver if a receipt is stale, or the queue was replaced meanwhile.
    """
    queue, count = _queue.known(connection, verb.queue), len(ids)
    if queue is None or queue["has_channels"] or not (queue["is_plain"] and connection.optimistic):
        return False
    if count > 1 and (len(set(ids)) < count or len(set(attempts)) > 1):
        return False
    if queue["history_ms"]:
        if queue["history_payload"] or verb.results:
            return False
        step, named = ("keep_one_held", ids[0]) if count == 1 else ("keep_held", str([*ids]))
        parameters = {"queue": queue["id"], "attempt": attempts[0], "now": now, "ids": named}
        kept = connection.execute(_finish.SQL[step], {**parameters, "outcome": "done"}).rowcount
        if kept < count:
            return _start_over(kept)
    held = among(_finish.SQL["drop_held"], (), ids, (queue["id"], attempts[0]))
    dropped = connection.execute(*held).rowcount
    if dropped < count:
        return _start_over(dropped)
    same = {"queue": queue["id"], "version": queue["version"], "n": count}
    same |= {"first": min(ids), "last": max(ids)}
    if not connection.execute(_queue.SQL["count_done_if_same"], same).rowcount:
        raise StartOver
    connection.to_notify.add(verb.queue)
    return True


def _start_over(changed: int) -> bool:
    """False if nothing was changed. Raises: StartOver."""
    if changed:
        raise StartOver
    return False


def _end_together(
    connection: Connection,
    finish: _finish.Finish,
    ids: Sequence[int],
    attempts: Sequence[int],
    results: Sequence[Result | None] = (),
) -> bool:
    """End them as done, if all of them hold, at one attempt, of messages in channels without
    limits; else change nothing. That is the common batch, which need not be looked at one by one.
    """
    if len(set(ids)) < len(ids) or len(set(attempts)) > 1:
        return False
    if finish.queue["is_limited"]:
        return False  # so are all of its channels
    savepoint = Savepoint(connection, often=finish.queue["has_channels"])
    if finish.end("done", ids, results, attempt=attempts[0]):
        _queue_limits.give_back(connection, finish.queue, len(ids))
        savepoint.keep()
        return True
    savepoint.undo()
    return False


def _why_dead(
    queue: Queue, row: sqlite3.Row, failure: Failure
) -> Literal["attempts", "deliveries", "refused"] | None:
    """The reason why a message is not retried after this failure."""
    if not failure.retry:
        return "refused"
    return _finish.exhausted(queue, row, row["failures"] + 1 + row["crashes"])


def _wait(queue: Queue, delay: int, now: int) -> tuple[int, int]:
    """Status and time of a message that comes back; in a FIFO queue it keeps its place, ready."""
    if delay == 0:
        return _READY, 0
    return (_READY if queue["fifo"] else _SCHEDULED), now + delay


def _back_off(queue: Queue, charged: int, luck: float) -> int:
    """Milliseconds to wait after a message's n-th charge; `luck` is from 0 to 1."""
    doubled = queue["backoff_ms"] << min(charged - 1, 62)
    longest = min(doubled, queue["backoff_max_ms"])
    return round(longest * (1 - luck * queue["backoff_jitter_percent"] / 100))


def _state(status: int, at: int, now: int) -> Any:
    if status == _LEASED:
        return "leased"
    return "scheduled" if at > now else "ready"
