"""Subscriptions, epochs and the log in dicts: what `life` compares the stores with.

Queues here have `max_attempts`, one channel with a `max_concurrency`, and the second is FIFO; all
else of a queue is in `conformance/model`. What is left to the store (which messages come next) the
model is told, and it refuses what is not promised.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_ATTEMPTS = 3
SLOTS = {"narrow": 2}
"""Channels with that max_concurrency."""

Key = tuple[str, int]
"""A row of the log: queue and message."""


@dataclass
class Message:
    """An unfinished message. `at`: when it is due, or when its lease runs out."""

    id: int
    channel: str
    status: str = "ready"
    at: int = 0
    attempt: int = 0
    failures: int = 0
    crashes: int = 0


@dataclass
class Epoch:
    """Recorded receipts: queue, message, attempt."""

    receipts: list[tuple[str, int, int]]
    plans: int = 0


@dataclass
class Subscription:
    generation: int
    owner: str
    epoch: int = 0
    acked: int = 0
    limit: int | None = None
    suspects: dict[int, int] = field(default_factory=dict[int, int])  # since which `passed`
    passed: int = 0
    proven: int = 0
    failures: int = 0
    resume_at: int = 0
    unsure: int = 0  # receipts of which it is left to the store whether they are told as lost
    epochs: dict[int, Epoch] = field(default_factory=dict[int, Epoch])

    def released(self) -> None:
        self.epochs, self.limit, self.failures, self.resume_at = {}, None, 0, 0
        self.generation, self.owner = -1, ""


@dataclass
class Row:
    """A row of the log, and the transaction that it came with."""

    key: Key
    outcome: str
    transaction: int
    finished_at: int


class Model:
    """All queues, subscriptions and rows of a life."""

    def __init__(self, clock: Callable[[], int], names: Iterable[str]) -> None:
        self.clock = clock
        self.queues: dict[str, dict[int, Message]] = {name: {} for name in names}
        self.fifo = list(self.queues)[-1]
        self.dead: dict[str, set[int]] = {name: set() for name in names}
        self.subscriptions: dict[str, Subscription] = {}
        self.rows: dict[Key, Row] = {}
        self.gone: set[Key] = set()
        self.transaction = 0
        self.held_from: int | None = None
        """The transaction that is open: nothing from it on is readable."""

    # --- messages ---

    def sent(self, queue: str, ids: Iterable[int], channels: Iterable[str]) -> None:
        for number, channel in zip(ids, channels, strict=True):
            self.queues[queue][number] = Message(number, channel)

    def end(self, queue: str, number: int, outcome: str) -> None:
        del self.queues[queue][number]
        key = (queue, number)
        self.rows[key] = Row(key, outcome, self.transaction, self.clock())
        if outcome == "dead":
            self.dead[queue].add(number)

    def charge(self, queue: str, m: Message, what: str, *, retry: bool = True) -> bool:
        """Whether it is dead."""
        setattr(m, what, getattr(m, what) + 1)
        m.status, m.at = "ready", 0
        if retry and m.failures + m.crashes < MAX_ATTEMPTS:
            return False
        self.end(queue, m.id, "dead")
        return True

    def held(self, queue: str, number: int, attempt: int) -> Message | None:
        """The message, if that lease is still its lease, run out or not."""
        m = self.queues[queue].get(number)
        good = m is not None and m.status == "leased" and m.attempt == attempt
        return m if good else None

    def in_line(self, run: int) -> dict[str, int]:
        """How many each channel of the FIFO queue may give now: the first ones, at most `run`."""
        now, free, closed = self.clock(), dict[str, int](), set[str]()
        for m in sorted(self.queues[self.fifo].values(), key=lambda m: m.id):
            free.setdefault(m.channel, 0)
            if m.status == "leased" and m.at > now:
                free[m.channel] = 0
                closed.add(m.channel)
            elif m.at > now:
                closed.add(m.channel)
            elif m.channel not in closed and m.status == "leased":
                free[m.channel] += m.failures + m.crashes + 1 < MAX_ATTEMPTS
            elif m.channel not in closed:
                free[m.channel] += 1
        return {channel: min(n, run, SLOTS.get(channel, n)) for channel, n in free.items()}

    def first(self, taken: Iterable[tuple[str, int]]) -> None:
        """Those of the FIFO queue are the first of their channels."""
        line, chosen = self.queues[self.fifo], {n for queue, n in taken if queue == self.fifo}
        for channel in {line[number].channel for number in chosen}:
            ours = sorted(m.id for m in line.values() if m.channel == channel)
            assert set(ours[: len(chosen & set(ours))]) <= chosen, (channel, ours, chosen)

    def offer(self, queue: str, run: int = 1) -> dict[str, int]:
        """How many each channel may give now."""
        if queue == self.fifo:
            return self.in_line(run)
        now, free, leased = self.clock(), dict[str, int](), dict[str, int]()
        for m in self.queues[queue].values():
            free.setdefault(m.channel, 0)
            if m.status == "leased" and m.at > now:
                leased[m.channel] = leased.get(m.channel, 0) + 1
            elif m.status == "leased":
                free[m.channel] += m.failures + m.crashes + 1 < MAX_ATTEMPTS
            elif m.at <= now:
                free[m.channel] += 1
        for channel, most in SLOTS.items():
            if channel in free:
                free[channel] = min(free[channel], max(0, most - leased.get(channel, 0)))
        return free

    def notice(self, queue: str, peeked: Iterable[Any]) -> None:
        """Of leases that have run out, the store has noticed those that are another thing now."""
        there = {p.id: p for p in peeked}
        for m in list(self.queues[queue].values()):
            if m.status == "leased" and m.at <= self.clock():
                p = there.get(m.id)
                if p is None or p.attempt != m.attempt or p.state != "leased":
                    self.charge(queue, m, "crashes")

    def leased(self, queue: str, number: int, attempt: int, until: int) -> None:
        m = self.queues[queue][number]
        assert m.status != "leased", f"{number} is leased to somebody (P5)"
        assert m.at <= self.clock(), f"{number} is not due (P8)"
        assert attempt == m.attempt + 1, "each lease is an attempt"
        m.status, m.at, m.attempt = "leased", until, attempt

    def compare(self, queue: str, peeked: Iterable[Any], dead: Iterable[Any]) -> None:
        """What `peek` shows is what there is."""
        there = {p.id: p for p in peeked}
        assert there.keys() == self.queues[queue].keys()
        for m in self.queues[queue].values():
            p, now = there[m.id], self.clock()
            assert (p.attempt, p.failures, p.crashes) == (m.attempt, m.failures, m.crashes), m
            assert (p.state == "leased") == (m.status == "leased"), (p.state, m)
            if m.status == "leased" or m.at > now:
                assert p.due_at == m.at, (p, m)
        assert {p.id for p in dead} == self.dead[queue]

    # --- epochs ---

    def acknowledge(self, sub: Subscription, after: int) -> tuple[int, int]:
        """Acknowledged and lost."""
        acked = lost = 0
        failed = False
        for number in sorted(n for n in sub.epochs if n <= after):
            epoch = sub.epochs.pop(number)
            failed = failed or (bool(epoch.receipts) and epoch.plans > 1)
            for queue, message, attempt in epoch.receipts:
                if self.held(queue, message, attempt) is None:
                    lost += 1
                else:
                    self.end(queue, message, "done")
                    sub.suspects.pop(message, None)
                    acked += 1
        if acked:
            sub.resume_at = 0
            if failed:
                sub.proven = sub.passed
            else:
                sub.passed, sub.failures = sub.passed + 1, sub.failures // 2
            sub.limit = sub.limit and sub.limit * 2
        sub.acked, sub.epoch = max(sub.acked, after), max(sub.epoch, after)
        return acked, lost

    def renew(self, sub: Subscription, until: int, only: int | None = None) -> tuple[int, int]:
        """Kept and lost."""
        kept = lost = 0
        for number, epoch in sub.epochs.items():
            for receipt in epoch.receipts if only in (None, number) else ():
                m = self.held(*receipt)
                if m is not None:
                    m.at = max(m.at, until)
                kept, lost = kept + (m is not None), lost + (m is None)
        return kept, lost

    def renewed(self, epoch: Epoch, lease_ms: int, ends: dict[int, int]) -> None:
        """A plan may leave leases that have nine tenths to run."""
        for receipt in epoch.receipts:
            m, until = self.held(*receipt), self.clock() + lease_ms
            if m is not None:
                assert max(m.at, until - lease_ms // 10) <= ends[m.id] <= max(m.at, until)
                m.at = ends[m.id]

    def judge(self, sub: Subscription, queue: str, number: int, attempt: int) -> dict[str, int]:
        """What is told of a message that failed alone."""
        since = max(sub.suspects.setdefault(number, sub.passed), sub.proven)
        is_dead = sub.passed - since >= 5
        sub.failures += 1
        wait_ms = min(60_000, 2 ** (sub.failures - 2) * 1000) if sub.failures > 1 else 0
        sub.resume_at = self.clock() + wait_ms
        if is_dead:
            sub.proven = sub.passed
            del sub.suspects[number]
            self.charge(queue, self.queues[queue][number], "failures", retry=False)
        else:
            delay_ms = min(3_600_000, 2 ** (sub.failures - 1) * 10_000)
            self.give_back([(queue, number, attempt)], self.clock() + delay_ms)
        told = {"dead": int(is_dead), "suspect": number, "wait_ms": wait_ms}
        return {**told, "failures": sub.failures}

    def give_back(self, receipts: Iterable[tuple[str, int, int]], at: int = 0) -> int:
        given = 0
        for receipt in receipts:
            if (m := self.held(*receipt)) is not None:
                m.status, m.at = "ready", at
                given += 1
        return given

    # --- the log ---

    def readable(self) -> set[Key]:
        """Rows that are there and that no open transaction can still precede."""
        held = self.held_from
        return {
            key
            for key, row in self.rows.items()
            if key not in self.gone and (held is None or row.transaction < held)
        }

    def in_order(self, rows: list[Key], there: set[Key], names: Iterable[str | None]) -> None:
        """By commits; on SQLite, where one writes, in each of these queues."""
        for name in names:
            mine, left = (
                [self.rows[key].transaction for key in some if name in (None, key[0])]
                for some in (rows, there - set(rows))
            )
            assert mine == sorted(mine)
            assert not mine or not left or mine[-1] <= min(left), "passed over"
