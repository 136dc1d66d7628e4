"""Leases by the batch: subscriptions, and epochs of recorded messages."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite import epoch_parts
from turnabout.pipeline.sqlite.statements import statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _queue
from turnabout.sqlite.procedures._round_robin import Head
from turnabout.sqlite.procedures._rows import value_of
from turnabout.sqlite.procedures.receive import take
from turnabout.sqlite.procedures.settle import ack_all, fail, release
from turnabout.words.entities import FIRST_TURN, Failure, Receipt, Turn
from turnabout.words.limits import ID_MAX
from turnabout.words.outcomes import Released
from turnabout.words.turns import turn_after
from turnabout.words.verbs import Fail, Receive, Release

_OPEN = statements("subscription_open")
_RELEASE = statements("subscription_release")
_LEASE = statements("epoch_lease")
_PLAN = statements("epoch_plan")
_TENTH = 10


def subscription_open(connection: Connection, verb: p.SubscriptionOpen, now: int) -> p.Opened:
    """The caller has the subscription from now on."""
    _queue.be_here(connection)
    generation = _new_generation(connection)
    about = {"name": verb.subscription, "owner": verb.owner, "generation": generation, "now": now}
    (acked,) = connection.execute(_OPEN["open"], about).fetchone()
    return p.Opened(generation, acked)


def epoch_lease(connection: Connection, verb: p.EpochLease, now: int) -> p.Leased | p.Superseded:
    """Acknowledge; then the next epoch, recorded before or leased now."""
    row = _held_by(connection, verb, now)
    if isinstance(row, p.Superseded):
        return row
    acked, lost = _acknowledge(connection, row, verb.after, now)
    until = now + verb.lease_ms
    last = max(verb.after, verb.beyond)
    for epoch in epoch_parts.epochs(connection, row, after=last, upto=ID_MAX)[:1]:
        _renew(connection, row, epoch, until)
        messages = sum(part.messages for part in epoch_parts.parts(connection, row, epoch))
        return p.Leased(epoch, messages, acked, lost)
    if not verb.max_messages:
        return p.Leased(last, 0, acked, lost)
    row = _find(connection, verb.subscription)
    assert row is not None
    most = verb.max_messages
    if row["max_messages"] is not None:
        if row["max_messages"] >= most:
            connection.execute(_LEASE["grown"], {"id": row["id"]})
        most = min(most, row["max_messages"])
    leasing = _Leasing(connection, row, verb, now)
    leasing.take(most)
    if not leasing.count:
        return p.Leased(last, 0, acked, lost)
    epoch = leasing.record(until)
    return p.Leased(epoch, leasing.count, acked, lost)


def epoch_plan(
    connection: Connection, verb: p.EpochPlan, now: int
) -> p.Planned | p.NoEpoch | p.Superseded:
    """The parts of an epoch; one that has failed too often is cut to a tenth."""
    row = _held_by(connection, verb, now)
    if isinstance(row, p.Superseded):
        return row
    about = {"id": row["id"], "epoch": verb.epoch}
    planned = connection.execute(_PLAN["planned"], about).fetchone()
    if planned is None:
        return p.NoEpoch(row["acked"], row["epoch"])
    returned = dead = 0
    if planned["plans"] > verb.max_plans:
        returned, dead = _isolate(connection, row, verb, now)
    _renew_if_old(connection, row, verb.epoch, now + verb.lease_ms, verb.lease_ms)
    parts = tuple(
        p.Part(part.part, part.queue, part.messages)
        for part in epoch_parts.parts(connection, row, verb.epoch)
    )
    return p.Planned(parts, planned["plans"], returned, dead)


def epoch_extend(connection: Connection, verb: p.EpochExtend, now: int) -> p.Renewed | p.Superseded:
    """All leases of the subscription run on."""
    row = _held_by(connection, verb, now)
    if isinstance(row, p.Superseded):
        return row
    renewed = recorded = 0
    for epoch in epoch_parts.epochs(connection, row, after=0, upto=ID_MAX):
        renewed += _renew(connection, row, epoch, now + verb.lease_ms)
        recorded += sum(part.messages for part in epoch_parts.parts(connection, row, epoch))
    return p.Renewed(renewed, recorded - renewed)


def subscription_release(connection: Connection, verb: p.SubscriptionRelease, now: int) -> int:
    """Everything goes back; a reader that goes on is refused."""
    row = _find(connection, verb.subscription)
    if row is None:
        return 0
    returned = 0
    for epoch in epoch_parts.epochs(connection, row, after=0, upto=ID_MAX):
        for part in epoch_parts.parts(connection, row, epoch):
            receipts = epoch_parts.held(connection, part)
            returned += _give_back(connection, part.queue, receipts, now) if receipts else 0
        epoch_parts.drop(connection, row["id"], epoch)
    about = {"id": row["id"], "generation": _new_generation(connection)}
    connection.execute(_RELEASE["forget" if verb.forget else "fence"], about)
    return returned


def subscription_list(
    connection: Connection, _verb: p.SubscriptionList, _now: int
) -> tuple[p.Subscription, ...]:
    """Subscriptions by name."""
    _queue.be_here(connection)
    found = connection.execute(statements("subscription_list")["all"])
    return tuple(
        value_of(
            p.Subscription, row, limit=row["max_messages"], queues=tuple(json.loads(row["queues"]))
        )
        for row in found
    )


def _new_generation(connection: Connection) -> int:
    return connection.execute(_OPEN["generation"]).fetchone()[0]


def _find(connection: Connection, name: str) -> sqlite3.Row | None:
    _queue.be_here(connection)
    return connection.execute(epoch_parts.SQL["find"], {"name": name}).fetchone()


def _held_by(
    connection: Connection, verb: p.EpochLease | p.EpochPlan | p.EpochExtend, now: int
) -> sqlite3.Row | p.Superseded:
    """The subscription, if it is the caller's."""
    row = _find(connection, verb.subscription)
    if row is None:
        return p.Superseded("")
    if row["generation"] != verb.generation:
        return p.Superseded(row["owner"])
    connection.execute(epoch_parts.SQL["seen"], {"id": row["id"], "now": now})
    return row


def _acknowledge(connection: Connection, row: sqlite3.Row, after: int, now: int) -> tuple[int, int]:
    """All epochs up to that one are done: how many messages were, and how many were not ours."""

    acked = recorded = 0
    epochs = epoch_parts.epochs(connection, row, after=0, upto=after)
    for epoch in epochs:
        for part in epoch_parts.parts(connection, row, epoch):
            recorded += part.messages
            if epoch_parts.is_there(connection, part):
                receipts = connection.tuples(epoch_parts.SQL["receipts"], part.about)
                acked += ack_all(connection, part.queue, receipts, now)
        epoch_parts.drop(connection, row["id"], epoch)
    if after > row["acked"] or epochs:
        about = {"id": row["id"], "after": after, "epochs": min(len(epochs), 30)}
        connection.execute(_LEASE["acked"], about)
    return acked, recorded - acked


def _renew(connection: Connection, row: sqlite3.Row, epoch: int, until: int) -> int:
    """The epoch's leases run until then; how many still do."""
    renewed = sum(
        epoch_parts.extend(connection, part, until)
        for part in epoch_parts.parts(connection, row, epoch)
    )
    about = {"id": row["id"], "epoch": epoch, "until": until}
    connection.execute(epoch_parts.SQL["extended"], about)
    return renewed


def _renew_if_old(
    connection: Connection, row: sqlite3.Row, epoch: int, until: int, lease_ms: int
) -> None:
    """The same, unless nine tenths of the leases are left: as a rule an epoch is planned as soon as
    it is leased, and to renew costs as much as to lease.
    """
    about = {"id": row["id"], "epoch": epoch}
    (lease_until,) = connection.execute(epoch_parts.SQL["lease_until"], about).fetchone()
    if until - lease_until > lease_ms // 10:
        _renew(connection, row, epoch, until)


def _give_back(
    connection: Connection, queue: str, receipts: Sequence[tuple[int, int]], now: int
) -> int:
    """These messages go back, uncharged; how many."""
    connection.to_notify.add(queue)
    verb = Release(queue, tuple([Receipt(*receipt) for receipt in receipts]))
    return sum(isinstance(outcome, Released) for outcome in release(connection, verb, now))


def _isolate(
    connection: Connection, row: sqlite3.Row, verb: p.EpochPlan, now: int
) -> tuple[int, int]:
    """The epoch keeps a tenth of what it still holds; of one message: that is dead. How many went
    back, and how many died.

    What was leased most often is kept first: a message that each of its epochs has failed with is
    among that, so few epochs fail until it is alone.
    """
    parts = epoch_parts.parts(connection, row, verb.epoch)
    held = [epoch_parts.held(connection, part) for part in parts]
    every = [receipt for receipts in held for receipt in receipts]
    if not every:  # a batch that fails because of that would fail for ever
        _forget_parts(connection, row, verb.epoch)
        return 0, 0
    left = max(1, len(every) // _TENTH)
    connection.execute(_PLAN["isolate"], {"id": row["id"], "messages": left})
    kept: set[tuple[int, int]] = set()
    if len(every) > 1:
        kept.update(sorted(every, key=lambda receipt: -receipt[1])[:left])
    cut: list[tuple[int, str, Sequence[int]]] = []
    returned = dead = 0
    for part, receipts in zip(parts, held, strict=True):
        stay = [receipt for receipt in receipts if receipt in kept]
        back = [receipt for receipt in receipts if receipt not in kept]
        if stay:
            cut.append((part.queue_id, part.queue, [id_ for id_, _ in stay]))
        if len(every) == 1 and back:
            failure = Failure(Receipt(*back[0]), verb.error, retry=False)
            fail(connection, Fail(part.queue, (failure,)), now)
            dead = 1
        elif back:
            returned += _give_back(connection, part.queue, back, now)
    _forget_parts(connection, row, verb.epoch)
    epoch_parts.record(connection, row["id"], verb.epoch, cut)
    return returned, dead


def _forget_parts(connection: Connection, row: sqlite3.Row, epoch: int) -> None:
    for step in ("drop_messages", "drop_parts"):
        connection.execute(epoch_parts.SQL[step], {"id": row["id"], "epoch": epoch})


class _Leasing:
    """A new epoch on its way."""

    def __init__(
        self, connection: Connection, row: sqlite3.Row, verb: p.EpochLease, now: int
    ) -> None:
        self._connection = connection
        self._row = row
        self._verb = verb
        self._now = now
        self._turns: dict[str, list[Any]] = json.loads(row["turns"])
        self._got: dict[str, list[Head]] = {}
        self._epoch: int = max(row["epoch"], verb.after, verb.beyond) + 1
        self.count = 0

    def take(self, most: int) -> None:
        """Lease up to `most`, shared among the queues; what one leaves the others may take. Each
        epoch begins with another queue.
        """
        queues = self._verb.queues
        for queue in queues:
            _queue.need(self._connection, queue)
        first = self._epoch % len(queues) if queues else 0
        more = [*queues[first:], *queues[:first]]
        while more and self.count < most:
            again: list[str] = []
            for place, queue in enumerate(more):
                share = -(-(most - self.count) // (len(more) - place))
                if share and self._receive(queue, share) == share:
                    again.append(queue)
            more = again

    def record(self, until: int) -> int:
        """Write down what was leased; the number of the epoch."""
        connection, row, verb = self._connection, self._row, self._verb
        about = {"id": row["id"], "epoch": self._epoch, "now": self._now, "until": until}
        connection.execute(_LEASE["add_epoch"], about)
        cut: list[tuple[int, str, Sequence[int]]] = []
        for queue, taken in self._got.items():
            id_: int = _queue.need(connection, queue)["id"]
            parts = max(1, round(verb.parts * len(taken) / self.count))
            pieces = _by_channel(taken, parts) if verb.by_channel else _even(taken, parts)
            cut += [(id_, queue, [head.id for head in piece]) for piece in pieces]
        epoch_parts.record(connection, row["id"], self._epoch, cut)
        about["queues"] = json.dumps(verb.queues)
        about["turns"] = json.dumps(self._turns, ensure_ascii=False)
        connection.execute(_LEASE["leased"], about)
        return self._epoch

    def _receive(self, queue: str, most: int) -> int:
        """Lease from one queue, in its turn."""
        turn = Turn(*self._turns[queue]) if queue in self._turns else FIRST_TURN
        verb = Receive(queue, most, self._verb.lease_ms, turn=turn)
        taken, following = take(self._connection, verb, self._verb.lease_ms, self._now)
        if taken:
            following = following or turn_after(Counter(map(_channel_of, taken)), turn)
            self._turns[queue] = [following.channel, following.served]
            self._got.setdefault(queue, []).extend(taken)
            self.count += len(taken)
        return len(taken)


_channel_of = attrgetter("channel")
_in_order = attrgetter("priority", "id")
"""By priority, then in order of sending."""


def _even(taken: list[Head], parts: int) -> list[list[Head]]:
    """In order of priority, then of sending, in pieces of about one size."""
    ordered = sorted(taken, key=_in_order)
    parts = min(parts, len(ordered))
    edges = [len(ordered) * n // parts for n in range(parts + 1)]
    return [ordered[a:b] for a, b in pairwise(edges)]


def _by_channel(taken: list[Head], parts: int) -> list[list[Head]]:
    """All of a channel in one piece: the largest ones first, each into the smallest piece."""
    channels: dict[str, list[Head]] = {}
    for row in taken:
        channels.setdefault(_channel_of(row), []).append(row)
    pieces: list[list[Head]] = [[] for _ in range(min(parts, len(channels)))]
    for name in sorted(channels, key=lambda name: (-len(channels[name]), name)):
        min(pieces, key=len).extend(channels[name])
    return [sorted(piece, key=_in_order) for piece in pieces]
