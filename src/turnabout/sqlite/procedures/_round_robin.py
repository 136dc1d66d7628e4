"""The round robin of one `receive`: channels in the order of their names, once around.

Channels without limits are found by a skip scan of the messages, limited ones among the rows that
are awake; both come in order, so they are merged. Names hold no NUL, so `name + NUL` is the first
name after `name`; any text sorts before a blob, so an empty blob is the end of all names.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from turnabout.sqlite._connection import Connection
from turnabout.sqlite._statements import statements
from turnabout.sqlite.procedures import _channel
from turnabout.sqlite.procedures._channel_limits import ChannelLimits
from turnabout.sqlite.procedures._queue import Queue
from turnabout.words.entities import Delivery, Shard, Turn
from turnabout.words.limits import FOREVER_MS
from turnabout.words.verbs import Receive

_SQL = statements("receive")
_RESUME = statements("policy_set")["resume"]
_END = b""
_MOVE_OVER = 100
_LOOK_AT_MOST = 1_000
_LARGE_BATCH, _LARGE_QUANTUM = 40, 4
"""A batch of that many takes that many messages at each visit."""


Row = tuple[Any, ...]
"""A plain tuple with the fields of a `Delivery` without its lease: named ones take more time than
it takes to find a message.
"""
_CHANNEL: Final = Delivery._fields.index("channel")


class Unlimited:
    """A visit to a channel without limits. Its first messages are known from the hop to it."""

    __slots__ = ("_channel", "_known", "_robin", "_taken", "has_more")
    weight = 1

    def __init__(self, robin: RoundRobin, channel: str, known: list[Row], taken: int = 0) -> None:
        self._robin = robin
        self._channel = channel
        self._known = known
        self._taken = taken
        self.has_more = True

    def give(self, share: int) -> Sequence[Row]:
        """The next messages, at most `share`."""
        known, upto = len(self._known), self._taken + share
        if upto > known:
            self._known += self._robin.heads(self._channel, upto - known, known)
        found = self._known[self._taken : upto]
        self._taken += len(found)
        self.has_more = len(found) == share
        return found


class Limited:
    """A visit to a channel with a row: it gives what its limits allow, and then may fall asleep."""

    __slots__ = ("_channel", "_limits", "_robin", "_taken", "_wake_at", "has_more")

    def __init__(self, robin: RoundRobin, row: sqlite3.Row) -> None:
        self._robin = robin
        self._channel: str = row["name"]
        self._limits = ChannelLimits(row, robin.queue, robin.now)
        self._wake_at: int | None = 0
        self._taken = 0
        self.has_more = True

    @property
    def weight(self) -> int:
        return self._limits.weight

    def give(self, share: int) -> Sequence[Row]:
        """The next messages, at most `share`, as far as the limits allow."""
        allowed = self._limits.allows()
        if allowed == 0:
            self._sleep(self._limits.opens_at())
            return []
        most = min(share, allowed)
        heads = self._robin.find(
            "limited_heads", channel=self._channel, most=most, taken=self._taken
        )
        if heads and self._robin.queue["fifo"]:
            held_until = heads[0][-1]
            if held_until > self._robin.now and not self._taken:
                self._sleep(None if held_until == FOREVER_MS else held_until)
                return []
            heads = list(takewhile(lambda head: head[-1] <= self._robin.now, heads))
        self._taken += len(heads)
        self._limits.take(len(heads))
        if len(heads) < most:
            self._sleep(None)
        elif most == allowed:
            self._sleep(self._limits.opens_at())
        return [head[:-1] for head in heads]

    def result(self) -> tuple[int | str | None, ...]:
        """The row's values after the visit, for the statement `served`."""
        limits, row = self._limits, (self._robin.queue["id"], self._channel)
        return self._taken, limits.tat_us, limits.depth_us, self._wake_at, *row

    def _sleep(self, until: int | None) -> None:
        """Let the channel sleep until a time; None: until a send, a settled lease or a policy."""
        self.has_more = False
        self._wake_at = until


Visit = Unlimited | Limited


class RoundRobin:
    """Chooses the messages of one `receive`, and writes down what limited channels gave."""

    def __init__(self, connection: Connection, queue: Queue, verb: Receive, now: int) -> None:
        self.queue = queue
        self.now = now
        self._connection = connection
        self._verb = verb
        self._left = verb.max_messages
        self._quantum = _LARGE_QUANTUM if verb.max_messages >= _LARGE_BATCH else 1
        self._has_limits = bool(queue["has_channels"]) or queue["is_limited"]
        self._visits: dict[str, Visit] = {}
        self.chosen: list[Row] = []
        """The messages to hand out."""
        self.turn: Turn | None = None
        """Start of the next `receive`; None: the deliveries tell."""

    def choose(self) -> None:
        """Choose the messages to hand out."""
        is_unlimited = self._take_unlimited()
        if not is_unlimited:
            self._go_on_with_last_turn()
            self._take_turn()
        while self._left and (again := {n: v for n, v in self._visits.items() if v.has_more}):
            self._go_round_again(again)
        if is_unlimited:
            self.turn = None
        results = [v.result() for v in self._visits.values() if isinstance(v, Limited)]
        if results:
            self._connection.executemany(_SQL["served"], results)

    def find(self, step: str, **parameters: Any) -> list[Row]:
        """The messages that a step finds in the queue."""
        return self._connection.tuples(_SQL[step], {"queue": self.queue["id"], **parameters})

    def heads(self, channel: str, most: int, known: int) -> list[Row]:
        """The first messages of a channel without limits, but for those that are known."""
        parameters: dict[str, Any] = {"channel": channel, "most": most, "known": known}
        shard = self._verb.shard
        if shard is None or channel:
            return self.find("heads", **parameters)
        return self.find("shard_heads", shard=shard.index, shards=shard.count, **parameters)

    # --- where no limit has a say ---------------------------------------------------------------

    def _take_unlimited(self) -> bool:
        """Take whole turns by the hops, without a look at each channel: possible if no limited
        channel is among them. False: one is, and nothing was taken.
        """
        if self._verb.shard is not None or self.queue["is_limited"] or self._is_any_awake():
            return False
        alone = self._alone()
        found: list[Row] = []
        if alone is not None:
            found += self.find("heads", channel=alone, most=self._left, known=0)
        else:
            for first, until in self._stretches():
                if len(found) < self._left:
                    found += self._hop(first, until, self._left - len(found))
        if self._has_limits and _channel.limited(
            self._connection, self.queue, {row[_CHANNEL] for row in found}
        ):
            return False
        self.chosen = found
        self._left -= len(found)
        if self._left:
            self._visits = {
                name: Unlimited(self, name, rows, taken=len(rows))
                for name, rows in _by_channel(found).items()
                if len(rows) == self._quantum
            }
        return True

    def _alone(self) -> str | None:
        """The only channel that has messages. It is only looked at where the last turn's filled a
        batch alone, as in a queue without channels: there need be no hopping.
        """
        turn = self._verb.turn
        if turn.channel is None or not 1 < self._left <= turn.served:
            return None
        return None if self._ask("has_others", channel=turn.channel) else turn.channel

    def _is_any_awake(self) -> bool:
        return bool(self.queue["has_channels"]) and self._ask("any_awake")

    def _ask(self, step: str, **parameters: Any) -> bool:
        values = {"queue": self.queue["id"], **parameters}
        return bool(self._connection.execute(_SQL[step], values).fetchone()[0])

    # --- channel by channel ---------------------------------------------------------------------

    def _take_turn(self) -> None:
        for first, until in self._stretches():
            for name, visit in self._between(first, until):
                self._visits.pop(name, None)  # the one that came first comes last, too
                self._visits[name] = visit
                self._take(name, visit, self._quantum)
                if not self._left:
                    return

    def _go_round_again(self, again: dict[str, Visit]) -> None:
        """A whole turn was not enough: as many more at once as fit, then what is left in turn."""
        turns = self._left // sum(visit.weight for visit in again.values())
        for name, visit in again.items():
            self._take(name, visit, turns or 1)

    def _take(self, name: str, visit: Visit, quantum: int, *, served: int = 0) -> None:
        """Take what a visit gives: a quantum times the weight, less what its turn gave already."""
        if not self._left:
            return
        share = quantum * visit.weight - served
        rows = visit.give(min(share, self._left))
        self.chosen += rows
        self._left -= len(rows)
        if rows:
            cut_off = 0 if self._left else share - len(rows)
            self.turn = Turn(name, self._quantum * visit.weight - cut_off)

    def _go_on_with_last_turn(self) -> None:
        """A channel that was cut off by the end of the last batch has not finished its turn."""
        turn = self._verb.turn
        name = turn.channel
        if name is None or not turn.served:
            return
        row = None
        if self._has_limits:
            row = _channel.rows(self._connection, self.queue["id"], (name,)).get(name)
        if row["wake_at"] != 0 if row is not None else self.queue["is_limited"]:
            return
        if not _is_in(name, self._verb.shard, limited=row is not None):
            return
        visit = Unlimited(self, name, []) if row is None else Limited(self, row)
        if self._quantum * visit.weight > turn.served:
            if row is not None:
                self._move_over(name)
            self._visits[name] = visit
            self._take(name, visit, self._quantum, served=turn.served)

    def _stretches(self) -> tuple[tuple[str, str | bytes], ...]:
        """The whole circle of names from the receiver's place on: from, and up to but without."""
        start = self._verb.turn.channel
        if start is None:
            return (("", _END),)
        return (start + "\0", _END), ("", start + "\0")

    def _between(self, first: str, until: str | bytes) -> Iterator[tuple[str, Visit]]:
        """The channels of a stretch that may have something, looked up some at a time."""
        shard = self._verb.shard
        while self._left:
            most = min(self._left * (1 if shard is None else shard.count), _LOOK_AT_MOST)
            found = self._hop(first, until, most)
            heads = _by_channel(found)
            awake = self._awake(first, until, most)
            ends = [
                max(names) for names, n in ((heads, len(found)), (awake, len(awake))) if n == most
            ]
            known_to = min(ends, default=None)
            limited = awake | _channel.limited(self._connection, self.queue, heads)
            for name in sorted(heads.keys() | awake.keys()):
                row = limited.get(name)
                is_mine = _is_in(name, shard, limited=row is not None)
                if is_mine and (known_to is None or name <= known_to):
                    yield name, self._visit(name, heads.get(name), row)
            if known_to is None:
                return
            first = known_to + "\0"

    def _hop(self, first: str, until: str | bytes, most: int) -> list[Row]:
        """The first messages of channels without limits, up to a quantum of each."""
        if most == 1:
            return self.find("first", first=first, until=until)
        return self.find("hop", first=first, until=until, most=most, quantum=self._quantum)

    def _awake(self, first: str, until: str | bytes, most: int) -> dict[str, sqlite3.Row]:
        """Limited channels that may have something to give."""
        if not self._has_limits:
            return {}
        parameters = {"queue": self.queue["id"], "first": first, "until": until, "most": most}
        return {row["name"]: row for row in self._connection.execute(_SQL["awake"], parameters)}

    def _visit(self, name: str, heads: list[Row] | None, row: sqlite3.Row | None) -> Visit:
        if visit := self._visits.get(name):
            return visit
        if row is None:
            assert heads is not None
            return Unlimited(self, name, heads if name or self._verb.shard is None else [])
        if heads:
            self._move_over(name)
        if row["paused_until"] is not None and row["paused_until"] <= self.now:
            self._connection.execute(_RESUME, (self.queue["id"], name))
        return Limited(self, row)

    def _move_over(self, channel: str) -> None:
        """Messages sent before the channel was limited go to the limited side, the first ones
        first, and enough of them that none behind them can be handed out before.
        """
        most = max(_MOVE_OVER, self._verb.max_messages)
        parameters = {"queue": self.queue["id"], "channel": channel, "most": most}
        self._connection.execute(_SQL["move_over"], parameters)


def _by_channel(found: Sequence[Row]) -> dict[str, list[Row]]:
    heads: dict[str, list[Row]] = {}
    for row in found:
        heads.setdefault(row[_CHANNEL], []).append(row)
    return heads


def _is_in(channel: str, shard: Shard | None, *, limited: bool) -> bool:
    """Whether the shard has the channel: by MD5, which PostgreSQL can compute as well. Each has
    some of the messages without a channel, unless these have limits, which are kept in one place.
    """
    if shard is None or (not channel and not limited):
        return True
    digest = hashlib.md5(channel.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % shard.count == shard.index
