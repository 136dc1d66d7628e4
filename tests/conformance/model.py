"""The queue in dicts: an executable specification of `docs/design/scheduling.md` and `life.md`.

`Model` lives the same verbs as a store. What it can foresee, it answers; what is left to the store
(ids, and which of the channels come next) it is told, and refuses what is not promised. Nothing
here is quick or clever: every verb is read from the rules, one message at a time.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from tests.conformance.model_ends import Ends
from tests.conformance.model_rows import Message, Queue
from tests.conformance.model_schedules import Row as ScheduleRow
from tests.conformance.model_schedules import Schedules
from tests.conformance.model_sends import Sends
from turnabout import (
    Acked,
    AttemptError,
    ChannelStats,
    Dead,
    Deferral,
    Deferred,
    Extended,
    Failure,
    LeaseLost,
    Note,
    Policy,
    QueueSettings,
    Rate,
    Receipt,
    Released,
    Retrying,
)
from turnabout.words import limits
from turnabout.words.outcomes import Blocked, Cancelled, DeferOutcome, ReleaseOutcome
from turnabout.words.records import Result
from turnabout.words.value import replace

PASSED = LeaseLost("scheduled")
"""It waits, or its time to live has ended it already: when, is left to the store."""


class Model(Sends, Ends, Schedules):
    """All queues of a store. Sending is in `model_sends`, endings are in `model_ends`, what is
    sent by the clock in `model_schedules`.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.queues: dict[str, Queue] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.given: set[int] = set()

    # --- queues and settings ---

    def create(self, name: str, settings: QueueSettings) -> None:
        self.queues[name] = Queue(name, settings, self._grave(name, settings))

    def _grave(self, name: str, settings: QueueSettings) -> str:
        """The dead-letter queue of these settings; it is made."""
        grave = settings.dead_letter or f"{name}-dead"
        if grave not in self.queues:
            self.queues[grave] = Queue(grave, QueueSettings(max_attempts=None), None)
        return grave

    def delete(self, name: str) -> int:
        return len(self.queues.pop(name).messages)

    def update(self, name: str, **changes: Any) -> None:
        queue = self.queues[name]
        queue.settings = queue.settings.changed(changes)
        queue.grave = self._grave(name, queue.settings)
        queue.passed_over.clear()

    def set_policy(self, name: str, channel: str, policy: Policy) -> None:
        queue = self.queues[name]
        queue.policies.pop(channel, None)
        if policy != Policy():
            queue.policies[channel] = policy
        queue.passed_over.clear()

    def pause(self, name: str, channel: str, ms: int) -> None:
        before = self.queues[name].policies.get(channel, Policy())
        until = max(before.paused_until or 0, self.clock() + ms)
        self.set_policy(name, channel, replace(before, paused_until=until, pause_reason=None))

    # --- receive ---

    def at(self, name: str, now: int) -> dict[str, list[Message]]:
        """What each channel may give at that time, if nothing else happens until then."""
        queue = self.queues[name]
        if queue.settings.paused or self._allowed(queue, now) == 0:
            return {}
        offer = {}
        for channel in {m.channel for m in queue.messages.values()}:
            waiting, leased = self._waiting(queue, channel, now)
            policy, most = queue.policy(channel), 10**9
            if queue.settings.fifo:
                waiting = [*takewhile(lambda m: m.at <= now, waiting)]
                run = min(queue.settings.fifo_run, policy.max_concurrency or 10**9)
                most = 0 if leased else run
            elif policy.max_concurrency is not None:
                most = policy.max_concurrency - leased
            is_paused = policy.paused or (policy.paused_until or 0) > now
            most = 0 if is_paused else min(most, self._tokens(queue, channel, now))
            due = [m for m in waiting if m.at <= now]
            if due[: max(0, most)]:
                offer[channel] = due[:most]
        return offer

    def _waiting(self, queue: Queue, channel: str, now: int) -> tuple[list[Message], int]:
        """A channel's messages that wait at that time, lost leases included, and its leases."""
        waiting, leased, way = list[Message](), 0, queue.settings.on_exhausted
        for m in queue.of(channel):
            if m.status == "leased" and m.at > now:
                leased += 1
            elif m.status == "leased" and m.cancel_requested:
                pass
            elif m.status == "leased" and queue.exhausted(m, m.failures + m.crashes + 1):
                if way == "dead_letter_channel":
                    return [], leased
                if way == "block":
                    waiting.append(dataclasses.replace(m, at=limits.FOREVER_MS))
            elif m.expires_at is None or m.expires_at > now:
                waiting.append(m)
        return waiting, leased

    def _tokens(self, queue: Queue, channel: str, now: int) -> int:
        return self._in_bucket(queue.policy(channel).rate, queue.tat.get(channel, 0), now)

    def _allowed(self, queue: Queue, now: int) -> int:
        """What the queue's own limits let go at that time."""
        most, rate = queue.settings.queue_max_concurrency, queue.settings.queue_rate
        leased = sum(m.status == "leased" and m.at > now for m in queue.messages.values())
        slots = 10**9 if most is None else max(0, most - leased)
        return min(slots, self._in_bucket(rate, queue.own_tat, now))

    def _in_bucket(self, rate: Rate | None, tat: int, now: int) -> int:
        if rate is None:
            return 10**9
        tokens = 0
        while tokens < 1000 and tat - (rate.burst - 1) * rate.interval_us <= now * 1000:
            tat, tokens = max(tat, now * 1000) + rate.interval_us, tokens + 1
        return tokens

    def next_chance(self, name: str) -> int | None:
        """When time alone will next have something to hand out; None: never."""
        queue, now = self.queues[name], self.clock()
        times = {m.at for m in queue.messages.values() if m.at < limits.FOREVER_MS}
        times |= {m.expires_at for m in queue.messages.values() if m.expires_at is not None}
        buckets = [(queue.policy(channel).rate, tat) for channel, tat in queue.tat.items()]
        for rate, tat in [*buckets, (queue.settings.queue_rate, queue.own_tat)]:
            if rate is not None:
                times.add(-(-(tat - (rate.burst - 1) * rate.interval_us) // 1000))
        return next((t for t in sorted(times) if t > now and self.at(name, t)), None)

    def received(
        self, name: str, most: int, lease_ms: int | None, batch: Any, mine: Callable[[str], bool]
    ) -> None:
        """This batch was handed out by one receive for channels that are `mine`; was it right?"""
        queue, now = self.queues[name], self.clock()
        self._run_timers(queue)
        offer = {c: ms for c, ms in self.at(name, now).items() if mine(c)}
        given: dict[str, list[Any]] = defaultdict(list)
        for delivery in batch:
            given[delivery.channel].append(delivery)
        for channel, deliveries in given.items():
            wanted = [m.id for m in offer.get(channel, [])[: len(deliveries)]]
            assert [d.id for d in deliveries] == wanted, f"not the next of channel {channel!r}"
        room = min(most, self._allowed(queue, now))
        assert len(batch) == min(room, sum(map(len, offer.values()))), (
            "more, or fewer, than there was"
        )
        if not batch:
            chance = self.next_chance(name)
            assert chance is None or batch.retry_after_ms is not None, "would sleep for ever"
            assert chance is None or batch.retry_after_ms <= chance - now, "would sleep too long"
        self._check_turns(queue, offer, given)
        lease = round(queue.settings.lease_seconds * 1000) if lease_ms is None else lease_ms
        for delivery in batch:
            self._lease(queue, queue.messages[delivery.id], delivery, lease)

    def _lease(self, queue: Queue, m: Message, delivery: Any, lease: int) -> None:
        now, rate = self.clock(), queue.policy(m.channel).rate
        m.status, m.at, m.attempt = "leased", now + lease, m.attempt + 1
        m.leased_at = now
        if rate is not None:
            tat = queue.tat.get(m.channel, 0)
            queue.tat[m.channel] = max(tat, now * 1000) + rate.interval_us
        if (own := queue.settings.queue_rate) is not None:
            queue.own_tat = max(queue.own_tat, now * 1000) + own.interval_us
        told = (
            "attempt",
            "priority",
            "payload",
            "failures",
            "crashes",
            "sent_at",
            "state",
            "origin",
        )
        for name in told:
            assert getattr(delivery, name) == getattr(m, name), name
        assert delivery.lease_until == m.at
        queue.tell("leased", m, m.at)

    def _check_turns(self, queue: Queue, offer: Any, given: Any) -> None:
        """Nobody was served twice while another who had something went without (P12)."""
        for channel in list(queue.passed_over):
            if channel not in offer or channel in given:
                del queue.passed_over[channel]
        for channel in offer.keys() - given.keys():
            behind = queue.passed_over[channel]
            behind.update({other: len(deliveries) for other, deliveries in given.items()})
            for other, times in behind.items():
                turns = 2 * (queue.policy(other).weight or 1)
                assert times <= turns, f"{channel!r} waits while {other!r} had {times}"

    def maintained(self, name: str, peeked: Any) -> None:
        """Housekeeping was done: a store may notice lost leases then, or leave them to receive."""
        queue, leased = self.queues[name], {p.id for p in peeked if p.state == "leased"}
        lost = {m.id for m in queue.messages.values() if m.status == "leased"} - leased
        if lost:
            self._run_timers(queue)

    def _run_timers(self, queue: Queue) -> None:
        now = self.clock()
        for m in list(queue.messages.values()):
            if m.status == "scheduled" and m.at <= now:
                m.status = "ready"
            elif m.status == "leased" and m.at <= now:
                m.status = "ready"
                if m.cancel_requested:
                    m.crashes += 1
                    self._end(queue, m, "cancelled")
                elif self._charge(queue, m, "crashes") is None:
                    queue.tell("failed", m, now)

    # --- settle ---

    def _held(self, name: str, receipt: Receipt) -> Message | LeaseLost:
        m = self.queues[name].messages.get(receipt.id)
        if m is None:
            return LeaseLost("gone")
        if m.has_passed(self.clock()):
            return PASSED
        if m.status != "leased" or m.attempt != receipt.attempt:
            return LeaseLost(m.status)
        return m

    def ack(self, name: str, receipt: Receipt, result: Result | None = None) -> Acked | LeaseLost:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        self._end(self.queues[name], m, "done", result)
        return Acked()

    def defer(self, name: str, deferral: Deferral) -> DeferOutcome:
        if isinstance(m := self._held(name, deferral.receipt), LeaseLost):
            return m
        if deferral.state is not None:
            m.state = deferral.state
        return self._back(name, m, deferral.delay_ms) or Deferred(m.at)

    def release(self, name: str, receipt: Receipt) -> ReleaseOutcome:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        return self._back(name, m, 0) or Released()

    def _back(self, name: str, m: Message, delay_ms: int) -> Cancelled | Dead | Blocked | None:
        """It comes back, unless it is not wanted, or was delivered often enough."""
        if m.cancel_requested:
            self._end(self.queues[name], m, "cancelled")
            return Cancelled()
        if reason := self.queues[name].exhausted(m, 0):
            return self._die(self.queues[name], m, reason)
        self._put_off(self.queues[name], m, delay_ms)
        self.queues[name].tell("deferred", m, m.at)
        return None

    def extend(
        self, name: str, receipt: Receipt, lease_ms: int | None, note: Note | None, exact: bool
    ) -> Extended | LeaseLost:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        if lease_ms is None:
            lease_ms = round(self.queues[name].settings.lease_seconds * 1000)
        until = self.clock() + lease_ms
        m.at = until if exact else max(m.at, until)
        if note is not None:
            m.note = note
            self.queues[name].tell("noted", m)
        return Extended(m.at, m.cancel_requested)

    def fail(
        self, name: str, failure: Failure
    ) -> Retrying | Dead | Blocked | Cancelled | LeaseLost:
        if isinstance(m := self._held(name, failure.receipt), LeaseLost):
            return m
        queue = self.queues[name]
        m.last_error = failure.error
        if m.cancel_requested:
            m.failures += 1
            self._end(queue, m, "cancelled")
            return Cancelled()
        when, who = m.leased_at, failure.worker
        one = AttemptError(m.attempt, self.clock(), failure.error, when, who)
        m.errors = (*m.errors[:1], *m.errors[1:][-8:], one)  # of ten and more the second goes
        if ended := self._charge(queue, m, "failures", retry=failure.retry):
            return ended
        delay, settings = failure.delay_ms, queue.settings
        if delay is None:
            assert settings.backoff_jitter == 0, "the model does not throw dice"
            wait = settings.backoff_seconds * 2 ** (m.failures + m.crashes - 1)
            delay = round(1000 * min(wait, settings.backoff_max_seconds))
        self._put_off(queue, m, delay)
        queue.tell("failed", m, m.at)
        return Retrying(m.at)

    # --- the contents ---

    def compare(self, name: str, peeked: Any, stats: Any) -> None:
        """What `peek` and `stats` say is what there is (P15)."""
        queue, now = self.queues[name], self.clock()
        there = {p.id for p in peeked}
        for m in list(queue.messages.values()):
            if m.has_passed(now) and m.id not in there:  # when, is left to the store
                self._end(queue, m, "expired")
        assert [p.id for p in peeked] == sorted(queue.messages)
        for p in peeked:
            m = queue.messages[p.id]
            assert p.state in self._states(queue, m), (p.state, m)
            for field_ in ("channel", "priority", "payload", "sent_at", "attempt", "failures"):
                assert getattr(p, field_) == getattr(m, field_), field_
            assert (p.crashes, p.saved_state, p.error) == (m.crashes, m.state, m.last_error)
            assert (p.origin, p.errors) == (m.origin, m.errors)
            assert (p.expires_at, p.cancel_requested) == (m.expires_at, m.cancel_requested)
            assert p.leased_at == (m.leased_at if p.state == "leased" else None)
            assert p.note == m.note
            if limits.FOREVER_MS > m.at > now:
                assert p.due_at == m.at
        leased = sum(m.status == "leased" for m in queue.messages.values())
        assert stats.leased == leased
        assert stats.scheduled + stats.ready == len(queue.messages) - leased
        for field_ in ("sent", "done", "dead", "cancelled", "expired"):
            assert getattr(stats, field_) == getattr(queue, field_), field_
        ended = queue.done + queue.dead + queue.cancelled + queue.expired
        assert queue.sent == len(queue.messages) + ended
        assert stats.paused == queue.settings.paused

    def _states(self, queue: Queue, m: Message) -> set[str]:
        """A store may say of a message that is due, but that no receive has looked at, either."""
        if m.status == "leased":
            return {"leased"}
        if m.at > self.clock():
            return {"scheduled", "ready"} if queue.settings.fifo else {"scheduled"}
        return {"ready"} if m.status == "ready" else {"ready", "scheduled"}

    def compare_channels(self, name: str, channels: Sequence[ChannelStats]) -> None:
        """What is in each channel, and what holds it back."""
        queue, now = self.queues[name], self.clock()
        assert {c.channel for c in channels} == {m.channel for m in queue.messages.values()}
        for c in channels:
            waiting = [m for m in queue.of(c.channel) if m.status != "leased"]
            ready = [m for m in waiting if m.at <= now]
            leased = len(queue.of(c.channel)) - len(waiting)
            counts = (c.scheduled, c.ready, c.leased)
            assert counts == (len(waiting) - len(ready), len(ready), leased), c
            oldest = max((now - m.sent_at for m in ready), default=None)
            assert c.oldest_ready_ms == oldest, c
            assert c.blocked == self._blocked(queue, c.channel, waiting, leased), c

    def _blocked(
        self, queue: Queue, channel: str, waiting: list[Message], leased: int
    ) -> str | None:
        """Why ready ones wait, though somebody asks for them."""
        now, policy, fifo = self.clock(), queue.policy(channel), queue.settings.fifo
        if fifo and waiting and waiting[0].at == limits.FOREVER_MS:
            return "exhausted"
        if all(m.at > now for m in waiting):
            return None
        if queue.settings.paused or policy.paused or (policy.paused_until or 0) > now:
            return "paused"
        if fifo and leased:
            return "fifo"
        if not fifo and policy.max_concurrency is not None and leased >= policy.max_concurrency:
            return "concurrency"
        if not self._tokens(queue, channel, now):
            return "rate"
        if fifo and waiting[0].at > now:
            return "fifo"
        own = queue.settings.queue_max_concurrency
        if own is not None and sum(m.status == "leased" for m in queue.messages.values()) >= own:
            return "queue_concurrency"
        rate = queue.settings.queue_rate
        return None if self._in_bucket(rate, queue.own_tat, now) else "queue_rate"
