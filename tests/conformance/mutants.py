"""Stores with a planted bug, each around a real SQLite store: the net of lives must catch them all.

A mutant changes a verb on its way in, an answer on its way out, or the rows behind the store's
back. What is planted here is what has gone wrong in real queues.
"""

import dataclasses
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock import LeaseLost, Receipt, message
from penstock.words import verbs as v
from penstock.words.entities import FIRST_TURN


class Mutant:
    """A store around a store; subclasses override the verb that they spoil."""

    def __init__(self, store: Any, path: str, clock: Callable[[], int]) -> None:
        self.store, self.clock = store, clock
        self.rows = sqlite3.connect(path, isolation_level=None)
        self.signal, self.wait = store.signal, store.wait

    def close(self) -> None:
        self.rows.close()
        self.store.close()

    def run(self, verb: Any) -> Any:
        spoiled = getattr(self, verb.name, None)
        return self.store.run(verb) if spoiled is None else spoiled(verb)

    def sql(self, statement: str, *values: Any) -> list[Any]:
        return self.rows.execute(statement, values).fetchall()

    def on_each(self, statement: str, receipts: Any, outcomes: Any) -> None:
        """The statement, for each receipt that was good."""
        for receipt, outcome in zip(receipts, outcomes, strict=True):
            if not isinstance(outcome, LeaseLost):
                self.sql(statement, receipt.id)


class NoFenceOnAck(Mutant):
    def ack(self, verb: v.Ack) -> Any:
        now = {
            r.id: self.sql("select attempt from message where id = ?", r.id) for r in verb.receipts
        }
        current = tuple(Receipt(i, rows[0][0] or 1 if rows else 1) for i, rows in now.items())
        return self.store.run(v.Ack(verb.queue, current))


class AttemptResetOnRelease(Mutant):
    def release(self, verb: v.Release) -> Any:
        outcomes = self.store.run(verb)
        self.on_each("update message set attempt = 0 where id = ?", verb.receipts, outcomes)
        return outcomes


class ReleaseCharged(Mutant):
    def release(self, verb: v.Release) -> Any:
        outcomes = self.store.run(verb)
        statement = "update message set crashes = crashes + 1 where id = ?"
        self.on_each(statement, verb.receipts, outcomes)
        return outcomes


class DeferCharged(Mutant):
    def defer(self, verb: v.Defer) -> Any:
        outcomes = self.store.run(verb)
        statement = "update message set failures = failures + 1 where id = ?"
        self.on_each(statement, [d.receipt for d in verb.deferrals], outcomes)
        return outcomes


class StateErasedOnDefer(Mutant):
    def defer(self, verb: v.Defer) -> Any:
        erased = [dataclasses.replace(d, state=d.state or b"") for d in verb.deferrals]
        return self.store.run(v.Defer(verb.queue, tuple(erased)))


class LostLeaseNotCharged(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        self.sql(
            "update message set crashes = crashes - 1 where status = 2 and at <= ?", self.clock()
        )
        return self.store.run(verb)


class OneMillisecondEarly(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        self.sql("update message set at = at - 1 where status = 1")
        answer = self.store.run(verb)
        self.sql("update message set at = at + 1 where status = 1")
        return answer


class LeaseEndsEarly(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        self.sql("update message set at = at - 1 where status = 2")
        answer = self.store.run(verb)
        self.sql("update message set at = at + 1 where status = 2 and leased_at < ?", self.clock())
        return answer


class ExtendShortens(Mutant):
    def extend(self, verb: v.Extend) -> Any:
        outcomes = self.store.run(verb)
        if verb.lease_ms is not None:
            statement = f"update message set at = {self.clock() + verb.lease_ms} where id = ?"
            self.on_each(statement, verb.receipts, outcomes)
        return outcomes


class OneSlotTooMany(Mutant):
    def policy_set(self, verb: v.PolicySet) -> Any:
        return self._more("max_concurrency", verb)

    def _more(self, field: str, verb: v.PolicySet) -> Any:
        changes = dict(verb.changes)
        if changes.get(field) is None:
            return self.store.run(verb)
        answer = self.store.run(
            dataclasses.replace(verb, changes={**changes, field: changes[field] + 1})
        )
        return dataclasses.replace(answer, **{field: changes[field]})


class OneMessageTooMany(OneSlotTooMany):
    def policy_set(self, verb: v.PolicySet) -> Any:
        return self._more("max_size", verb)


class FifoOvertakes(Mutant):
    """The next message is taken while the head of a FIFO channel backs off."""

    def receive(self, verb: v.Receive) -> Any:
        held = self.sql(
            "update message set status = 1 where status = 0 and at > ? returning id", self.clock()
        )
        self.sql("update channel set wake_at = 0 where wake_at > 0")
        answer = self.store.run(verb)
        for (number,) in held:
            self.sql("update message set status = 0 where id = ?", number)
        return answer


class PriorityIgnored(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        kept = dict(self.sql("select id, priority from message"))
        self.sql("update message set priority = 0")
        answer = self.store.run(verb)
        for number, priority in kept.items():
            if priority:
                self.sql("update message set priority = ? where id = ?", priority, number)
        given = tuple(_changed(d, priority=kept[d.id]) for d in answer.deliveries)
        return dataclasses.replace(answer, deliveries=given)


class OneAttemptTooMany(Mutant):
    """Dead one attempt late: the zombie."""

    def queue_create(self, verb: v.QueueCreate) -> Any:
        most = verb.settings.max_attempts
        more = None if most is None else most + 1
        settings = verb.settings.changed({"max_attempts": more})
        return self.store.run(v.QueueCreate(verb.queue, settings))


class RedeliveriesFree(Mutant):
    """A redelivery takes no token."""

    def receive(self, verb: v.Receive) -> Any:
        answer = self.store.run(verb)
        for d in answer.deliveries:
            if d.attempt > 1:
                self.sql(
                    "update channel set wake_at = 0, tat_us = tat_us - coalesce(rate_interval_us,"
                    " (select rate_interval_us from queue where id = queue_id), 0)"
                    " where name = ? and queue_id = (select id from queue where name = ?)",
                    *(d.channel, verb.queue),
                )
        return answer


class TurnsForgotten(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        return self.store.run(dataclasses.replace(verb, turn=FIRST_TURN))


class IdsUsedAgain(Mutant):
    def send(self, verb: v.Send) -> Any:
        self.sql("update sqlite_sequence set seq = 0 where name = 'message'")
        return self.store.run(verb)


class SleepsForEver(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        return dataclasses.replace(self.store.run(verb), retry_after_ms=None)


class DeadIsDropped(Mutant):
    """An exhausted message vanishes instead of moving to the dead-letter queue."""

    def fail(self, verb: v.Fail) -> Any:
        outcomes = self.store.run(verb)
        self.sql("delete from message where origin is not null")
        return outcomes


class SendInPart(Mutant):
    """Of many messages, those of the first channel are sent, and the rest refused."""

    def send(self, verb: v.Send) -> Any:
        answer = self.store.run(verb)
        if not hasattr(answer, "ids"):
            self.store.run(v.Send(verb.queue, (message("x", channel="other"),)))
        return answer


def _changed(delivery: Any, **fields: Any) -> Any:
    if hasattr(delivery, "_replace"):
        return delivery._replace(**fields)
    return dataclasses.replace(delivery, **fields)


def mutants() -> Iterator[type[Mutant]]:
    waiting = [Mutant]
    while waiting:
        for mutant in waiting.pop().__subclasses__():
            waiting.append(mutant)
            yield mutant


@contextmanager
def spoiled(door: Any, mutant: type[Mutant]) -> Iterator[Any]:
    """The door (SQLite, a file), with a planted bug behind it."""
    good = door.ps
    path = door.url.removeprefix("sqlite:///")
    with type(good)(mutant(good.store, path, door.clock)) as bad:
        door.ps, door.has = bad, frozenset()
        yield door
