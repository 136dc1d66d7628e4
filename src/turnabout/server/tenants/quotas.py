"""Quotas of a namespace: requests a second, messages, bytes and anything else it keeps.

Each server process counts for itself. Everything here runs on one event loop; the clock is passed
in, in seconds that only go forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from turnabout.server.verbs import Namespace, NamespaceHoldings, NamespaceList
from turnabout.store import AsyncStore
from turnabout.words.administration import Repeats, Totals
from turnabout.words.errors import QueueNotFound, QuotaExceeded, TooManyRequests, Uncertain
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.outcomes import ChannelFull, QueueFull
from turnabout.words.policy import NO_POLICY
from turnabout.words.verbs import (
    PolicyGet,
    PolicySet,
    QueueCreate,
    QueueGet,
    ScheduleList,
    ScheduleSet,
    Send,
    Verb,
)

MEASURED = (
    *("max_messages", "max_bytes", "max_queues", "max_policies", "max_schedules"),
    "max_history_bytes",
)
"""Quotas of contents of the database."""
MEASURE_SECONDS = 1.0
"""Minimum time between two measurements of a namespace's contents."""
LIST_SECONDS = 5.0
"""Time between two looks at the quotas of all namespaces, while schedules are fired."""
MEASURE_SHARE = 100
"""Pause after a measurement, in multiples of its duration: counting bytes reads every message."""
QUIET_LOOKS = 2
"""A figure older than this many pauses is not trusted: a send waits for a new one."""


class Bucket:
    """A token bucket of requests: `per_second` of them, as many at once."""

    def __init__(self, per_second: int, now: float) -> None:
        self.per_second = per_second
        self._left = float(per_second)
        self._at = now

    def take(self, now: float) -> float:
        """Take one. The answer is 0.0, or, where none is left, in how many seconds one will be."""
        rate = self.per_second
        left = min(float(rate), self._left + max(0.0, now - self._at) * rate)
        self._at = now
        if left < 1.0:
            self._left = left
            return (1.0 - left) / rate
        self._left = left - 1.0
        return 0.0

    def owe(self, count: int) -> None:
        """Take more than there may be."""
        self._left -= count

    def put_back(self) -> None:
        """Give back a request that was counted and not made."""
        self._left += 1.0


class Amount:
    """Amounts that verbs add to a namespace, or that it holds, by the name of the quota."""

    __slots__ = ("of",)

    def __init__(self, **of: int) -> None:
        self.of = of

    def add(self, other: Amount, times: int = 1) -> None:
        """Add the other amount `times` times; with -1 it is taken off."""
        for name, count in other.of.items():
            self.of[name] = self.of.get(name, 0) + times * count


class NamespaceUsage:
    """The contents of one namespace: the last measurement, and this process's additions since.

    A send during a measurement may be in the figure or not: it is counted as well, so that the
    quota errs on the side of refusing.
    """

    def __init__(self, store: AsyncStore, clock: Callable[[], float]) -> None:
        self.quota = Namespace(NO_NAMESPACE)
        self._store = store
        self._clock = clock
        self._measured = Amount()
        self._measured_at: float | None = None
        self._pause = MEASURE_SECONDS
        self._measuring: asyncio.Task[None] | None = None
        self._since = [Amount()]
        """Added since the last measurement; during one, also what to add to its result."""
        self._queues: set[str] = set()
        """Queues that existed at the last look, as far as they were asked for."""
        self._under_way: dict[object, tuple[Amount, list[Amount]]] = {}

    @asynccontextmanager
    async def room(self, verbs: Sequence[Verb[Any]]) -> AsyncGenerator[list[Any]]:
        """A block in which these verbs are carried out; it appends their outcomes to the list.

        Raises: QuotaExceeded, and like `AsyncStore.run` for the measurement.
        """
        await self._look()
        wanted = Amount()
        for verb in verbs:
            wanted.add(amount_of(verb))
            wanted.add(await self._made_by(verb))
        try:
            self._check(wanted)
        except QuotaExceeded:
            wanted = Amount()
            for verb in verbs:
                if not await self._repeats(verb):
                    wanted.add(amount_of(verb))
                    wanted.add(await self._made_by(verb))
            self._check(wanted)
        place = object()
        counted_in = list(self._since)
        for amount in counted_in:
            amount.add(wanted)
        self._under_way[place] = (wanted, counted_in)
        outcomes: list[Any] = []
        is_in = False
        try:
            yield outcomes
            is_in = any(not isinstance(outcome, (ChannelFull, QueueFull)) for outcome in outcomes)
        except (Uncertain, asyncio.CancelledError):
            is_in = True  # perhaps
            raise
        finally:
            del self._under_way[place]
            if not is_in:
                for amount in counted_in:
                    amount.add(wanted, -1)

    def _check(self, wanted: Amount) -> None:
        """Refuse verbs that exceed a quota; those that add nothing always pass."""
        since = self._since[0].of
        for name, more in wanted.of.items():
            limit = getattr(self.quota, name)
            there = self._measured.of.get(name, 0) + since.get(name, 0)
            if limit is not None and more > 0 and there + more > limit:
                what = name.removeprefix("max_").replace("_", " ")
                raise QuotaExceeded(
                    f"the namespace holds {there:,} of {limit:,} {what} ({name}), and {more:,} "
                    "more do not fit: finish or remove some, or have the quota raised"
                )

    async def _repeats(self, verb: Verb[Any]) -> bool:
        """Whether it adds nothing, as its answer would be the ids of earlier messages."""
        if not isinstance(verb, Send) or not all(m.dedup_key for m in verb.messages):
            return False
        return await self._store.run(Repeats(verb.queue, verb.messages))

    async def _made_by(self, verb: Verb[Any]) -> Amount:
        """The queues, schedules and channel policies that a verb will create."""
        made = Amount()
        quota = self.quota
        if quota.max_queues is not None and isinstance(verb, (Send, QueueCreate, ScheduleSet)):
            queue = verb.schedule.queue if isinstance(verb, ScheduleSet) else verb.queue
            if not await self._is_there(queue):
                made.of["max_queues"] = 2  # and its dead-letter queue
        if quota.max_schedules is not None and isinstance(verb, ScheduleSet):
            there = await self._store.run(ScheduleList(schedule=verb.schedule.name, room_bytes=1))
            made.of["max_schedules"] = 0 if there else 1
        if quota.max_policies is not None and isinstance(verb, PolicySet):
            own = await self._store.run(PolicyGet(verb.queue, verb.channel))
            made.of["max_policies"] = int(own == NO_POLICY)
        return made

    async def _is_there(self, queue: str) -> bool:
        """Whether the queue is there, as far as this process has heard."""
        if queue not in self._queues:
            try:
                await self._store.run(QueueGet(queue))
            except QueueNotFound:
                return False
            self._queues.add(queue)
        return True

    async def _look(self) -> None:
        """See to it that the figure is not too old."""
        age = None if self._measured_at is None else self._clock() - self._measured_at
        if age is not None and age <= self._pause:
            return
        if self._measuring is None:
            self._measuring = asyncio.ensure_future(self._measure())
            self._measuring.add_done_callback(_seen)
        if age is None or age > QUIET_LOOKS * self._pause:
            await asyncio.shield(self._measuring)

    async def _measure(self) -> None:
        began = self._clock()
        beside = Amount()
        for wanted, counted_in in self._under_way.values():
            beside.add(wanted)
            counted_in.append(beside)
        self._since.append(beside)
        try:
            measured = await self._measured_now()
        except BaseException:
            self._since.pop()
            raise
        finally:
            self._measuring = None
        self._measured = measured
        self._queues.clear()  # some may have been deleted
        del self._since[0]
        self._measured_at = self._clock()
        self._pause = max(MEASURE_SECONDS, MEASURE_SHARE * (self._measured_at - began))

    async def _measured_now(self) -> Amount:
        quota = self.quota
        rows = await self._store.run(Totals(quota.name, bytes=quota.max_bytes is not None))
        amount = Amount(
            max_messages=sum(row.unfinished for row in rows),
            max_bytes=sum(row.bytes or 0 for row in rows),
            max_queues=len(rows),
        )
        beside = (quota.max_bytes, quota.max_policies, quota.max_schedules, quota.max_history_bytes)
        if any(limit is not None for limit in beside):
            measure = quota.max_history_bytes is not None
            kept = await self._store.run(NamespaceHoldings(quota.name, measure))
            amount.add(
                Amount(
                    max_bytes=kept.schedule_bytes,
                    max_policies=kept.policies,
                    max_schedules=kept.schedules,
                    max_history_bytes=kept.history_bytes,
                )
            )
        return amount


class Quotas:
    """The quotas of all namespaces that ask this process."""

    def __init__(self, store: AsyncStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._listed_until = float("-inf")
        self._known: dict[str, Namespace] = {}
        self._buckets: dict[str, Bucket] = {}
        self._usages: dict[str, NamespaceUsage] = {}

    def learn(self, quota: Namespace) -> None:
        """Set the quotas of a namespace."""
        name = quota.name
        if quota.requests_per_second is None:
            self._buckets.pop(name, None)
        elif (old := self._buckets.get(name)) is None:
            self._buckets[name] = Bucket(quota.requests_per_second, self._clock())
        else:
            old.per_second = quota.requests_per_second
        self._known[name] = quota
        old = self._usages.get(name)
        if all(getattr(quota, limit) is None for limit in MEASURED):
            self._usages.pop(name, None)
        elif old is None or any(
            getattr(old.quota, limit) is None and getattr(quota, limit) is not None
            for limit in MEASURED
        ):  # something was never measured yet
            self._usages[name] = NamespaceUsage(self._store, self._clock)
            self._usages[name].quota = quota
        else:
            old.quota = quota

    def more(self, namespace: str, count: int) -> None:
        """Count `count` more requests for one that was let in: those after it wait for that."""
        bucket = self._buckets.get(namespace)
        if bucket is not None:
            bucket.owe(count)

    def request(self, namespace: str) -> None:
        """Count a request. Raises: TooManyRequests."""
        bucket = self._buckets.get(namespace)
        if bucket is not None and (wait := bucket.take(self._clock())):
            raise TooManyRequests(
                f"the namespace may make {bucket.per_second:,} requests a second: "
                f"repeat in {wait:.3f} s",
                wait,
            )

    def weight(self, namespace: str) -> int:
        """The namespace's weight in the sharing of the server's time."""
        known = self._known.get(namespace)
        return 1 if known is None else known.weight or 1

    def max_polls(self, namespace: str) -> int | None:
        """The number of its requests that may wait."""
        known = self._known.get(namespace)
        return None if known is None else known.max_polls

    def usage(self, namespace: str) -> NamespaceUsage | None:
        """The usage that bounds the namespace's sends; None: nothing does."""
        return self._usages.get(namespace)

    async def usage_now(self, namespace: str) -> NamespaceUsage | None:
        """Like `usage`, for work that no request started: looks the quotas up if needed."""
        if self._clock() >= self._listed_until:
            self._listed_until = self._clock() + LIST_SECONDS
            for quota in await self._store.run(NamespaceList()):
                self.learn(quota)
        return self.usage(namespace)


BOUNDED = (Send, QueueCreate, ScheduleSet, PolicySet)
"""Verbs that a quota may refuse."""


def amount_of(verb: Verb[Any]) -> Amount:
    """The minimum that a verb adds. A payload may be kept in history when its message ends."""
    if isinstance(verb, Send):
        size = verb.carried_bytes()
        return Amount(max_messages=len(verb.messages), max_bytes=size, max_history_bytes=size)
    if isinstance(verb, ScheduleSet):
        return Amount(max_bytes=len(verb.schedule.message.payload))
    return Amount()


def bounded_in(verbs: Sequence[Verb[Any]]) -> list[Verb[Any]]:
    """The verbs of a batch that a quota bounds."""
    return [verb for verb in verbs if isinstance(verb, BOUNDED)]


def _seen(task: asyncio.Task[None]) -> None:
    """Silence a failed look without a waiter: the next one raises an error of its own."""
    if not task.cancelled():
        task.exception()
