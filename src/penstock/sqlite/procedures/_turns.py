"""The round robin of one `receive`: channels in the order of their names, once around.

Channels without limits are found by a skip scan of the messages, limited ones among the rows that
are awake; both come in order, so they are merged. Names hold no NUL, so `name + NUL` is the first
name after `name`; any text sorts before a blob, so an empty blob is the end of all names.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

from penstock.sqlite._connection import Connection
from penstock.sqlite.procedures import _channel
from penstock.sqlite.procedures._queue import is_limited
from penstock.sqlite.procedures._visits import SQL, Free, Limited, Visit
from penstock.words.entities import Shard
from penstock.words.verbs import Receive

_END = b""
_MOVE_OVER = 100
_LOOK_AT_MOST = 1_000


class Turns:
    """Chooses the messages of one `receive`, and writes down what limited channels gave."""

    def __init__(
        self, connection: Connection, queue: sqlite3.Row, verb: Receive, now: int
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._verb = verb
        self._now = now
        self._left = verb.max_messages
        self._quantum = 4 if verb.max_messages >= 40 else 1
        self._has_limits = bool(queue["has_channels"]) or is_limited(queue)
        self._visits: dict[str, Visit] = {}
        self.ids: list[int] = []

    def choose(self) -> list[int]:
        """The ids of the messages to hand out."""
        if self._verb.shard is None and not self._has_limits:
            self._take_free_turn()
        else:
            self._go_on_with_last_turn()
            self._take_turn()
        while self._left and (again := [v for v in self._visits.values() if v.has_more]):
            self._go_round_again(again)
        self._write_down()
        return self.ids

    def _take_free_turn(self) -> None:
        """Where there are no limits, what a turn gives is what the hops find."""
        known: dict[str, list[int]] = {}
        for first, until in self._stretches():
            found = self._hop(first, until, self._left)
            self.ids += [id_ for id_, _ in found]
            self._left -= len(found)
            if not self._left:
                return
            for id_, channel in found:
                known.setdefault(channel, []).append(id_)
        self._visits = {
            name: Free(self._connection, self._queue["id"], name, ids, taken=len(ids))
            for name, ids in known.items()
            if len(ids) == self._quantum
        }

    def _take_turn(self) -> None:
        for first, until in self._stretches():
            for name, visit in self._between(first, until):
                self._visits[name] = visit
                self._take(visit, self._quantum * visit.weight)
                if not self._left:
                    return

    def _go_round_again(self, again: list[Visit]) -> None:
        """A whole turn was not enough, so those that had more are visited again, from anywhere: if
        it were always from the same channel, the rest of a batch would always go to the same."""
        weights = [visit.weight for visit in again]
        share = -(-self._left // sum(weights))
        (start,) = self._connection.random.choices(range(len(again)), weights)
        for visit in again[start:] + again[:start]:
            self._take(visit, share * visit.weight)

    def _take(self, visit: Visit, share: int) -> None:
        if self._left:
            ids = visit.give(min(share, self._left))
            self._left -= len(ids)
            self.ids += ids

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
            self._take(visit, visit.weight * self._quantum - turn.served)

    def _stretches(self) -> tuple[tuple[str, str | bytes], ...]:
        """The whole circle of names from the place of the receiver on: from, and up to but without."""
        start = self._verb.turn.channel
        if start is None:
            return (("", _END),)
        return (start + "\0", _END), ("", start + "\0")

    def _between(self, first: str, until: str | bytes) -> Iterator[tuple[str, Visit]]:
        """The channels of a stretch that may have something, looked up some at a time."""
        shard = self._verb.shard
        while self._left:
            most = min(self._left * (1 if shard is None else shard.count), _LOOK_AT_MOST)
            heads: dict[str, list[int]] = {}
            found = self._hop(first, until, most)
            for id_, channel in found:
                heads.setdefault(channel, []).append(id_)
            awake = self._awake(first, until, most)
            known_to = min(
                (max(names) for names, n in ((heads, len(found)), (awake, len(awake))) if n == most),
                default=None,
            )
            for name in sorted(heads.keys() | awake.keys()):
                if (known_to is None or name <= known_to) and _is_in(name, shard):
                    yield name, self._visit(name, heads, awake)
            if known_to is None:
                return
            first = known_to + "\0"

    def _hop(self, first: str, until: str | bytes, most: int) -> list[tuple[int, str]]:
        """The first messages of channels without limits, up to a quantum of each."""
        about = {"queue": self._queue["id"], "first": first, "until": until, "most": most}
        return self._connection.execute(SQL["hop"], {**about, "quantum": self._quantum}).fetchall()

    def _awake(self, first: str, until: str | bytes, most: int) -> dict[str, sqlite3.Row]:
        """Limited channels that may have something to give."""
        if not self._has_limits:
            return {}
        about = {"queue": self._queue["id"], "first": first, "until": until, "most": most}
        return {row["name"]: row for row in self._connection.execute(SQL["awake"], about)}

    def _visit(
        self, name: str, heads: dict[str, list[int]], awake: dict[str, sqlite3.Row]
    ) -> Visit:
        if visit := self._visits.get(name):
            return visit
        row = awake.get(name)
        if name in heads:
            if row is None and self._has_limits:
                row = _channel.limited(self._connection, self._queue, (name,)).get(name)
            if row is None:
                return Free(self._connection, self._queue["id"], name, heads[name])
            self._move_over(name)
        assert row is not None
        return Limited(self._connection, self._queue, row, self._now)

    def _move_over(self, channel: str) -> None:
        """Messages sent before the channel was limited go to the limited side, the first ones
        first, and enough of them that none behind them can be handed out before."""
        most = max(_MOVE_OVER, self._verb.max_messages)
        about = {"queue": self._queue["id"], "channel": channel, "most": most}
        self._connection.execute(SQL["move_over"], about)

    def _write_down(self) -> None:
        results = [v.result() for v in self._visits.values() if isinstance(v, Limited)]
        if results:
            self._connection.executemany(SQL["served"], results)


def _is_in(channel: str, shard: Shard | None) -> bool:
    """Whether the shard has the channel: by MD5, which PostgreSQL can compute as well."""
    if shard is None:
        return True
    digest = hashlib.md5(channel.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % shard.count == shard.index
