"""The round robin as seen by one receiver: where it stands, and the order inside a batch.

Stores hand out a batch in no promised order. Here it is put in turn (one message of each channel,
then the next of each; inside a channel by priority, then by order of sending), and the place to go
on from is worked out. Pure; the memory of many receivers is in `Rounds`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

from penstock.words.entities import FIRST_TURN, Delivery, Shard, Turn

TEND_SECONDS = 1.0


def in_turn(deliveries: Iterable[Delivery], start: Turn) -> tuple[tuple[Delivery, ...], Turn]:
    """The deliveries in turn, and the turn to start the next `receive` from."""
    ordered = sorted(deliveries, key=_by_priority)
    if not ordered:
        return (), start
    ranks: dict[str, int] = {}
    ranked: list[tuple[int, bool, bytes, Delivery]] = []
    came_from = None if start.channel is None else start.channel.encode()
    for delivery in ordered:
        rank = ranks.get(delivery.channel, 0)
        ranks[delivery.channel] = rank + 1
        name = delivery.channel.encode()
        again = came_from is not None and name <= came_from
        if name == came_from and start.served:
            again = False  # its turn was not over: it comes first, not last
        ranked.append((rank, again, name, delivery))
    if len(ranks) > 1:
        ranked.sort(key=_by_rank)
    _, _, last = max((again, name, d.channel) for _, again, name, d in ranked)
    served = ranks[last]
    if last == start.channel:
        served += start.served
    return tuple(item[3] for item in ranked), Turn(last, served)


def _by_priority(delivery: Delivery) -> tuple[int, int]:
    return delivery.priority, delivery.id


def _by_rank(item: tuple[int, bool, bytes, Delivery]) -> tuple[int, bool, bytes]:
    return item[:3]


class Rounds:
    """The turns of all receivers in this process, by queue and shard; and when each queue was tended.

    A call takes a turn and puts its successor back, so concurrent receivers stand at different
    places and do not run into each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, Shard | None], deque[Turn]] = {}
        self._tended: dict[str, float] = {}

    def take(self, queue: str, shard: Shard | None) -> Turn:
        with self._lock:
            turns = self._turns.get((queue, shard))
            return turns.popleft() if turns else FIRST_TURN

    def put(self, queue: str, shard: Shard | None, turn: Turn) -> None:
        with self._lock:
            self._turns.setdefault((queue, shard), deque(maxlen=64)).append(turn)

    def must_tend(self, queue: str) -> bool:
        """True once in a while: this caller should tend the queue now."""
        now = time.monotonic()
        with self._lock:
            if now - self._tended.setdefault(queue, now) < TEND_SECONDS:
                return False
            self._tended[queue] = now
            return True
