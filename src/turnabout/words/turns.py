"""The round robin as seen by one receiver: where it stands, and the order inside a batch.

Stores hand out a batch in no promised order. Here it is put in turn (one message of each channel,
then the next of each; inside a channel by priority, then by order of sending), and the place to go
on from is worked out. Pure; the memory of many receivers is in `Rounds`.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, zip_longest
from operator import itemgetter

from turnabout.words.entities import FIRST_TURN, Delivery, Shard, Turn

MAINTAIN_SECONDS = 1.0


def in_turn(deliveries: Sequence[Delivery], start: Turn) -> tuple[Sequence[Delivery], Turn]:
    """The deliveries in turn, and the turn to start the next `receive` from."""
    if not deliveries:
        return deliveries, start
    if len(deliveries) == 1:
        return deliveries, _after(deliveries[0].channel, 1, start)
    groups = groupby(sorted(deliveries, key=_in_channels), _channel_of)
    by_channel = {channel: list(group) for channel, group in groups}
    if len(by_channel) == 1:
        ((only, messages),) = by_channel.items()
        return messages, _after(only, len(messages), start)

    names = list(by_channel)
    if start.channel is not None:
        names = _around(names, start)
    ranks = zip_longest(*[by_channel[name] for name in names])
    ordered = [delivery for delivery in chain.from_iterable(ranks) if delivery is not None]
    last = ordered[-1].channel
    return ordered, _after(last, len(by_channel[last]), start)


def turn_after(taken: Mapping[str, int], start: Turn) -> Turn:
    """As `in_turn` has it: the turn to start from after so many messages of each channel."""
    names = sorted(taken)
    if start.channel is not None:
        names = _around(names, start)
    most = max(taken.values())
    last = next(name for name in reversed(names) if taken[name] == most)
    return _after(last, most, start)


_channel_of = itemgetter(2)
_in_channels = itemgetter(2, 3, 0)
"""By channel, `priority` and `id`. (Python orders texts as databases do their UTF-8.)"""


def _around(names: list[str], start: Turn) -> list[str]:
    """From the names after the start, around the end, to the start; a start whose turn was not
    over (a channel of weight above one) comes first instead.
    """
    assert start.channel is not None
    place = bisect_right(names, start.channel)
    first, again = names[place:], names[:place]
    if start.served and again and again[-1] == start.channel:
        return [again.pop(), *first, *again]
    return first + again


def _after(last: str, taken: int, start: Turn) -> Turn:
    return Turn(last, taken + start.served if last == start.channel else taken)


class Rounds:
    """The turns of all receivers in this process, and when each queue was last maintained.

    A call takes a turn and puts its successor back, so concurrent receivers stand at different
    places and do not run into each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, Shard | None], deque[Turn]] = {}
        self._maintained: dict[str, float] = {}

    def take(self, queue: str, shard: Shard | None = None) -> Turn:
        """A place in the round robin; nobody else has it until it is put back."""
        with self._lock:
            turns = self._turns.get((queue, shard))
            return turns.popleft() if turns else FIRST_TURN

    def put(self, queue: str, turn: Turn, shard: Shard | None = None) -> None:
        """The place to go on from."""
        with self._lock:
            self._turns.setdefault((queue, shard), deque(maxlen=64)).append(turn)

    def must_maintain(self, queue: str) -> bool:
        """True once in a while: this caller should maintain the queue now."""
        now = time.monotonic()
        with self._lock:
            if now - self._maintained.setdefault(queue, now) < MAINTAIN_SECONDS:
                return False
            self._maintained[queue] = now
            return True
