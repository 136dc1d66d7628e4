"""How a move goes: copy while the file lives on, take over what changed, compare, close, finish.

A worker never finds anything on both sides: until the file is closed, the queues on PostgreSQL have
hidden names that no verb accepts; from then on the file says where they are. Each step writes how
far it came in the transaction that does it, so the next call goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from msgspec import convert

from turnabout.move import _rows
from turnabout.move._report import CannotTell, Moved, MovedQueue, Progress
from turnabout.move._source import Begun, Row, Source
from turnabout.move._target import RESERVE, MoveLedger, Target
from turnabout.words.errors import BrokenInvariant, Unavailable, UsageError

ROWS = 5_000
"""A transaction has at most this many rows, …"""
BYTES = 16 * 1024 * 1024
"""… or this many bytes of payload, and one message more."""
CHANGES = 10_000
CALM = 500
"""With at most this many changes since the last look, the file may be closed."""
ROUNDS = 50
"""After this many looks the file is closed however busy it is."""
SLACK = 1_000_000
"""This many ids may be given out on the target between a look at them and the reservation."""

Told = Callable[[Progress], object]


class Mover:
    """One move, from wherever it stands to its end."""

    def __init__(self, source: Source, target: Target, begun: Begun, told: Told) -> None:
        self._source = source
        self._target = target
        self._begun = begun
        self._told = told
        self._done = 0
        self._total = 0

    def run(self) -> Moved:
        """Carry the move to its end."""
        started = time.monotonic()
        ledger = self._ledger()
        if ledger.state == "done":
            return self._say_so(ledger)
        if self._begun.state == "copying":
            self._copy(ledger)
            self._follow(ledger)
            self._compare(ledger)
        return self._change_over(ledger, started)

    def _ledger(self) -> MoveLedger:
        ledger = self._target.ledger()
        if ledger is not None:
            return ledger
        if self._begun.state == "closed":
            raise UsageError(
                f"{self._target.place} knows nothing of this move, which had got to its last step: "
                "name the database that it went to, or give it up with --abort"
            )
        return self._target.begin(self._source.name, self._begun.seen_id)

    # --- while the file lives on ----------------------------------------------------------------

    def _copy(self, ledger: MoveLedger) -> None:
        """History, events and the messages that were there at the beginning, in parts."""
        self._estimate(ledger)
        with self._source.snapshot():
            queues = self._meet()
        for queue in queues:
            while self._copy_history(queue["id"]):
                pass
        while self._copy_events(ledger):
            pass
        while self._copy_messages(ledger):
            pass

    def _estimate(self, ledger: MoveLedger) -> None:
        with self._source.snapshot():
            messages, history = (self._source.counts(f"count_{w}") for w in ("messages", "history"))
        self._total = sum(n for n, _ in (*messages.values(), *history.values()))
        if ledger.copied_id or self._target.queues:
            there = self._target.counts("message_counts"), self._target.counts("history_counts")
            self._done = sum(n for counts in there for n, _ in counts.values())
        self._tell("copying")

    def _meet(self) -> list[Row]:
        """All queues of the file, each with a place on the target. Inside a snapshot."""
        queues = self._source.rows("queues")
        self._target.meet(queues)
        return queues

    def _copy_history(self, queue: int) -> int:
        with self._source.snapshot():
            rows = self._history(queue)
        if rows:
            with self._target.transaction():
                self._put_history(queue, rows)
            self._tell("history", len(rows))
        return len(rows)

    def _history(self, queue: int) -> list[Row]:
        """The next rows of a queue's history."""
        after = self._target.history_seqs[queue]
        return self._source.rows("history", queue=queue, after=after, most=ROWS)

    def _put_history(self, queue: int, rows: list[Row]) -> None:
        self._target.put("history", (_rows.history(row, self._target.queues) for row in rows))
        self._target.set_history(queue, rows[-1]["seq"])

    def _copy_events(self, ledger: MoveLedger) -> int:
        with self._source.snapshot():
            self._meet()
            rows = self._source.rows("events", after=ledger.event_seq, most=ROWS)
        if rows:
            with self._target.transaction():
                self._put_events(ledger, rows)
            self._tell("events")
        return len(rows)

    def _put_events(self, ledger: MoveLedger, rows: list[Row]) -> None:
        """With the numbers that they have in the file, in the transaction that began the move."""
        known = [row for row in rows if row["queue_id"] in self._target.queues]
        self._target.put(
            "event",
            (_rows.row_of(_rows.EVENT, r, self._target.queues, xid=ledger.xid) for r in known),
        )
        self._target.note("set_events", seq=rows[-1]["seq"])
        ledger.event_seq = rows[-1]["seq"]

    def _copy_messages(self, ledger: MoveLedger) -> int:
        with self._source.snapshot():
            self._meet()
            last = self._begun.last_id
            found = self._source.each("messages", after=ledger.copied_id, last=last)
            rows = [_rows.message(row, self._target.queues) for row in _some(found)]
        if rows:
            with self._target.transaction():
                self._target.put_messages(rows)
                self._target.note("set_copied", id=rows[-1][0])
            ledger.copied_id = rows[-1][0]
            self._tell("messages", len(rows))
        return len(rows)

    def _follow(self, ledger: MoveLedger) -> None:
        """Take over what has changed meanwhile, until little changes from look to look."""
        for _ in range(ROUNDS):
            with self._source.snapshot():
                count = self._catch_up(ledger, at_most=CHANGES)
            self._source.forget(ledger.change_seq)
            self._tell("changes")
            if count < CALM:
                return

    def _catch_up(self, ledger: MoveLedger, at_most: int) -> int:
        """One transaction of changes; how many. Inside a snapshot."""
        queues = self._meet()
        changes = self._source.changes(ledger.change_seq, at_most)
        count = changes.seq - ledger.change_seq
        new_history = [
            (queue["id"], rows) for queue in queues if (rows := self._history(queue["id"]))
        ]
        events = self._source.rows("events", after=ledger.event_seq, most=ROWS)
        changed = self._source.each("changed_messages", ids=json.dumps(changes.messages))
        rows = [_rows.message(row, self._target.queues) for row in changed]
        if not (count or new_history or events):
            return 0
        with self._target.transaction():
            self._target.change(changes, rows)
            for queue, history in new_history:
                self._put_history(queue, history)
            if events:
                self._put_events(ledger, events)
        ledger.change_seq = changes.seq
        full = [rows for _, rows in new_history if len(rows) == ROWS]
        return max(count, CALM if full or len(events) == ROWS else 0)

    def _compare(self, ledger: MoveLedger) -> None:
        """Is every message here as it is in the file, to the last byte? Asked while it lives on:
        of one snapshot, whose changes are taken over first.
        """
        with self._source.snapshot():
            self._catch_all(ledger, "changes")
            sums: dict[int, list[int]] = {}
            for place, row in enumerate(self._source.each("all_messages")):
                copied = _rows.message(row, self._target.queues)
                both = sums.setdefault(row["queue_id"], [0, 0])
                both[0] += 1
                both[1] += _rows.checksum(copied)
                if place % ROWS == 0:
                    self._tell("comparing")
            _must_agree(
                "messages", {q: tuple(n) for q, n in sums.items()}, self._target.counts("checksums")
            )
        self._tell("compared")

    def _catch_all(self, ledger: MoveLedger, step: str) -> None:
        while self._catch_up(ledger, at_most=CHANGES):
            self._tell(step)

    # --- the moment -----------------------------------------------------------------------------

    def _change_over(self, ledger: MoveLedger, started: float) -> Moved:
        """Close the file, take over the rest, give the queues their names, mark the file."""
        self._may_change_over()
        self._tell("closing")
        closed = time.monotonic()
        if self._begun.state == "copying":
            self._source.shut(self._target.place)
        try:
            self._tell("closed")
            with self._source.snapshot():
                self._catch_all(ledger, "rest")
                report = self._reveal(ledger, started, closed)
        except BaseException as error:
            found = self._target.find_out()
            if found is None:
                raise CannotTell(
                    f"{self._target.place} was lost in the last step of the move, which may have "
                    "been committed: the file stays closed until `turnabout move` is run again"
                ) from error
            if found.state != "done":
                self._source.reopen()
            if found.report is None or not isinstance(error, Unavailable):
                raise
            report = convert(found.report, Moved)  # it was committed, and only the answer was lost
        self._tell("revealed")
        self._source.finish(self._target.place)
        self._tell("marked")
        self._target.forget()
        self._tell("done")
        return report

    def _may_change_over(self) -> None:
        """Find out what would stop the last step, before the file is closed."""
        given = self._source.one("last_given")
        if given > self._begun.seen_id + RESERVE:
            raise UsageError(
                f"more than {RESERVE:,} messages were sent while the move ran, so ids could "
                "collide: give it up (--abort), and begin again"
            )
        with self._source.snapshot():
            names = [[row["name"] for row in self._source.rows(w)] for w in ("queues", "schedules")]
            self._target.refuse_used(*names)
        self._target.refuse_new()

    def _reveal(self, ledger: MoveLedger, started: float, closed: float) -> Moved:
        """All that is left, and the names, in one transaction."""
        source, target = self._source, self._target
        queues = source.rows("queues")
        with target.transaction():
            target.settle(queues)
            here = target.queues
            channels = source.each("channels", now_us=time.time_ns() // 1_000)
            target.put_channels(_rows.channel(r, here) for r in channels if r["queue_id"] in here)
            target.put_leases(_rows.row_of(_rows.LEASE, row, here) for row in source.each("leased"))
            target.limit()
            entries = (row for row in source.each("dedup") if row["queue_id"] in here)
            target.put("dedup", (_rows.row_of(_rows.DEDUP, row, here) for row in entries))
            schedules = source.each("schedules")
            target.put("schedule", (_rows.row_of(_rows.SCHEDULE, row) for row in schedules))
            target.put_redrives([_rows.redrive(row, here) for row in source.each("redrives")])
            target.add("add_namespace", _rows.NAMESPACE, source.each("namespaces"))
            target.add("add_token", _rows.TOKEN, source.each("tokens"))
            target.put_batches(source.each("batches"))
            target.skip_events(ledger.event_seq)
            self._count()
            now = time.monotonic()
            report = replace(
                contents(source, target.place),
                events_cursor=f"{ledger.xid}.",
                seconds=round(now - started, 3),
                closed_seconds=round(now - closed, 3),
            )
            target.reveal(asdict(report))
            self._tell("revealing")
        return report

    def _count(self) -> None:
        """The last look: the same numbers of messages, ids, leases and rows of history; and each
        message stands somewhere.
        """
        source, target = self._source, self._target
        messages = source.counts("count_messages")
        pairs = (
            ("messages", messages, "message_counts"),
            ("places", {q: (n,) for q, (n, _) in messages.items()}, "place_counts"),
            ("leases", source.counts("count_leased"), "leased_counts"),
            ("history", source.counts("count_history"), "history_counts"),
        )
        for what, there, step in pairs:
            _must_agree(what, there, target.counts(step))

    def _say_so(self, ledger: MoveLedger) -> Moved:
        """The last step was committed, and the process that did it came no further."""
        assert ledger.report is not None
        if self._begun.state != "moved":
            self._source.finish(self._target.place)
        self._tell("marked")
        self._target.forget()
        self._tell("done")
        return convert(ledger.report, Moved)

    def _tell(self, step: str, more: int = 0) -> None:
        self._done += more
        self._told(Progress(step, self._done, max(self._total, self._done)))


def contents(source: Source, target: str) -> Moved:
    """What a move of the file moves. Inside a snapshot."""
    steps = ("count_messages", "count_leased", "count_history", "count_policies")
    counts = [source.counts(step) for step in steps]
    queues = (
        MovedQueue(row["name"], *(found.get(row["id"], (0,))[0] for found in counts))
        for row in source.rows("queues")
    )
    return Moved(
        source=source.name,
        target=target,
        queues=tuple(queues),
        dedup_entries=source.one("count_dedup"),
        schedules=len(source.rows("schedules")),
        redrives=len(source.rows("redrives")),
        tokens=len(source.rows("tokens")),
        sink_batches=len(source.rows("batches")),
        left=source.left(),
        events_cursor=None,
        seconds=0.0,
        closed_seconds=0.0,
    )


def _some(found: Iterator[Row]) -> Iterator[Row]:
    """The next messages, as many as one transaction takes."""
    size = 0
    for count, row in enumerate(found, 1):
        yield row
        size += len(row["payload"])
        if count >= ROWS or size >= BYTES:
            return


def _must_agree(what: str, there: dict[int, Any], here: dict[int, Any]) -> None:
    if there != here:
        apart = [q for q in there.keys() | here.keys() if there.get(q) != here.get(q)]
        raise BrokenInvariant(
            f"the {what} are not the same on both sides; queues: {len(apart)} "
            f"(queue {apart[0]}: {there.get(apart[0])} in the file, {here.get(apart[0])} on the "
            "target). Nothing has happened to the file, which is in use as before: give the move "
            "up with --abort, and please report this"
        )
