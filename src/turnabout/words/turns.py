"""The round robin as seen by one receiver: where it stands, and the order inside a batch.

Stores hand out a batch in no promised order. Here it is put in turn (one message of each channel,
then the next of each; inside a channel by priority, then by order of sending), and the place to go
on from is worked out. Where the receivers of a process stand is kept by `pacing.Rounds`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, zip_longest
from operator import itemgetter

from turnabout.words.entities import Delivery, Turn


def in_turn(deliveries: Sequence[Delivery], start: Turn) -> tuple[Sequence[Delivery], Turn]:
    """The deliveries in turn, and the turn to start the next `receive` from."""
    if not deliveries:
        return deliveries, start
    if len(deliveries) == 1:
        return deliveries, _after(deliveries[0].channel, 1, start)
    ordered = sorted(deliveries, key=_in_channels)
    first, last = ordered[0].channel, ordered[-1].channel
    if first == last:
        return ordered, _after(first, len(ordered), start)
    by_channel = {channel: list(group) for channel, group in groupby(ordered, _channel_of)}
    names = list(by_channel)
    if start.channel is not None:
        names = _around(names, start)
    ranks = zip_longest(*[by_channel[name] for name in names])
    ordered = [delivery for delivery in chain.from_iterable(ranks) if delivery is not None]
    last = ordered[-1].channel
    return ordered, _after(last, len(by_channel[last]), start)


def turn_after(taken: Mapping[str, int], start: Turn) -> Turn:
    """Return the turn to start from after `taken` messages of each channel, as `in_turn` does."""
    names = sorted(taken)
    if start.channel is not None:
        names = _around(names, start)
    most = max(taken.values())
    last = next(name for name in reversed(names) if taken[name] == most)
    return _after(last, most, start)


_channel_of = itemgetter(2)
_in_channels = itemgetter(2, 3, 0)
"""Sort key: channel, `priority`, `id`. (Python orders texts as databases do their UTF-8.)"""


def _around(names: list[str], start: Turn) -> list[str]:
    """Order names from the one after the start, around the end, to the start; a start whose turn
    was not over (a channel of weight above one) comes first instead.
    """
    assert start.channel is not None
    place = bisect_right(names, start.channel)
    first, again = names[place:], names[:place]
    if start.served and again and again[-1] == start.channel:
        return [again.pop(), *first, *again]
    return first + again


def _after(last: str, taken: int, start: Turn) -> Turn:
    return Turn(last, taken + start.served if last == start.channel else taken)
