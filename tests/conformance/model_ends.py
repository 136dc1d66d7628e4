"""Endings in the model: how messages end, die, move and come back, and what history keeps."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tests.conformance.model_rows import Message, Queue, Row, Told
from turnabout import Dead, Origin
from turnabout.words import limits
from turnabout.words.outcomes import Blocked, Cancelled, CancelRequested, NotWaiting, Retried
from turnabout.words.records import Event, HistoryEntry, RedriveFilter, Result
from turnabout.words.value import replace


class Ends:
    """The part of the model that ends messages, and brings back the dead."""

    clock: Callable[[], int]
    queues: dict[str, Queue]
    given: set[int]

    def _end(self, queue: Queue, m: Message, outcome: str, result: Result | None = None) -> None:
        """It has ended here: counted, and kept in history if the queue keeps such rows."""
        del queue.messages[m.id]
        queue.tell(outcome, m)
        setattr(queue, outcome, getattr(queue, outcome) + 1)
        at = None if outcome == "expired" else self.clock()
        if queue.keeps(outcome):
            story = (m.attempt, m.failures, m.crashes, m.last_error)
            queue.history.append(Row(m.id, m.channel, outcome, at, *story, result, m.note))

    def _charge(
        self, queue: Queue, m: Message, what: str, *, retry: bool = True
    ) -> Dead | Blocked | None:
        """Charge an attempt; None while there are more, else what became of the message."""
        setattr(m, what, getattr(m, what) + 1)
        used_up = queue.exhausted(m, m.failures + m.crashes)
        if retry and not used_up:
            return None
        if not retry:
            return self._die(queue, m, "refused")
        by_crash = used_up == "attempts" and what == "crashes"
        return self._die(queue, m, "crashes" if by_crash else str(used_up))

    def _die(self, queue: Queue, m: Message, reason: str) -> Dead | Blocked:
        """What becomes of a message that does not come back."""
        way = queue.settings.on_exhausted
        if way == "block":
            m.status, m.at = "ready", limits.FOREVER_MS
            queue.tell("failed", m)
            return Blocked()
        if way == "drop" or queue.grave is None:
            self._end(queue, m, "dead")
            return Dead(None)
        self._bury(queue, m, reason)
        if way == "dead_letter_channel":
            for other in queue.of(m.channel):
                if other.status != "leased":
                    self._bury(queue, other, "channel")
        return Dead(queue.grave)

    def _bury(self, queue: Queue, m: Message, reason: str) -> None:
        """It has ended as dead here, and moves to the dead-letter queue."""
        self._end(queue, m, "dead")
        redrives = 0 if m.origin is None else m.origin.redrives
        charges = m.failures, m.crashes
        said = m.errors[0].error if m.errors else None, m.last_error
        m.origin = Origin(queue.name, reason, *charges, self.clock(), *said, redrives, m.errors)
        m.cancel_requested = False
        assert queue.grave is not None
        self._arrive(self.queues[queue.grave], m)

    def _arrive(self, queue: Queue, m: Message) -> None:
        m.failures, m.crashes, m.errors, m.last_error = 0, 0, (), None
        m.delivered_before = m.attempt
        m.status, m.at, m.expires_at = "ready", self.clock(), None
        queue.messages[m.id] = m
        queue.sent += 1
        queue.tell("created", m, m.at)

    # --- cancel, retry, removal ---

    def cancel(self, name: str, number: int) -> Cancelled | CancelRequested | NotWaiting:
        queue = self.queues[name]
        m = queue.messages.get(number)
        if m is None:
            return NotWaiting("gone")
        if m.status == "leased":
            m.cancel_requested = True
            return CancelRequested()
        self._end(queue, m, "cancelled")
        return Cancelled()

    def retry(self, name: str, number: int) -> Retried | NotWaiting:
        m = self.queues[name].messages.get(number)
        if m is None:
            return NotWaiting("gone")
        if m.status == "leased":
            return NotWaiting("leased")
        m.status, m.at, m.failures, m.crashes = "ready", self.clock(), 0, 0
        m.delivered_before = m.attempt
        self.queues[name].tell("deferred", m, m.at)
        return Retried()

    def purge(self, name: str, channel: str | None, state: str | None) -> int:
        queue = self.queues[name]
        if state != "leased":
            self._run_timers(queue)
        gone = [
            m
            for m in queue.messages.values()
            if channel in (None, m.channel) and (m.status == "leased") == (state == "leased")
        ]
        for m in gone:
            self._end(queue, m, "cancelled")
        return len(gone)

    def delete_channel(self, name: str, channel: str) -> int:
        queue = self.queues[name]
        queue.policies.pop(channel, None)
        queue.passed_over.clear()
        return self.purge(name, channel, None)

    # --- redrive ---

    def matching(self, name: str, chosen: RedriveFilter, most: int) -> tuple[set[int], set[int]]:
        """The waiting messages that a redrive to where they died would move, and would skip."""
        move, skip = set[int](), set[int]()
        for m in self.queues[name].messages.values():
            if m.status == "leased" or chosen.channel not in (None, m.channel):
                continue
            origin = m.origin
            if chosen.error is not None and chosen.error not in (
                (origin and origin.last_error) or ""
            ):
                continue
            fine = origin is not None and origin.queue in self.queues and origin.redrives < most
            (move if fine else skip).add(m.id)
        return move, skip

    def redriven(self, name: str, there: Sequence[Any], chosen: RedriveFilter, most: int) -> int:
        """Steps were taken, and now these are left; how many have moved, all of them rightly."""
        source = self.queues[name]
        may, _ = self.matching(name, chosen, most)
        moved = source.messages.keys() - {p.id for p in there}
        assert moved <= may, "moved what was not asked for"
        for number in sorted(moved):
            m = source.messages.pop(number)
            source.sent -= 1
            assert m.origin is not None
            m.origin = replace(m.origin, redrives=m.origin.redrives + 1)
            m.cancel_requested = False
            self._arrive(self.queues[m.origin.queue], m)
        return len(moved)

    # --- history and events ---

    def compare_events(self, name: str, events: Sequence[Event]) -> None:
        """What events tell of each message is what has happened to it, in that order."""
        ours, theirs = defaultdict[int, list[Told]](list), defaultdict[int, list[Told]](list)
        for told in self.queues[name].events:
            ours[told.id].append(told)
        for e in events:
            assert (e.id, e.channel, e.attempt) != (None, None, None)
            told = Told(e.id or 0, e.kind, e.channel or "", e.attempt or 0, e.due_at, e.note)
            theirs[told.id].append(told)
        assert theirs.keys() == ours.keys()
        for number, story in ours.items():
            assert theirs[number] == story, (theirs[number], story)
        times = [e.at for e in events]
        assert times == sorted(times)

    def ending(self, name: str, number: int) -> Row | str | None:
        """How a message ended: its row, or `unknown`; None: it has not."""
        queue = self.queues[name]
        if number in queue.messages or number > max(self.given, default=0):
            return None
        return next((r for r in reversed(queue.history) if r.id == number), "unknown")

    def compare_history(self, name: str, entries: Sequence[HistoryEntry]) -> None:
        """What `history` tells is what has ended, and the newest come first."""
        rows = self.queues[name].history
        theirs, ours = Counter(map(_told, entries)), Counter(map(_told, rows))
        assert theirs == ours, (theirs - ours, ours - theirs)
        times = [e.finished_at for e in entries]
        assert times == sorted(times, reverse=True)
        known = Counter((r.id, r.finished_at) for r in rows if r.finished_at is not None)
        assert known <= Counter((e.id, e.finished_at) for e in entries)

    def cleared(self, name: str, which: str, limit: int | None, left: Sequence[Any]) -> int:
        """Rows were removed, and these are left; how many there should have been removed."""
        queue = self.queues[name]
        asked = [r for r in queue.history if _is_of(which, r.outcome)]
        stay = Counter(map(_told_when, left))
        gone = list[Row]()
        for row in queue.history:
            if stay[_told_when(row)]:
                stay[_told_when(row)] -= 1
            else:
                gone.append(row)
        assert all(_is_of(which, r.outcome) for r in gone), "cleared what was not asked for"
        times = [e.finished_at for e in left if _is_of(which, e.outcome)]
        for row in gone:
            assert row.finished_at is None or not times or row.finished_at <= min(times), "not old"
            queue.history.remove(row)
        expected = len(asked) if limit is None else min(limit, len(asked))
        assert len(gone) == expected, "cleared more, or fewer, than there were"
        return expected


def _told(row: Row | HistoryEntry) -> tuple[Any, ...]:
    story = (row.attempt, row.failures, row.crashes, row.error, row.result, row.note)
    return row.id, row.channel, row.outcome, *story


def _told_when(row: Row | HistoryEntry) -> tuple[Any, ...]:
    """Which row it is: a message that came back may die once more, and in the same way."""
    return *_told(row), None if row.outcome == "expired" else row.finished_at


def _is_of(which: str, outcome: str) -> bool:
    return which == "all" or (which == "done") == (outcome == "done")
