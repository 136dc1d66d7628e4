"""The round robin of one `receive`: channels in the order of their names, once around.

Channels without limits are found by a skip scan of the messages, limited ones among the rows that
are awake; both come in order, so they are merged. Names hold no NUL, so `name + NUL` is the first
name after `name`; any text sorts before a blob, so an empty blob is the end of all names.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Literal

from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _channel
from turnabout.sqlite.procedures._queue import Queue
from turnabout.sqlite.procedures._visits import SQL, Found, Free, Limited, Visit
from turnabout.words.entities import Delivery, Shard, Turn
from turnabout.words.verbs import Receive

_END = b""
_MOVE_OVER = 100
_LOOK_AT_MOST = 1_000
_CHANNEL = Delivery._fields.index("channel")


class Turns:
    """Chooses the messages of one `receive`, and writes down what limited channels gave."""

    def __init__(
        self,
        connection: Connection,
        queue: Queue,
        verb: Receive,
        now: int,
        *,
        light: bool = False,
    ) -> None:
        """`light`: ids will do, wherever they come from."""
        self._connection = connection
        self._queue = queue
        self._verb = verb
        self._now = now
        self._light = light
        self._left = verb.max_messages
        self._quantum = 4 if verb.max_messages >= 40 else 1
        self._is_limited = queue["is_limited"]
        self._has_limits = bool(queue["has_channels"]) or self._is_limited
        self._visits: dict[str, Visit] = {}
        self.chosen: list[Found] = []
        """The messages to hand out: ids, or deliveries if they `are_whole`."""
        self.are_whole = False
        self.turn: Turn | None = None
        """Where the next `receive` goes on; None: as the deliveries tell."""

    def choose(self) -> None:
        """Choose the messages to hand out."""
        is_free = self._take_free_turn()
        if not is_free:
            self._go_on_with_last_turn()
            self._take_turn()
        while self._left and (again := {n: v for n, v in self._visits.items() if v.has_more}):
            self._go_round_again(again)
        if is_free:
            self.turn = None
        self._write_down()

    def _take_free_turn(self) -> bool:
        """Where no limited channel has a say, what a turn gives is what the hops find, and it need
        not be looked at channel by channel. False: one has, and nothing was taken.
        """
        if self._verb.shard is not None or self._is_limited or self._is_any_awake():
            return False
        found: list[Found] = []
        hop, heads = ("hop", "heads") if self._light else ("hop_whole", "heads_whole")
        if self._left == 1 and not self._light:
            hop = "first_whole"
        channel = 1 if self._light else _CHANNEL
        alone = self._alone()
        if alone is not None:
            found += self._free(heads, alone, []).give(self._left)
        for first, until in self._stretches() if alone is None else ():
            if len(found) < self._left:
                found += self._hop(hop, first, until, self._left - len(found))
        if self._has_limits and _channel.limited(
            self._connection, self._queue, {row[channel] for row in found}
        ):
            return False
        self.chosen = found
        self.are_whole = not self._light
        self._left -= len(found)
        if self._left:
            known = _by_channel(found, channel)
            self._visits = {
                name: self._free(heads, name, rows, taken=len(rows))
                for name, rows in known.items()
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
        about = {"queue": self._queue["id"], "channel": turn.channel}
        has_others = self._connection.execute(SQL["has_others"], about).fetchone()[0]
        return None if has_others else turn.channel

    def _is_any_awake(self) -> bool:
        if not self._queue["has_channels"]:
            return False
        about = {"queue": self._queue["id"]}
        return bool(self._connection.execute(SQL["any_awake"], about).fetchone()[0])

    def _take_turn(self) -> None:
        for first, until in self._stretches():
            for name, visit in self._between(first, until):
                self._visits[name] = visit
                self._take(name, visit, self._quantum)
                if not self._left:
                    return

    def _go_round_again(self, again: dict[str, Visit]) -> None:
        """A whole turn was not enough: as many more at once as fill the batch."""
        turns = -(-self._left // sum(visit.weight for visit in again.values()))
        for name, visit in again.items():
            self._take(name, visit, turns)

    def _take(self, name: str, visit: Visit, quantum: int, *, served: int = 0) -> None:
        """What a visit gives: a quantum times the weight, less what its turn gave already."""
        if not self._left:
            return
        share = quantum * (visit.weight - served)
        given = visit.give(min(share, self._left))
        self.chosen += given
        self._left -= len(given)
        is_cut_off = not self._left and len(given) < share
        served = served + len(given) // quantum if is_cut_off else visit.weight
        if given and served:
            self.turn = Turn(name, served)

    def _go_on_with_last_turn(self) -> None:
        """A channel whose weight is above what its last turn gave has not finished its turn."""
        turn = self._verb.turn
        if turn.channel is None or not turn.served or not self._has_limits:
            return
        row = _channel.rows(self._connection, self._queue["id"], (turn.channel,)).get(turn.channel)
        if row is None or row["wake_at"] != 0 or not _is_in(turn.channel, self._verb.shard):
            return
        visit = Limited(self._connection, self._queue, row, self._now)
        if visit.weight > turn.served:
            self._move_over(turn.channel)
            self._visits[turn.channel] = visit
            self._take(turn.channel, visit, self._quantum, served=turn.served)

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
            found = self._hop("hop", first, until, most)
            heads = _by_channel(found, 1)
            awake = self._awake(first, until, most)
            ends = [
                max(names) for names, n in ((heads, len(found)), (awake, len(awake))) if n == most
            ]
            known_to = min(ends, default=None)
            limited = awake | _channel.limited(self._connection, self._queue, heads)
            for name in sorted(heads.keys() | awake.keys()):
                if (known_to is None or name <= known_to) and _is_in(name, shard):
                    yield name, self._visit(name, heads.get(name), limited.get(name))
            if known_to is None:
                return
            first = known_to + "\0"

    def _hop(
        self,
        step: Literal["hop", "hop_whole", "first_whole"],
        first: str,
        until: str | bytes,
        most: int,
    ) -> list[Found]:
        """The first messages of channels without limits, up to a quantum of each."""
        about = {"queue": self._queue["id"], "first": first, "until": until, "most": most}
        return self._connection.tuples(SQL[step], {**about, "quantum": self._quantum})

    def _awake(self, first: str, until: str | bytes, most: int) -> dict[str, sqlite3.Row]:
        """Limited channels that may have something to give."""
        if not self._has_limits:
            return {}
        about = {"queue": self._queue["id"], "first": first, "until": until, "most": most}
        return {row["name"]: row for row in self._connection.execute(SQL["awake"], about)}

    def _visit(self, name: str, heads: list[Found] | None, row: sqlite3.Row | None) -> Visit:
        if visit := self._visits.get(name):
            return visit
        if row is None:
            assert heads is not None
            return self._free("heads", name, heads)
        if heads:
            self._move_over(name)
        return Limited(self._connection, self._queue, row, self._now)

    def _free(
        self,
        step: Literal["heads", "heads_whole"],
        name: str,
        known: list[Found],
        *,
        taken: int = 0,
    ) -> Free:
        about = {"queue": self._queue["id"], "channel": name}
        return Free(self._connection, step, about, known, taken=taken)

    def _move_over(self, channel: str) -> None:
        """Messages sent before the channel was limited go to the limited side, the first ones
        first, and enough of them that none behind them can be handed out before.
        """
        most = max(_MOVE_OVER, self._verb.max_messages)
        about = {"queue": self._queue["id"], "channel": channel, "most": most}
        self._connection.execute(SQL["move_over"], about)

    def _write_down(self) -> None:
        results = [v.result() for v in self._visits.values() if isinstance(v, Limited)]
        if results:
            self._connection.executemany(SQL["served"], results)


def _by_channel(found: Sequence[Found], place: int) -> dict[str, list[Found]]:
    """The rows by the channel that stands at that place in them."""
    heads: dict[str, list[Found]] = {}
    for row in found:
        heads.setdefault(row[place], []).append(row)
    return heads


def _is_in(channel: str, shard: Shard | None) -> bool:
    """Whether the shard has the channel: by MD5, which PostgreSQL can compute as well."""
    if shard is None:
        return True
    digest = hashlib.md5(channel.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % shard.count == shard.index
