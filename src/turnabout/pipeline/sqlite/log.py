"""The log: history in the order of commits, read in ranges that never change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from turnabout.pipeline import verbs as p
from turnabout.pipeline.sqlite.positions import parsed, text_of
from turnabout.pipeline.sqlite.statements import statements
from turnabout.sqlite._connection import Connection
from turnabout.sqlite.procedures import _floor, _queue
from turnabout.words.limits import ID_MAX

_SQL = statements("log")
_PURGE = statements("log_purge")
_LAG_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of one queue: the place of the last message that ever ended there, that of the last
    row (0: there is none), and up to where rows were removed.
    """

    ended: int
    last: int
    floor: int


def log_next(
    connection: Connection, verb: p.LogNext, _now: int
) -> p.LogRange | p.LogLost | p.LogAhead:
    """The next rows, of all queues alike."""
    after = parsed(verb.after)
    logs = _logs(connection)
    ended = {queue: log.ended for queue, log in logs.items()}
    if any(queue > 0 and place > ended.get(queue, -1) for queue, place in after.items()):
        return p.LogAhead(text_of(_ends(logs)))
    lost = [queue for queue, log in logs.items() if _seen(after, queue) < log.floor]
    if lost and verb.after != p.START and not verb.ignore_loss:
        return p.LogLost(text_of({queue: log.floor for queue, log in logs.items()}))
    walk = _Walk(connection, after, logs)
    messages = walk.take(verb.limit)
    if not messages:
        return p.LogRange(verb.after, verb.after, 0)
    return p.LogRange(verb.after, text_of(_forgiven(walk.places, logs)), messages, walk.more)


def log_at(connection: Connection, verb: p.LogAt, _now: int) -> str:
    """The position before an instant."""
    logs = _logs(connection)
    places = {
        queue: max(log.floor, log.last)
        if not log.last
        else _before(connection, queue, log.last, verb.at)
        for queue, log in logs.items()
    }
    return text_of(_forgiven(places, logs))


def log_cut(connection: Connection, verb: p.LogCut, _now: int) -> tuple[p.LogRange, ...]:
    """A range in parts, queue after queue."""
    after, until = parsed(verb.after), parsed(verb.until)
    counts = {
        queue: _count(connection, queue, after.get(queue, 0), place)
        for queue, place in sorted(until.items())
        if place > after.get(queue, 0)
    }
    total = sum(counts.values())
    if not total:
        return ()
    parts = min(verb.parts, total)
    edges = [total * n // parts for n in range(parts + 1)]
    sizes = [upto - first for first, upto in pairwise(edges)]
    cut: list[p.LogRange] = []
    begin, places, room = verb.after, dict(after), sizes[0]
    for queue, count in counts.items():
        left = count
        while left:
            rows = min(left, room)
            if rows < left:
                about = {"queue": queue, "after": places.get(queue, 0), "rows": rows}
                places[queue] = connection.execute(_SQL["nth"], about).fetchone()[0]
            else:
                places[queue] = until[queue]
            left -= rows
            room -= rows
            if not room and len(cut) < len(sizes) - 1:
                cut.append(p.LogRange(begin, text_of(places), sizes[len(cut)]))
                begin, room = cut[-1].until, sizes[len(cut)]
        places[queue] = until[queue]
    return (*cut, p.LogRange(begin, verb.until, sizes[-1]))


def log_files(_connection: Connection, _verb: p.LogFiles, _now: int) -> tuple[p.LogFile, ...]:
    """None: all is in the one file."""
    return ()


def log_look(connection: Connection, _verb: p.LogLook, _now: int) -> p.LogState:
    """Return the log's end and its floor. Nothing holds it back on SQLite."""
    logs = _logs(connection)
    floor = text_of({queue: log.floor for queue, log in logs.items()})
    return p.LogState(text_of(_ends(logs)), floor, None)


def log_purge(connection: Connection, verb: p.LogPurge, _now: int) -> int:
    """Remove the oldest rows, or count them."""
    until = parsed(verb.until)
    removed = 0
    for queue, log in sorted(_logs(connection).items()):
        upto = min(until.get(queue, 0), log.last)
        if upto:
            upto = min(upto, _before(connection, queue, log.last, verb.finished_before))
        if verb.dry_run:
            removed += _count(connection, queue, 0, upto)
        elif upto and removed < verb.limit:
            about = {"queue": queue, "upto": upto, "most": verb.limit - removed}
            (last,) = connection.execute(_PURGE["last"], about).fetchone()
            about["upto"] = last
            removed += connection.execute(_PURGE["purge"], about).rowcount
            _floor.raise_to(connection, queue, last)
    return removed


def watermark_set(connection: Connection, verb: p.WatermarkSet, now: int) -> None:
    """Note how far an archive has come."""
    _queue.be_here(connection)
    parsed(verb.position)
    about = {"archive": verb.archive, "position": verb.position, "messages": verb.messages}
    connection.execute(statements("watermark_set")["set"], {**about, "now": now})


def watermark_delete(connection: Connection, verb: p.WatermarkDelete, _now: int) -> bool:
    """Forget an archive; whether it was there."""
    _queue.be_here(connection)
    about = {"archive": verb.archive}
    return connection.execute(statements("watermark_delete")["delete"], about).rowcount > 0


def watermark_list(
    connection: Connection, _verb: p.WatermarkList, now: int
) -> tuple[p.Watermark, ...]:
    """Archives by name, and how far behind they are."""
    logs = _logs(connection)
    found = connection.execute(statements("watermark_list")["all"]).fetchall()
    return tuple(
        p.Watermark(name, position, rows, at, *_lag(connection, parsed(position), logs, now))
        for name, position, rows, at in found
    )


class _Walk:
    """A reader's way through the logs of all queues."""

    def __init__(
        self, connection: Connection, after: Mapping[int, int], logs: Mapping[int, _Log]
    ) -> None:
        self._connection = connection
        self._logs = logs
        self.places = {queue: after.get(queue, 0) for queue in {*logs, *after} if queue > 0}

    @property
    def more(self) -> bool:
        """Whether there are rows behind the places."""
        return any(log.last > self.places[queue] for queue, log in self._logs.items())

    def take(self, limit: int | None) -> int:
        """Go on by up to `limit` rows, as many in each queue as there are; None: by all. How many
        there were.
        """
        left = ID_MAX if limit is None else limit
        while left and self.more:
            for queue, share in self._shares(left).items():
                left -= self._take(queue, share)
        return (ID_MAX if limit is None else limit) - left

    def _shares(self, left: int) -> dict[int, int]:
        """Divide the limit among queues: those with fewer rows leave the others more. Rows are not
        counted; some places may have none.
        """
        behind = sorted(
            (log.last - self.places[queue], queue)
            for queue, log in self._logs.items()
            if log.last > self.places[queue]
        )
        shares: dict[int, int] = {}
        for place, (rows, queue) in enumerate(behind):
            shares[queue] = min(rows, left // (len(behind) - place))
            left -= shares[queue]
        return {queue: share for queue, share in sorted(shares.items()) if share}

    def _take(self, queue: int, share: int) -> int:
        """Go on in one queue; how many rows that was."""
        about = {"queue": queue, "after": self.places[queue], "rows": share}
        row = self._connection.execute(_SQL["nth"], about).fetchone()
        if row is not None:
            self.places[queue] = row["seq"]
            return share
        last = self._logs[queue].last
        count = _count(self._connection, queue, self.places[queue], last)
        self.places[queue] = last
        return count


def _logs(connection: Connection) -> dict[int, _Log]:
    """The logs of all queues that there are, and of those that are gone."""
    found = connection.tuples(_SQL["queues"], {})
    return {
        queue: _Log(max(ended, last or 0), last or 0, floor) for queue, ended, last, floor in found
    }


def _ends(logs: Mapping[int, _Log]) -> dict[int, int]:
    """The end of everything."""
    return {queue: max(log.last, log.floor) for queue, log in logs.items()}


def _seen(places: Mapping[int, int], queue: int) -> int:
    """Up to where a reader has read a queue, or knows that it missed something."""
    return max(places.get(queue, 0), places.get(-queue, 0))


def _forgiven(places: Mapping[int, int], logs: Mapping[int, _Log]) -> dict[int, int]:
    """The places, with what is known to be missing: rows below the floor that are left are to be
    read, and of the others this reader knows.
    """
    found = {queue: place for queue, place in places.items() if queue > 0}
    for queue, log in logs.items():
        place = found.get(queue, 0)
        if place < log.floor:
            if log.last > place:
                found[-queue] = log.floor
            else:
                found[queue] = log.floor
    return found


def _before(connection: Connection, queue: int, last: int, at: int) -> int:
    """The place of the last row that finished before an instant; 0: none did. As there is one
    writer, the rows are in order of time, so it is found by halving.
    """
    low, high = 0, last  # rows up to `low` finished before; the first that did not is up to `high`
    parameters = {"queue": queue, "seq": last}
    newest = connection.execute(_SQL["at_or_after"], parameters).fetchone()
    if newest["finished_at"] < at:
        return last
    while low < high:
        middle = (low + high) // 2
        row = connection.execute(
            _SQL["at_or_after"], {"queue": queue, "seq": middle + 1}
        ).fetchone()
        if row["finished_at"] < at:
            low = row["seq"]
        else:
            high = middle
    return low


def _count(connection: Connection, queue: int, after: int, upto: int, most: int = -1) -> int:
    about = {"queue": queue, "after": after, "upto": upto, "most": most}
    return connection.execute(_SQL["count"], about).fetchone()[0]


def _lag(
    connection: Connection, places: Mapping[int, int], logs: Mapping[int, _Log], now: int
) -> tuple[int, int]:
    """Rows behind a position, and since when the first of them has waited."""
    lag = 0
    first = now
    for queue, log in logs.items():
        place = places.get(queue, 0)
        if log.last <= place:
            continue
        if lag < _LAG_MAX:
            lag += _count(connection, queue, place, log.last, _LAG_MAX - lag)
        about = {"queue": queue, "seq": place + 1}
        row = connection.execute(_SQL["at_or_after"], about).fetchone()
        first = min(first, row["finished_at"])
    return lag, now - first
