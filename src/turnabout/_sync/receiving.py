"""For blocking callers. Generated from `_async/receiving.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from turnabout._sync.schedules import fire_when_due
from turnabout._sync.shared import Shared
from turnabout.words.entities import Delivery
from turnabout.words.errors import Unavailable, Uncertain
from turnabout.words.turns import in_turn
from turnabout.words.verb import Change
from turnabout.words.verbs import Maintain, Receive


def receive_in_turn(
    shared: Shared, verb: Receive, wait_seconds: float
) -> tuple[Sequence[Delivery], int | None]:
    """Deliveries in the order of turns; if there are none, when to ask again."""
    store = shared.store
    ends_at = time.monotonic() + wait_seconds if wait_seconds else 0.0
    seen: int | None = None
    while True:
        deliveries, retry_after_ms = _receive_once(shared, verb)
        left = ends_at - time.monotonic() if wait_seconds else 0.0
        if deliveries or left <= 0:
            return deliveries, retry_after_ms
        if seen is None:  # say that somebody waits, and look once more
            seen = store.signal(verb.queue, Change.READY)
            continue
        pause = left if retry_after_ms is None else min(left, retry_after_ms / 1000)
        store.wait(verb.queue, seen, min(pause, shared.watch.until_look()), Change.READY)
        seen = None
        if shared.is_closed:
            return (), None


def _receive_once(shared: Shared, verb: Receive) -> tuple[Sequence[Delivery], int | None]:
    if shared.rounds.must_maintain(verb.queue):
        with suppress(Unavailable, Uncertain):  # housekeeping; the next one will do
            shared.store.run(Maintain(verb.queue))
    fire_when_due(shared)
    return receive_once(shared, verb)


def receive_once(shared: Shared, verb: Receive) -> tuple[Sequence[Delivery], int | None]:
    """One look, and nothing but that."""
    rounds = shared.rounds
    turn = rounds.take(verb.queue, verb.shard)
    try:
        received = shared.store.run(
            Receive(verb.queue, verb.max_messages, verb.lease_ms, verb.shard, turn)
        )
        deliveries, guess = in_turn(received.deliveries, turn)
        turn = received.turn or guess
    finally:
        rounds.put(verb.queue, turn, verb.shard)
    return deliveries, received.retry_after_ms
