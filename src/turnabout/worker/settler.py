"""Tells the database how messages ended: many in one call, repeated until it has answered.

Everything that ends while a call is under way goes into the next one. So a lone ending leaves at
once, and under load a call carries as many as came together during the last. While the consumer
takes messages, its next receive takes the acks along; what it can't take goes by itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Literal, assert_never, cast

from turnabout._async import AsyncQueue
from turnabout.waiting.batcher import Batcher
from turnabout.words.entities import Deferral, Receipt
from turnabout.words.errors import QueueNotFound, TurnaboutError, Unavailable, Uncertain
from turnabout.words.outcomes import (
    AckOutcome,
    DeferOutcome,
    FailOutcome,
    LeaseLost,
    ReleaseOutcome,
)
from turnabout.words.records import Result
from turnabout.worker.endings import Defer, Done, Ending, Failed, GivenBack, Pause, PutOff, Returned
from turnabout.worker.loop import Backoff, Lease
from turnabout.worker.threads import End

log = logging.getLogger("turnabout.worker")

BATCH_MAX = 1_000
BATCH_BYTES_MAX = 4 * 1024 * 1024
Answer = AckOutcome | DeferOutcome | FailOutcome | ReleaseOutcome | Literal["probably", "untold"]
"""The database's answer; or that a lost answer probably meant yes; or that it was not reached."""

OnSettled = Callable[[Lease, Ending, Answer], None]
"""Called when a message is over: its lease, how it was to end, and the answer to that."""

_Item = tuple[Lease, Ending]
_UNTOLD: tuple[Answer, ...] = ("untold",)


class Settler:
    """The endings of one queue's messages, a batcher for each verb: none waits for another."""

    def __init__(
        self,
        queue: AsyncQueue,
        on_settled: OnSettled,
        broken: Callable[[BaseException], None],
        has_acks: Callable[[], None],
        worker: str,
    ) -> None:
        """`has_acks` is called when there is something for the next receive to take along.
        `worker`: the name that failures tell.
        """
        self._queue = queue
        self._on_settled = on_settled
        self._broken = broken
        self._has_acks = has_acks
        self._worker = worker
        self._for_receive: deque[_Item] = deque()
        self._unsure: set[Lease] = set()
        """Endings whose last answer was lost."""
        self._receives_take_acks = False
        self._batchers: dict[type[Ending], Batcher[_Item]] = {}

    def put(self, lease: Lease, ending: Ending) -> None:
        """Add a message's ending; returns at once."""
        if self._receives_take_acks and isinstance(ending, Done):
            self._for_receive.append((lease, ending))
            self._has_acks()
        else:
            self._send(lease, ending)

    def acks(self) -> list[_Item]:
        """Take acks for the next receive to carry; its caller reports the outcomes."""
        pending = self._for_receive
        return [pending.popleft() for _ in range(_fitting(pending))]

    def acked(self, items: list[_Item], outcomes: Sequence[Answer]) -> None:
        """The receive has taken these along."""
        for (lease, ending), outcome in zip(items, outcomes, strict=True):
            self._on_settled(lease, ending, outcome)

    def send(self, items: Iterable[_Item], *, unsure: bool = False) -> None:
        """Send endings in calls of their own. `unsure`: they may have been sent already."""
        for lease, ending in items:
            if unsure:
                self._unsure.add(lease)
            self._send(lease, ending)

    @contextmanager
    def riding(self) -> Generator[None]:
        """A block with receives that take acks along."""
        self._receives_take_acks = True
        try:
            yield
        finally:
            self._receives_take_acks = False
            self.send(self._for_receive)
            self._for_receive.clear()

    def _send(self, lease: Lease, ending: Ending) -> None:
        batcher = self._batchers.get(type(ending))
        if batcher is None:
            batcher = self._batchers[type(ending)] = Batcher(self._next, self._give_up)
        batcher.add((lease, ending))

    async def paused(self, channel: str, end: End) -> End:
        """Pause the channel if the ending asks for it, before the message is back in it. If that
        fails, the message returns later, uncharged.
        """
        value = end.value if isinstance(end, Returned) else end
        if not issubclass(type(value), Pause):  # (to ask the value itself may raise)
            return end
        pause = cast("Pause", value)
        try:
            await self._queue.channel(channel).pause(seconds=pause.seconds, reason=pause.reason)
        except TurnaboutError as error:
            log.warning("a channel of %s could not be paused: %s", self._queue.name, error.code)
            return Defer(delay_seconds=pause.seconds)
        return pause

    async def flush(self, seconds: float) -> None:
        """Wait until all has been told. After `seconds` give up: those leases run out instead."""
        await asyncio.gather(*[one.finish(seconds) for one in self._batchers.values()])

    async def _next(self, pending: deque[_Item]) -> None:
        items = [pending.popleft() for _ in range(_fitting(pending))]
        try:
            await self._tell(items)
        except BaseException:
            pending.extendleft(reversed(items))
            raise

    def _give_up(self, pending: deque[_Item], _: BaseException | None) -> None:
        while pending:
            self._on_settled(*pending.popleft(), "untold")

    async def _tell(self, items: list[_Item]) -> None:
        backoff = Backoff()
        outcomes: Sequence[Answer]
        while True:
            try:
                outcomes = await self._run(items)
            except Uncertain:
                self._unsure.update(lease for lease, _ in items)
                log.warning(
                    "the answer for %d messages of %s was lost; asking again",
                    len(items),
                    self._queue.name,
                )
            except Unavailable as error:
                log.warning(
                    "%d messages of %s could not be settled (%s); trying again",
                    len(items),
                    self._queue.name,
                    error.code,
                )
            except QueueNotFound:
                outcomes = [LeaseLost("gone")] * len(items)
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, the worker has to stop
                self._broken(error)
                outcomes = _UNTOLD * len(items)
                break
            else:
                break
            await asyncio.sleep(backoff.next(random.random()))  # noqa: S311 - jitter, no secret
        for (lease, ending), outcome in zip(items, outcomes, strict=True):
            probably = (
                lease in self._unsure
                and isinstance(outcome, LeaseLost)
                and _is_as_if(ending, outcome)
            )
            self._unsure.discard(lease)
            self._on_settled(lease, ending, "probably" if probably else outcome)

    def _run(self, items: list[_Item]) -> Awaitable[Sequence[Answer]]:
        """One call; all items are of one kind."""
        match items[0][1]:
            case Done():
                receipts, results = receipts_and_results(items)
                return self._queue.ack(receipts, results=results)
            case GivenBack():
                return self._queue.release([lease.receipt for lease, _ in items])
            case Failed():
                return self._queue.fail(
                    [
                        ending.failure(lease.receipt, self._worker)
                        for lease, ending in items
                        if isinstance(ending, Failed)
                    ]
                )
            case PutOff():
                return self._queue.defer(
                    [
                        Deferral(lease.receipt, ending.delay_ms, ending.state)
                        for lease, ending in items
                        if isinstance(ending, PutOff)
                    ]
                )
            case _ as never:
                assert_never(never)


def receipts_and_results(
    items: Iterable[_Item],
) -> tuple[list[Receipt], list[Result | None] | None]:
    """Results as an ack takes them."""
    receipts = [lease.receipt for lease, _ in items]
    results = [ending.result if isinstance(ending, Done) else None for _, ending in items]
    return receipts, results if any(results) else None


def _fitting(pending: Iterable[_Item]) -> int:
    """The number that goes into one call: results may be large."""
    count = size = 0
    for _, ending in islice(pending, BATCH_MAX):
        size += len(ending.result.data) if isinstance(ending, Done) and ending.result else 0
        if count and size > BATCH_BYTES_MAX:
            break
        count += 1
    return count


def _is_as_if(ending: Ending, found: LeaseLost) -> bool:
    """Whether the message is where an earlier try, whose answer was lost, would have put it."""
    return found.now == "gone" if isinstance(ending, Done) else found.now != "leased"
