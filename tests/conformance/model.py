"""The queue in dicts: an executable specification of `docs/design/scheduling.md`.

`Model` lives the same verbs as a store. What it can foresee, it answers; what is left to the store
(ids, and which of the channels come next) it is told, and refuses what is not promised. Nothing
here is quick or clever: every verb is read from the rules, one message at a time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock import (
    Acked,
    ChannelFull,
    Dead,
    Deferral,
    Deferred,
    Extended,
    Failure,
    LeaseLost,
    Origin,
    Outgoing,
    Policy,
    QueueSettings,
    Receipt,
    Released,
    Retrying,
)


@dataclass
class Message:
    """An unfinished message. `at`: when it is due, or when its lease runs out."""

    id: int
    channel: str
    priority: int
    payload: bytes
    sent_at: int
    status: str
    at: int
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    state: bytes | None = None
    first_error: str | None = None
    last_error: str | None = None
    origin: Origin | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.priority, self.id


@dataclass
class Queue:
    name: str
    settings: QueueSettings
    grave: str | None
    messages: dict[int, Message] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    tat: dict[str, int] = field(default_factory=dict)
    """Per channel, the theoretical arrival time of its token bucket, in microseconds."""
    passed_over: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Per channel with something to give, what others were given since it had its turn."""
    sent: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0

    def policy(self, channel: str) -> Policy:
        return self.policies.get(channel, Policy()).over(self.settings.policy)

    def of(self, channel: str) -> list[Message]:
        mine = [m for m in self.messages.values() if m.channel == channel]
        return sorted(mine, key=lambda m: m.place)

    def exhausted(self, charged: int) -> bool:
        most = self.settings.max_attempts
        return most is not None and charged >= most


class Model:
    """All queues of a store."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.queues: dict[str, Queue] = {}
        self.last_id = 0

    # --- queues and settings ---

    def create(self, name: str, settings: QueueSettings) -> None:
        grave = f"{name}-dead"
        self.queues[name] = Queue(name, settings, grave)
        if grave not in self.queues:
            self.queues[grave] = Queue(grave, QueueSettings(max_attempts=None), None)

    def delete(self, name: str) -> int:
        return len(self.queues.pop(name).messages)

    def update(self, name: str, **changes: Any) -> None:
        queue = self.queues[name]
        queue.settings = queue.settings.changed(changes)
        queue.passed_over.clear()

    def set_policy(self, name: str, channel: str, policy: Policy) -> None:
        queue = self.queues[name]
        queue.policies.pop(channel, None)
        if policy != Policy():
            queue.policies[channel] = policy
        queue.passed_over.clear()

    # --- send ---

    def refusals(self, name: str, messages: Iterable[Outgoing]) -> list[ChannelFull]:
        """The channels that these messages would fill above their size; none: they are taken."""
        queue = self.queues[name]
        full = []
        for channel, more in Counter(m.channel for m in messages).items():
            most, size = queue.policy(channel).max_size, len(queue.of(channel))
            if most is not None and size + more > most:
                full.append(ChannelFull(channel, most, size))
        return full

    def sent(self, name: str, messages: Iterable[Outgoing], ids: Iterable[int]) -> None:
        """These were taken, under these ids."""
        queue, now = self.queues[name], self.clock()
        for message, number in zip(messages, ids, strict=True):
            assert number > self.last_id, "ids grow"
            self.last_id = number
            delay = message.delay_ms
            if delay is None:
                delay = round(queue.settings.delay_seconds * 1000)
            queue.messages[number] = Message(
                number, message.channel, message.priority, message.payload, now, "ready", now
            )
            self._put_off(queue, queue.messages[number], delay)
            queue.sent += 1

    # --- receive ---

    def at(self, name: str, now: int) -> dict[str, list[Message]]:
        """What each channel may give at that time, if nothing else happens until then."""
        queue = self.queues[name]
        if queue.settings.paused:
            return {}
        offer = {}
        for channel in {m.channel for m in queue.messages.values()}:
            waiting, leased = [], 0
            for m in queue.of(channel):
                if m.status != "leased":
                    waiting.append(m)
                elif m.at > now:
                    leased += 1
                elif not queue.exhausted(m.failures + m.crashes + 1):
                    waiting.append(m)
            policy, most = queue.policy(channel), 10**9
            if queue.settings.fifo:
                waiting, most = waiting[:1], 1 - leased
            elif policy.max_concurrency is not None:
                most = policy.max_concurrency - leased
            most = 0 if policy.paused else min(most, self._tokens(queue, channel, now))
            due = [m for m in waiting if m.at <= now]
            if due[: max(0, most)]:
                offer[channel] = due[:most]
        return offer

    def _tokens(self, queue: Queue, channel: str, now: int) -> int:
        rate = queue.policy(channel).rate
        if rate is None:
            return 10**9
        tat, tokens = queue.tat.get(channel, 0), 0
        while tokens < 1000 and tat - (rate.burst - 1) * rate.interval_us <= now * 1000:
            tat, tokens = max(tat, now * 1000) + rate.interval_us, tokens + 1
        return tokens

    def next_chance(self, name: str) -> int | None:
        """When time alone will next have something to hand out; None: never."""
        queue, now = self.queues[name], self.clock()
        times = {m.at for m in queue.messages.values()}
        for channel, tat in queue.tat.items():
            if (rate := queue.policy(channel).rate) is not None:
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
        assert len(batch) == min(most, sum(map(len, offer.values()))), (
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
        if rate is not None:
            tat = queue.tat.get(m.channel, 0)
            queue.tat[m.channel] = max(tat, now * 1000) + rate.interval_us
        for name in ("attempt", "priority", "payload", "failures", "crashes", "sent_at", "state"):
            assert getattr(delivery, name) == getattr(m, name), name
        assert delivery.lease_until == m.at

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

    def _run_timers(self, queue: Queue) -> None:
        now = self.clock()
        for m in list(queue.messages.values()):
            if m.status == "scheduled" and m.at <= now:
                m.status = "ready"
            elif m.status == "leased" and m.at <= now:
                m.status = "ready"
                self._charge(queue, m, "crashes")

    # --- settle ---

    def _held(self, name: str, receipt: Receipt) -> Message | LeaseLost:
        m = self.queues[name].messages.get(receipt.id)
        if m is None:
            return LeaseLost("gone")
        if m.status != "leased" or m.attempt != receipt.attempt:
            return LeaseLost(m.status)
        return m

    def ack(self, name: str, receipt: Receipt) -> Acked | LeaseLost:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        del self.queues[name].messages[m.id]
        self.queues[name].done += 1
        return Acked()

    def defer(self, name: str, deferral: Deferral) -> Deferred | LeaseLost:
        if isinstance(m := self._held(name, deferral.receipt), LeaseLost):
            return m
        if deferral.state is not None:
            m.state = deferral.state
        self._put_off(self.queues[name], m, deferral.delay_ms)
        return Deferred(m.at)

    def release(self, name: str, receipt: Receipt) -> Released | LeaseLost:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        self._put_off(self.queues[name], m, 0)
        return Released()

    def extend(self, name: str, receipt: Receipt, lease_ms: int | None) -> Extended | LeaseLost:
        if isinstance(m := self._held(name, receipt), LeaseLost):
            return m
        if lease_ms is None:
            lease_ms = round(self.queues[name].settings.lease_seconds * 1000)
        m.at = max(m.at, self.clock() + lease_ms)
        return Extended(m.at)

    def fail(self, name: str, failure: Failure) -> Retrying | Dead | LeaseLost:
        if isinstance(m := self._held(name, failure.receipt), LeaseLost):
            return m
        queue = self.queues[name]
        m.first_error = failure.error if m.first_error is None else m.first_error
        m.last_error = failure.error
        if self._charge(queue, m, "failures", retry=failure.retry):
            return Dead(queue.grave)
        delay, settings = failure.delay_ms, queue.settings
        if delay is None:
            assert settings.backoff_jitter == 0, "the model does not throw dice"
            wait = settings.backoff_seconds * 2 ** (m.failures + m.crashes - 1)
            delay = round(1000 * min(wait, settings.backoff_max_seconds))
        self._put_off(queue, m, delay)
        return Retrying(m.at)

    def purge(self, name: str, channel: str | None, state: str | None) -> int:
        queue = self.queues[name]
        gone = [
            m.id
            for m in queue.messages.values()
            if channel in (None, m.channel) and (m.status == "leased") == (state == "leased")
        ]
        for number in gone:
            del queue.messages[number]
        queue.cancelled += len(gone)
        return len(gone)

    def _put_off(self, queue: Queue, m: Message, delay_ms: int) -> None:
        """Back after a delay. In a FIFO queue it is ready and holds its place."""
        m.status = "scheduled" if delay_ms > 0 and not queue.settings.fifo else "ready"
        m.at = self.clock() + delay_ms

    def _charge(self, queue: Queue, m: Message, what: str, *, retry: bool = True) -> bool:
        """Charge an attempt; True if that was the last one, and the message died of it."""
        setattr(m, what, getattr(m, what) + 1)
        used_up = queue.exhausted(m.failures + m.crashes)
        if retry and not used_up:
            return False
        reason = "refused" if not retry else "attempts" if what == "failures" else "crashes"
        del queue.messages[m.id]
        queue.dead += 1
        if queue.grave is not None:
            grave = self.queues[queue.grave]
            m.origin = Origin(
                queue.name, reason, m.failures, m.crashes, self.clock(), m.first_error, m.last_error
            )
            m.failures, m.crashes, m.first_error, m.last_error = 0, 0, None, None
            m.status, m.at = "ready", self.clock()
            grave.messages[m.id] = m
            grave.sent += 1
        return True

    # --- the contents ---

    def compare(self, name: str, peeked: Any, stats: Any) -> None:
        """What `peek` and `stats` say is what there is (P15)."""
        queue, now = self.queues[name], self.clock()
        assert [p.id for p in peeked] == sorted(queue.messages)
        for p in peeked:
            m = queue.messages[p.id]
            assert p.state in self._states(queue, m), (p.state, m)
            for field_ in ("channel", "priority", "payload", "sent_at", "attempt", "failures"):
                assert getattr(p, field_) == getattr(m, field_), field_
            assert (p.crashes, p.saved_state, p.error) == (m.crashes, m.state, m.last_error)
            assert p.origin == m.origin
            if m.at > now:
                assert p.due_at == m.at
        leased = sum(m.status == "leased" for m in queue.messages.values())
        assert stats.leased == leased
        assert stats.scheduled + stats.ready == len(queue.messages) - leased
        for field_ in ("sent", "done", "dead", "cancelled"):
            assert getattr(stats, field_) == getattr(queue, field_), field_
        assert queue.sent == len(queue.messages) + queue.done + queue.dead + queue.cancelled
        assert stats.paused == queue.settings.paused

    def _states(self, queue: Queue, m: Message) -> set[str]:
        """A store may say of a message that is due, but that no receive has looked at, either."""
        if m.status == "leased":
            return {"leased"}
        if m.at > self.clock():
            return {"scheduled", "ready"} if queue.settings.fifo else {"scheduled"}
        return {"ready"} if m.status == "ready" else {"ready", "scheduled"}
