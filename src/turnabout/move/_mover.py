"""How a move goes: copy while the file lives on, take over what changed, compare, close, finish.

A worker never finds anything on both sides: until the file is closed, the queues on PostgreSQL have
hidden names that no verb accepts; from then on the file says where they are. Each step writes how
far it came in the transaction that does it, so the next call goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

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
            messages = sum(n for n, _ in self._source.message_counts().values())
            history = sum(n for n, _ in self._source.history_counts().values())
        self._total = messages + history
        if ledger.copied_id or self._target.queues:
            there = self._target.counts("message_counts"), self._target.counts("history_counts")
            self._done = sum(n for counts in there for n, _ in counts.values())
        self._tell("copying")

    def _meet(self) -> list[Row]:
        """All queues of the file, each with a place on the target. Inside a snapshot."""
        queues = self._source.queues()
        self._target.meet(queues)
        return queues

    def _copy_history(self, queue: int) -> int:
        with self._source.snapshot():
            rows = self._source.history(queue, self._target.history_seqs[queue], ROWS)
        if rows:
            with self._target.transaction():
                self._put_history(queue, rows)
            self._tell("history", len(rows))
        return len(rows)

    def _put_history(self, queue: int, rows: list[Row]) -> None:
        self._target.put("history", (_rows.history(row, self._target.queues) for row in rows))
        self._target.set_history(queue, rows[-1]["seq"])

    def _copy_events(self, ledger: MoveLedger) -> int:
        with self._source.snapshot():
            self._meet()
            rows = self._source.events(ledger.event_seq, ROWS)
        if rows:
            with self._target.transaction():
                self._put_events(ledger, rows)
            self._tell("events")
        return len(rows)

    def _put_events(self, ledger: MoveLedger, rows: list[Row]) -> None:
        known = [row for row in rows if row["queue_id"] in self._target.queues]
        self._target.put(
            "event", (_rows.event(row, self._target.queues, ledger.xid) for row in known)
        )
        self._target.set_events(rows[-1]["seq"])
        ledger.event_seq = rows[-1]["seq"]

    def _copy_messages(self, ledger: MoveLedger) -> int:
        with self._source.snapshot():
            limited = _rows.limited_queues(self._meet())
            found = self._source.messages(ledger.copied_id, self._begun.last_id)
            rows = [_rows.message(row, self._target.queues, limited) for row in _some(found)]
        if rows:
            with self._target.transaction():
                self._target.put_messages(rows)
                self._target.set_copied(rows[-1][0])
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
        limited = _rows.limited_queues(queues)
        changes = self._source.changes(ledger.change_seq, at_most)
        count = changes.seq - ledger.change_seq
        new_history = [
            (queue["id"], rows)
            for queue in queues
            if (rows := self._source.history(queue["id"], self._seq(queue["id"]), ROWS))
        ]
        events = self._source.events(ledger.event_seq, ROWS)
        changed = self._source.changed(changes.messages)
        rows = [_rows.message(row, self._target.queues, limited) for row in changed]
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

    def _seq(self, queue: int) -> int:
        return self._target.history_seqs[queue]

    def _compare(self, ledger: MoveLedger) -> None:
        """Is every message here as it is in the file, to the last byte? Asked while it lives on:
        of one snapshot, whose changes are taken over first.
        """
        with self._source.snapshot():
            self._catch_all(ledger, "changes")
            limited = _rows.limited_queues(self._source.queues())
            sums: dict[int, list[int]] = {}
            for place, row in enumerate(self._source.all_messages()):
                copied = _rows.message(row, self._target.queues, limited)
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
            report = Moved.of(found.report)  # it was committed, and only the answer was lost
        self._tell("revealed")
        self._source.finish(self._target.place)
        self._tell("marked")
        self._target.forget()
        self._tell("done")
        return report

    def _may_change_over(self) -> None:
        """Find out what would stop the last step, before the file is closed."""
        given = self._source.last_given()
        if given > self._begun.seen_id + RESERVE:
            raise UsageError(
                f"more than {RESERVE:,} messages were sent while the move ran, so ids could "
                "collide: give it up (--abort), and begin again"
            )
        with self._source.snapshot():
            names = [row["name"] for row in self._source.queues()]
            self._target.refuse_used(names, [row["name"] for row in self._source.schedules()])
        self._target.refuse_new()

    def _reveal(self, ledger: MoveLedger, started: float, closed: float) -> Moved:
        """All that is left, and the names, in one transaction."""
        source, target = self._source, self._target
        queues = source.queues()
        with target.transaction():
            target.settle(queues)
            here = target.queues
            channels = source.channels(time.time_ns() // 1_000_000)
            target.put_channels(_rows.channel(r, here) for r in channels if r["queue_id"] in here)
            entries = (_rows.dedup(r, here) for r in source.dedup() if r["queue_id"] in here)
            dedup = target.put("dedup", entries)
            schedules = target.put("schedule", map(_rows.schedule, source.schedules()))
            redrives = [_rows.redrive(row, here) for row in source.redrives()]
            target.put_redrives(redrives)
            target.put_namespaces(map(_rows.namespace, source.namespaces()))
            tokens = target.put_tokens(map(_rows.token, source.tokens()))
            batches = target.put_batches(source.batches())
            target.skip_events(ledger.event_seq)
            self._count()
            now = time.monotonic()
            report = Moved(
                source=source.name,
                target=target.place,
                queues=queues_of(source),
                dedup_entries=dedup,
                schedules=schedules,
                redrives=len(redrives),
                tokens=tokens,
                sink_batches=batches,
                left=source.left(),
                events_cursor=f"{ledger.xid}.",
                seconds=round(now - started, 3),
                closed_seconds=round(now - closed, 3),
            )
            target.reveal(asdict(report))
            self._tell("revealing")
        return report

    def _count(self) -> None:
        """The last look: the same numbers of messages, ids, leases and rows of history."""
        source, target = self._source, self._target
        pairs = (
            ("messages", source.message_counts(), "message_counts"),
            ("leases", {q: (n,) for q, n in source.leased_counts().items()}, "leased_counts"),
            ("history", source.history_counts(), "history_counts"),
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
        return Moved.of(ledger.report)

    def _tell(self, step: str, more: int = 0) -> None:
        self._done += more
        self._told(Progress(step, self._done, max(self._total, self._done)))


def queues_of(source: Source) -> tuple[MovedQueue, ...]:
    """The contents of the file. Inside a snapshot."""
    messages, leased = source.message_counts(), source.leased_counts()
    history, policies = source.history_counts(), source.policy_counts()
    return tuple(
        MovedQueue(
            row["name"],
            messages.get(row["id"], (0, 0))[0],
            leased.get(row["id"], 0),
            history.get(row["id"], (0, 0))[0],
            policies.get(row["id"], 0),
        )
        for row in source.queues()
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
