"""The round robin as seen by one receiver: where it stands, and the order inside a batch.

Stores hand out a batch in no promised order. Here it is put in turn (one message of each channel,
then the next of each; inside a channel by priority, then by order of sending), and the place to go
on from is worked out. Pure; the memory of many receivers is in `Rounds`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from operator import itemgetter

from penstock.words.entities import FIRST_TURN, Delivery, Shard, Turn

TEND_SECONDS = 1.0


def in_turn(deliveries: Sequence[Delivery], start: Turn) -> tuple[Sequence[Delivery], Turn]:
    """The deliveries in turn, and the turn to start the next `receive` from."""
    if not deliveries:
        return deliveries, start
    if len(deliveries) == 1:
        return deliveries, _after(deliveries[0].channel, 1, start)
    by_channel: dict[str, list[Delivery]] = {}
    for delivery in sorted(deliveries, key=_by_priority):
        by_channel.setdefault(delivery.channel, []).append(delivery)
    if len(by_channel) == 1:
        ((only, messages),) = by_channel.items()
        return messages, _after(only, len(messages), start)

    names = sorted(by_channel, key=str.encode)
    if start.channel is not None:
        names = _around(names, start)
    ordered: list[Delivery] = []
    longest = max(map(len, by_channel.values()))
    for rank in range(longest):
        ordered += [by_channel[name][rank] for name in names if len(by_channel[name]) > rank]
    last = ordered[-1].channel
    return ordered, _after(last, len(by_channel[last]), start)


def turn_after(taken: Mapping[str, int], start: Turn) -> Turn:
    """As `in_turn` has it: the turn to start from after so many messages of each channel."""
    names = sorted(taken, key=str.encode)
    if start.channel is not None:
        names = _around(names, start)
    most = max(taken.values())
    last = next(name for name in reversed(names) if taken[name] == most)
    return _after(last, most, start)


_by_priority = itemgetter(3, 0)
"""Inside a channel: by `priority`, then by `id`."""


def _around(names: list[str], start: Turn) -> list[str]:
    """From the names after the start, around the end, to the start; a start whose turn was not
    over (a channel of weight above one) comes first instead.
    """
    assert start.channel is not None
    place = start.channel.encode()
    first = [name for name in names if name.encode() > place]
    again = [name for name in names if name.encode() <= place]
    if start.served and again and again[-1] == start.channel:
        return [again.pop(), *first, *again]
    return first + again


def _after(last: str, taken: int, start: Turn) -> Turn:
    return Turn(last, taken + start.served if last == start.channel else taken)


class Rounds:
    """The turns of all receivers in this process, and when each queue was last tended.

    A call takes a turn and puts its successor back, so concurrent receivers stand at different
    places and do not run into each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, Shard | None], deque[Turn]] = {}
        self._tended: dict[str, float] = {}

    def take(self, queue: str, shard: Shard | None = None) -> Turn:
        """A place in the round robin; nobody else has it until it is put back."""
        with self._lock:
            turns = self._turns.get((queue, shard))
            return turns.popleft() if turns else FIRST_TURN

    def put(self, queue: str, turn: Turn, shard: Shard | None = None) -> None:
        """The place to go on from."""
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
