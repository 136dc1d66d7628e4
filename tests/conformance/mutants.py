"""Stores with a planted bug, each around a real SQLite store: the net of lives must catch them all.

A mutant changes a verb on its way in, an answer on its way out, or the rows behind the store's
back. What is planted here is what has gone wrong in real queues.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turnabout import Acked, LeaseLost, Receipt, message
from turnabout.words import verbs as v
from turnabout.words.entities import FIRST_TURN
from turnabout.words.outcomes import Cleared
from turnabout.words.value import replace


class Mutant:
    """A store around a store; subclasses override the verb that they spoil."""

    first_round = 4
    """From there on most are found soonest, as Hypothesis draws today."""
    maintains_itself = False

    def __init__(self, store: Any, path: str, clock: Callable[[], int]) -> None:
        self.store, self.clock = store, clock
        self.rows = sqlite3.connect(path, isolation_level=None)
        self.signal, self.wait = store.signal, store.wait
        self.run_transaction = store.run_transaction

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


def of_rows(
    name: str,
    verb_name: str,
    *,
    before: str = "",
    after: str = "",
    each: str = "",
    kept: str = "",
    back: str = "",
    first_round: int = Mutant.first_round,
) -> type[Mutant]:
    """A bug in the rows alone: what is done to them before a verb and after it, what for each good
    receipt; or which values are kept and put back.
    """

    def spoiled(self: Mutant, verb: Any) -> Any:
        rows = self.sql(kept) if kept else []
        if before:
            self.rows.execute(before, {"now": self.clock()})
        answer = self.store.run(verb)
        if after:
            self.rows.execute(after, {"now": self.clock()})
        if each:
            fields = ("receipts", "deferrals", "failures")
            items = next(getattr(verb, field) for field in fields if hasattr(verb, field))
            self.on_each(each, [getattr(item, "receipt", item) for item in items], answer)
        for row in rows:
            self.sql(back, *row)
        return answer

    return type(name, (Mutant,), {verb_name: spoiled, "first_round": first_round})


OF_ROWS = [
    of_rows(
        "AttemptResetOnRelease", "release",
        each="update turnabout_message set attempt = 0 where id = ?",
    ),
    of_rows(
        "ReleaseCharged", "release",
        each="update turnabout_message set crashes = crashes + 1 where id = ?",
    ),
    of_rows(
        "DeferCharged", "defer",
        each="update turnabout_message set failures = failures + 1 where id = ?",
    ),
    of_rows(
        "LostLeaseNotCharged", "receive",
        before="update turnabout_message set crashes = crashes - 1 where status = 2 and at <= :now",
    ),
    of_rows(
        "OneMillisecondEarly", "receive",
        before="update turnabout_message set at = at - 1 where status = 1",
        after="update turnabout_message set at = at + 1 where status = 1",
    ),
    of_rows(
        "LeaseEndsEarly", "receive",
        before="update turnabout_message set at = at - 1 where status = 2",
        after="update turnabout_message set at = at + 1 where status = 2 and leased_at < :now",
    ),
    of_rows(
        "IdsUsedAgain", "send",
        before="update turnabout_queue set last_id = ids_after",
    ),
    # An exhausted message vanishes instead of moving to the dead-letter queue.
    of_rows(
        "DeadIsDropped", "fail", after="delete from turnabout_message where origin is not null"
    ),
    # An entry that has expired goes on suppressing until it is swept.
    of_rows(
        "WindowsNeverEnd", "send",
        before="update turnabout_dedup set until_ms = until_ms + 1000000000 where until_ms < 4e12",
        after="update turnabout_dedup set until_ms = until_ms - 1000000000"
        " where until_ms > 1.8005e12",
    ),
    # A suppressed attempt does not extend a sliding window.
    of_rows(
        "SlidingStandsStill", "send",
        kept="select until_ms, queue_id, scope, key, message_id from turnabout_dedup",
        back="update turnabout_dedup set until_ms = ? where queue_id = ? and scope = ? and key = ?"
        " and message_id = ? and until_ms is not null",
    ),
    # Replaced, it says; but the old payload is delivered.
    of_rows(
        "LatestKeepsTheOld", "send", first_round=31,
        kept="select payload, id from turnabout_message",
        back="update turnabout_message set payload = ? where id = ?",
    ),
    of_rows(
        "ExpiredIsDelivered", "receive",
        before="update turnabout_message set expires_at = null where expires_at <= :now",
    ),
    # The lease of a message whose time has passed is taken away.
    of_rows(
        "ExpiryEndsLeases", "receive",
        before="update turnabout_message set at = 0 where status = 2 and expires_at <= :now",
    ),
    of_rows(
        "RetryKeepsCharges", "retry", first_round=23,
        kept="select failures, crashes, id from turnabout_message",
        back="update turnabout_message set failures = ?, crashes = ? where id = ?",
    ),
    # What dies is not in history.
    of_rows("DeadLeaveNoRow", "fail", after="delete from turnabout_history where outcome = 'dead'"),
]  # fmt: skip
"""Kept here, or the classes would be collected, and `__subclasses__` would not list them."""


class NoFenceOnAck(Mutant):
    def ack(self, verb: v.Ack) -> Any:
        now = {
            r.id: self.sql("select attempt from turnabout_message where id = ?", r.id)
            for r in verb.receipts
        }
        current = tuple(Receipt(i, rows[0][0] or 1 if rows else 1) for i, rows in now.items())
        return self.store.run(v.Ack(verb.queue, current))


class NoFenceOnAckBeforeReceive(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        if not verb.acks:
            return self.store.run(verb)
        acks, rest = verb.apart()
        acked = NoFenceOnAck.ack(self, acks)
        return replace(self.store.run(rest), acked=acked)


class ReceiveForgetsItsAcks(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        answer = self.store.run(verb.apart()[1])
        return replace(answer, acked=(Acked(),) * len(verb.acks))


class StateErasedOnDefer(Mutant):
    def defer(self, verb: v.Defer) -> Any:
        erased = [replace(d, state=d.state or b"") for d in verb.deferrals]
        return self.store.run(v.Defer(verb.queue, tuple(erased)))


class ExtendShortens(Mutant):
    def extend(self, verb: v.Extend) -> Any:
        outcomes = self.store.run(verb)
        if verb.lease_ms is not None and not verb.exact:
            statement = (
                f"update turnabout_message set at = {self.clock() + verb.lease_ms} where id = ?"
            )
            self.on_each(statement, verb.receipts, outcomes)
        return outcomes


class ExactNeverShortens(Mutant):
    def extend(self, verb: v.Extend) -> Any:
        return self.store.run(replace(verb, lease_ms=verb.lease_ms or 1, exact=False))


class NoteForgotten(Mutant):
    def extend(self, verb: v.Extend) -> Any:
        return self.store.run(replace(verb, note=None))


class OneSlotTooMany(Mutant):
    def policy_set(self, verb: v.PolicySet) -> Any:
        return self._more("max_concurrency", verb)

    def _more(self, field: str, verb: v.PolicySet) -> Any:
        changes = dict(verb.changes)
        if changes.get(field) is None:
            return self.store.run(verb)
        answer = self.store.run(replace(verb, changes={**changes, field: changes[field] + 1}))
        return replace(answer, **{field: changes[field]})


class OneMessageTooMany(OneSlotTooMany):
    def policy_set(self, verb: v.PolicySet) -> Any:
        return self._more("max_size", verb)


class FifoOvertakes(Mutant):
    """The next message is taken while the head of a FIFO channel backs off."""

    def receive(self, verb: v.Receive) -> Any:
        held = self.sql(
            "update turnabout_message set status = 1 where status = 0 and at > ? returning id",
            self.clock(),
        )
        self.sql("update turnabout_channel set wake_at = 0 where wake_at > 0")
        answer = self.store.run(verb)
        for (number,) in held:
            self.sql("update turnabout_message set status = 0 where id = ?", number)
        return answer


class PriorityIgnored(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        kept = dict(self.sql("select id, priority from turnabout_message"))
        self.sql("update turnabout_message set priority = 0")
        answer = self.store.run(verb)
        for number, priority in kept.items():
            if priority:
                self.sql("update turnabout_message set priority = ? where id = ?", priority, number)
        given = tuple(_changed(d, priority=kept[d.id]) for d in answer.deliveries)
        return replace(answer, deliveries=given)


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
                    "update turnabout_channel set wake_at = 0,"
                    " tat_us = tat_us - coalesce(rate_interval_us,"
                    " (select rate_interval_us from turnabout_queue where id = queue_id), 0)"
                    " where name = ?"
                    " and queue_id = (select id from turnabout_queue where name = ?)",
                    *(d.channel, verb.queue),
                )
        return answer


class TurnsForgotten(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        return self.store.run(replace(verb, turn=FIRST_TURN))


class SleepsForEver(Mutant):
    def receive(self, verb: v.Receive) -> Any:
        return replace(self.store.run(verb), retry_after_ms=None)


class SendInPart(Mutant):
    """Of many messages, those of the first channel are sent, and the rest refused."""

    def send(self, verb: v.Send) -> Any:
        answer = self.store.run(verb)
        if not hasattr(answer, "ids"):
            self.store.run(v.Send(verb.queue, (message("x", channel="other"),)))
        return answer


# --- dedup ---


class ScopeIgnored(Mutant):
    def send(self, verb: v.Send) -> Any:
        wide = [
            replace(m, dedup_scope="queue") if m.dedup_scope == "channel" else m
            for m in verb.messages
        ]
        return self.store.run(v.Send(verb.queue, tuple(wide)))


class SecondRerun(Mutant):
    """While one runs, each send of its key is kept, not exactly one."""

    def send(self, verb: v.Send) -> Any:
        free = [
            replace(m, dedup_key=None, dedup_mode=None, dedup_scope=None, dedup_window_ms=None)
            if m.dedup_mode == "rerun"
            else m
            for m in verb.messages
        ]
        return self.store.run(v.Send(verb.queue, tuple(free)))


class SuppressedIsCounted(Mutant):
    def send(self, verb: v.Send) -> Any:
        answer = self.store.run(verb)
        more = len(getattr(answer, "duplicates", ()))
        self.sql("update turnabout_queue set sent = sent + ? where name = ?", more, verb.queue)
        return answer


class SurvivorMisnamed(Mutant):
    """A suppressed send is answered with an id that no message has."""

    def send(self, verb: v.Send) -> Any:
        answer = self.store.run(verb)
        if not getattr(answer, "duplicates", ()):
            return answer
        ids = [i + (place in answer.duplicates) for place, i in enumerate(answer.ids)]
        return replace(answer, ids=tuple(ids))


# --- endings ---


class CancelledComesBack(Mutant):
    def defer(self, verb: v.Defer) -> Any:
        for deferral in verb.deferrals:
            self._forget(deferral.receipt)
        return self.store.run(verb)

    def release(self, verb: v.Release) -> Any:
        for receipt in verb.receipts:
            self._forget(receipt)
        return self.store.run(verb)

    def _forget(self, receipt: Receipt) -> None:
        self.sql("update turnabout_message set cancel_requested = 0 where id = ?", receipt.id)


class CancelTakesTheLease(Mutant):
    """A leased message is ended under its holder's hands."""

    def cancel(self, verb: v.Cancel) -> Any:
        for number in verb.ids:
            self.sql(
                "update turnabout_message set status = 0, at = 0 where status = 2 and id = ?",
                number,
            )
        return self.store.run(verb)


class BlockDelivers(Mutant):
    """A message without attempts left is handed out again, and its channel never waits."""

    def receive(self, verb: v.Receive) -> Any:
        now = self.clock()
        if self.sql("update turnabout_message set at = ? where at > 8e15 returning id", now):
            self.sql("update turnabout_channel set wake_at = 0")
        return self.store.run(verb)


class ResultLost(Mutant):
    def ack(self, verb: v.Ack) -> Any:
        return self.store.run(v.Ack(verb.queue, verb.receipts))


class ClearTakesTheNewest(Mutant):
    def clear(self, verb: v.Clear) -> Any:
        gone = self.sql(
            "delete from turnabout_history where (queue_id, seq) in ("
            "select queue_id, seq from turnabout_history"
            " where queue_id = (select id from turnabout_queue where name = ?)"
            " and (? = 'all' or (? = 'done') = (outcome = 'done'))"
            " order by seq desc limit ?) returning id",
            *(verb.queue, verb.which, verb.which, -1 if verb.limit is None else verb.limit),
        )
        return Cleared(len(gone))


class OneMoreThanTheBound(Mutant):
    def queue_create(self, verb: v.QueueCreate) -> Any:
        most = verb.settings.max_messages
        more = verb.settings.changed({"max_messages": None if most is None else most + 1})
        return self.store.run(v.QueueCreate(verb.queue, more))


class RemovalTakesTheLeased(Mutant):
    def channel_delete(self, verb: v.ChannelDelete) -> Any:
        answer = self.store.run(verb)
        self.store.run(v.Purge(verb.queue, verb.channel, "leased"))
        return answer


# --- redrive ---


class RedriveLosesOne(Mutant):
    def redrive_step(self, verb: v.RedriveStep) -> Any:
        before = self.sql("select id, queue_id from turnabout_message")
        answer = self.store.run(verb)
        now = dict(self.sql("select id, queue_id from turnabout_message"))
        moved = [number for number, queue in before if now.get(number) != queue]
        self.sql("delete from turnabout_message where id = ?", moved[-1] if moved else 0)
        return answer


class RedriveGuardOffByOne(Mutant):
    def redrive_start(self, verb: v.RedriveStart) -> Any:
        more = replace(verb, max_redrives=verb.max_redrives + 1)
        return self.store.run(more)


class DryRunMoves(Mutant):
    def redrive_start(self, verb: v.RedriveStart) -> Any:
        answer = self.store.run(verb)
        if verb.dry_run:
            real = self.store.run(replace(verb, dry_run=False))
            self.store.run(v.RedriveStep(real.id))
        return answer


def _changed(delivery: Any, **fields: Any) -> Any:
    if hasattr(delivery, "_replace"):
        return delivery._replace(**fields)
    return replace(delivery, **fields)


def mutants() -> Iterator[type[Mutant]]:
    waiting = [Mutant]
    while waiting:
        for mutant in waiting.pop().__subclasses__():
            waiting.append(mutant)
            yield mutant


@contextmanager
def spoiled(door: Any, mutant: type[Mutant]) -> Iterator[Any]:
    """The door (SQLite, a file), with a planted bug behind it."""
    good = door.mq
    path = door.url.removeprefix("sqlite:///").partition("?")[0]
    with type(good)(mutant(good.store, path, door.clock)) as bad:
        door.mq, door.has = bad, frozenset()
        yield door
