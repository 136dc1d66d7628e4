"""What a namespace may use: requests a second, messages and bytes that wait in its queues.

Each server process counts for itself. Everything here runs on one event loop; the clock is passed
in, in seconds that only go forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from turnabout.server.verbs import Namespace, NamespaceList
from turnabout.store import AsyncStore
from turnabout.words.administration import Repeats, Totals
from turnabout.words.errors import QuotaExceeded, TooManyRequests, Uncertain
from turnabout.words.namespaces import NO_NAMESPACE
from turnabout.words.outcomes import Sent
from turnabout.words.verbs import Send, Verb

MEASURE_SECONDS = 1.0
"""Between two looks at what a namespace holds …"""
LIST_SECONDS = 5.0
"""Between two looks at the quotas of all namespaces, while schedules are fired."""
MEASURE_SHARE = 100
"""… and as many times as long as the look takes, as measuring bytes reads every message."""
QUIET_LOOKS = 2
"""A figure that is this many times older than that is not trusted: a send waits for a new one."""


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

    def put_back(self) -> None:
        """Give back a request that was counted and not made."""
        self._left += 1.0


class Amount:
    """Messages and bytes of their payloads."""

    __slots__ = ("bytes", "messages")

    def __init__(self, messages: int = 0, bytes: int = 0) -> None:  # noqa: A002
        self.messages = messages
        self.bytes = bytes

    def add(self, other: Amount, times: int = 1) -> None:
        """Add the other amount `times` times; with -1 it is taken off."""
        self.messages += times * other.messages
        self.bytes += times * other.bytes


class NamespaceUsage:
    """The contents of one namespace: as measured last, and what this process has let in since then.

    A send that is under way while others measure may be in the figure or not: it is counted beside
    it, so that the quota errs on the side of refusing.
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
        """Let in since the last look; while one is under way also what will be beside it."""
        self._under_way: dict[object, tuple[Amount, list[Amount]]] = {}

    @asynccontextmanager
    async def room(self, sends: Sequence[Send]) -> AsyncGenerator[list[Any]]:
        """A block in which these sends are carried out; it appends their outcomes to the list.

        Raises: QuotaExceeded, and as `AsyncStore.run` for the look at what is there.
        """
        await self._look()
        wanted = _amount(sends)
        try:
            self._check(wanted)
        except QuotaExceeded:
            fresh = [send for send in sends if not await self._repeats(send)]
            wanted = _amount(fresh)
            if fresh:
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
            is_in = any(isinstance(outcome, Sent) for outcome in outcomes)
        except (Uncertain, asyncio.CancelledError):
            is_in = True  # perhaps
            raise
        finally:
            del self._under_way[place]
            if not is_in:
                for amount in counted_in:
                    amount.add(wanted, -1)

    def _check(self, wanted: Amount) -> None:
        quota, since = self.quota, self._since[0]
        for limit, there, more, what in (
            (quota.max_messages, self._measured.messages + since.messages, wanted.messages, ""),
            (quota.max_bytes, self._measured.bytes + since.bytes, wanted.bytes, " bytes"),
        ):
            if limit is not None and there + more > limit:
                name = "max_bytes" if what else "max_messages"
                raise QuotaExceeded(
                    f"the namespace holds {there:,} of {limit:,}{what or ' messages'} ({name}), "
                    f"and {more:,} more do not fit: finish or purge some, or have the quota raised"
                )

    async def _repeats(self, send: Send) -> bool:
        """Whether it puts nothing in, and would be answered with the ids of earlier messages."""
        if not all(message.dedup_key for message in send.messages):
            return False
        return await self._store.run(Repeats(send.queue, send.messages))

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
            rows = await self._store.run(
                Totals(self.quota.name, bytes=self.quota.max_bytes is not None)
            )
        except BaseException:
            self._since.pop()
            raise
        finally:
            self._measuring = None
        self._measured = Amount(
            sum(row.unfinished for row in rows), sum(row.bytes or 0 for row in rows)
        )
        del self._since[0]
        self._measured_at = self._clock()
        self._pause = max(MEASURE_SECONDS, MEASURE_SHARE * (self._measured_at - began))


class Quotas:
    """The quotas of all namespaces that ask this process."""

    def __init__(self, store: AsyncStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._listed_until = float("-inf")
        self._buckets: dict[str, Bucket] = {}
        self._usages: dict[str, NamespaceUsage] = {}

    def learn(self, quota: Namespace) -> None:
        """These are the namespace's quotas from now on."""
        name = quota.name
        if quota.requests_per_second is None:
            self._buckets.pop(name, None)
        elif (old := self._buckets.get(name)) is None:
            self._buckets[name] = Bucket(quota.requests_per_second, self._clock())
        else:
            old.per_second = quota.requests_per_second
        if quota.max_messages is None and quota.max_bytes is None:
            self._usages.pop(name, None)
        else:
            usage = self._usages.setdefault(name, NamespaceUsage(self._store, self._clock))
            if usage.quota.max_bytes is None and quota.max_bytes is not None:
                usage = self._usages[name] = NamespaceUsage(
                    self._store, self._clock
                )  # never measured yet
            usage.quota = quota

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
        """How much of the server's time it gets beside others."""
        return 1

    def max_polls(self, namespace: str) -> int | None:
        """How many of its requests may wait."""
        return None

    def usage(self, namespace: str) -> NamespaceUsage | None:
        """The usage that bounds the namespace's sends; None: nothing does."""
        return self._usages.get(namespace)

    async def usage_now(self, namespace: str) -> NamespaceUsage | None:
        """The same for what no request has brought: the quotas may not be known yet."""
        if self._clock() >= self._listed_until:
            self._listed_until = self._clock() + LIST_SECONDS
            for quota in await self._store.run(NamespaceList()):
                self.learn(quota)
        return self.usage(namespace)


def _amount(sends: Sequence[Send]) -> Amount:
    amount = Amount()
    for send in sends:
        amount.add(Amount(len(send.messages), sum(len(m.payload) for m in send.messages)))
    return amount


def sends_in(verbs: Sequence[Verb[Any]]) -> list[Send]:
    """Those verbs of a batch that a quota bounds."""
    return [verb for verb in verbs if isinstance(verb, Send)]


def _seen(task: asyncio.Task[None]) -> None:
    """An error of a look that nobody waited for is raised for the next caller that waits."""
    if not task.cancelled():
        task.exception()
