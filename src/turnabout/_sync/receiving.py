"""For blocking callers. Generated from `_async/receiving.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from turnabout._sync.schedules import fire_when_due
from turnabout._sync.shared import Place, Shared
from turnabout.waiting._sync.receives import ReceiveGroup
from turnabout.waiting.pacing import MAINTAIN_SECONDS
from turnabout.words.entities import Delivery
from turnabout.words.errors import Forbidden, TurnaboutError
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn
from turnabout.words.value import replace
from turnabout.words.verb import Change
from turnabout.words.verbs import Maintain, Receive, Release


def receive_in_turn(shared: Shared, verb: Receive, wait_seconds: float) -> Received:
    """Deliveries in the order of turns; if there are none, when to ask again. What is to be acked
    does not wait for them.
    """
    if verb.acks or not wait_seconds:
        found = receive_now(shared, verb)
        if found.deliveries or not wait_seconds:
            return found
        with suppress(TurnaboutError):  # it must be told what became of these
            waited = receive_in_turn(shared, verb.apart()[1], wait_seconds)
            return replace(waited, acked=found.acked)
        return found
    ends_at = time.monotonic() + wait_seconds
    place = place_of(verb)
    is_first = place not in shared.waiters and place not in shared.looking
    if is_first:
        shared.looking.add(place)
        try:
            found = receive_now(shared, verb)
        finally:
            shared.looking.discard(place)
        if found.deliveries or time.monotonic() >= ends_at:
            return found
    source = StoreSource(shared, verb)
    deliveries, retry_after_ms = source.wait_for_messages(
        ends_at, was_empty=is_first, in_front=is_first
    )
    return Received(tuple(deliveries), retry_after_ms)


def place_of(verb: Receive) -> Place:
    """Receives of one place share their looks."""
    return verb.queue, verb.lease_ms, verb.shard


class StoreSource:
    """See `waiters.ReceiveSource`."""

    def __init__(self, shared: Shared, verb: Receive) -> None:
        """`verb`: what all of the group want, but for the number."""
        self._shared = shared
        self._verb = verb

    def wait_for_messages(
        self, ends_at: float, *, was_empty: bool, in_front: bool
    ) -> tuple[Sequence[Delivery], int | None]:
        """Like `ReceiveGroup.wait`, together with every receive that waits at this place."""
        groups, place = self._shared.waiters, place_of(self._verb)
        group = groups.setdefault(place, ReceiveGroup(self))
        try:
            return group.wait(
                self._verb.max_messages, ends_at, was_empty=was_empty, in_front=in_front
            )
        finally:
            if not group:
                groups.pop(place, None)

    @property
    def is_closed(self) -> bool:
        return self._shared.is_closed

    def lease(self, most: int) -> tuple[Sequence[Delivery], int | None]:
        received = receive_once(self._shared, replace(self._verb, max_messages=most))
        return received.deliveries, received.retry_after_ms

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        receipts = tuple(delivery.receipt for delivery in deliveries)
        with suppress(TurnaboutError):  # then their leases run out
            self._shared.store.run(Release(self._verb.queue, receipts))

    def signal(self) -> int:
        """Do periodic work, which must not delay a woken receiver, then read the signal."""
        _before_look(self._shared, self._verb.queue)
        return self._shared.store.signal(self._verb.queue, Change.READY)

    def wait(self, seen: int, seconds: float) -> None:
        """Schedules are fired meanwhile, when they are due."""
        shared, ends_at = self._shared, time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0 and not shared.is_closed:
            pause = min(left, shared.watch.until_look())
            until = time.monotonic() + pause
            shared.store.wait(self._verb.queue, seen, pause, Change.READY)
            if time.monotonic() < until:
                return
            fire_when_due(shared)


def receive_now(shared: Shared, verb: Receive) -> Received:
    """One look, and what is done on the way to it."""
    _before_look(shared, verb.queue)
    return receive_once(shared, verb)


def _before_look(shared: Shared, queue: str) -> None:
    """Periodic work that receives do on the way: maintenance, and schedules that are due."""
    maintain_when_due(shared, queue)
    fire_when_due(shared)


def maintain_when_due(shared: Shared, queue: str, seconds: float = MAINTAIN_SECONDS) -> None:
    """Maintain the queue, unless somebody in this process did in the last `seconds`."""
    if shared.rounds.must_maintain(queue, seconds):
        maintain(shared, queue)


def maintain(shared: Shared, queue: str) -> None:
    """Maintain the queue, and note how it went."""
    try:
        shared.store.run(Maintain(queue))
    except Forbidden:
        shared.rounds.may_not_maintain(queue)
    except TurnaboutError as error:  # the next one will do
        if not shared.is_closed:
            shared.rounds.was_maintained(queue, error)
    else:
        shared.rounds.was_maintained(queue)


def receive_once(shared: Shared, verb: Receive) -> Received:
    """One look, and nothing but that. A store that has acked, but could not do the rest in the same
    statement, is asked for it.
    """
    received = _look(shared, verb)
    if verb.acks and not received.deliveries and received.retry_after_ms == 0:
        with suppress(TurnaboutError):  # what became of the acks is to be told
            rest = _look(shared, verb.apart()[1])
            return replace(rest, acked=received.acked)
    return received


def _look(shared: Shared, verb: Receive) -> Received:
    rounds = shared.rounds
    turn = rounds.take(verb.queue, verb.shard)
    try:
        received = shared.store.run(
            Receive(
                verb.queue,
                verb.max_messages,
                verb.lease_ms,
                verb.shard,
                turn,
                verb.acks,
                verb.results,
            )
        )
        deliveries, guess = in_turn(received.deliveries, turn)
        turn = received.turn or guess
    finally:
        rounds.put(verb.queue, turn, verb.shard)
    return Received(tuple(deliveries), received.retry_after_ms, acked=received.acked)
