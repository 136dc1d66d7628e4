"""Tells the database how messages ended: many in one call, repeated until it has answered.

Everything that ends while a call is under way goes into the next one. So a lone ack leaves at once,
and under load a call carries as many as came together during the last.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Literal, assert_never

from turnabout._async import AsyncQueue
from turnabout.batcher import Batcher
from turnabout.words.entities import Deferral, Failure
from turnabout.words.errors import QueueNotFound, Unavailable, Uncertain
from turnabout.words.outcomes import (
    AckOutcome,
    DeferOutcome,
    FailOutcome,
    LeaseLost,
    ReleaseOutcome,
)
from turnabout.worker.endings import Done, Ending, Failed, GivenBack, PutOff
from turnabout.worker.loop import Backoff, Lease

log = logging.getLogger("turnabout.worker")

BATCH_MAX = 1_000
BATCH_BYTES_MAX = 4 * 1024 * 1024
Answer = AckOutcome | DeferOutcome | FailOutcome | ReleaseOutcome | Literal["probably", "untold"]
"""The database's answer; or that a lost answer probably meant yes; or that it was not reached."""

Told = Callable[[Lease, Ending, Answer], None]
"""Called when a message is over: its lease, how it was to end, and the answer to that."""

_Item = tuple[Lease, Ending]
_UNTOLD: tuple[Answer, ...] = ("untold",)


class Settler:
    """The endings of one queue's messages, a batcher for each verb: none waits for another."""

    def __init__(
        self, queue: AsyncQueue, told: Told, broken: Callable[[BaseException], None]
    ) -> None:
        self._queue = queue
        self._told = told
        self._broken = broken
        self._batchers: dict[type[Ending], Batcher[_Item]] = {}

    def put(self, lease: Lease, ending: Ending) -> None:
        """This message has ended so; returns at once."""
        batcher = self._batchers.get(type(ending))
        if batcher is None:
            batcher = self._batchers[type(ending)] = Batcher(self._next, self._give_up)
        batcher.add((lease, ending))

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
            self._told(*pending.popleft(), "untold")

    async def _tell(self, items: list[_Item]) -> None:
        backoff = Backoff()
        unsure = False
        outcomes: Sequence[Answer]
        while True:
            try:
                outcomes = await self._run(items)
            except Uncertain:
                unsure = True
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
            probably = unsure and isinstance(outcome, LeaseLost) and _is_as_if(ending, outcome)
            self._told(lease, ending, "probably" if probably else outcome)

    def _run(self, items: list[_Item]) -> Awaitable[Sequence[Answer]]:
        """One call; all items are of one kind."""
        receipts = [lease.receipt for lease, _ in items]
        match items[0][1]:
            case Done():
                results = [
                    ending.result if isinstance(ending, Done) else None for _, ending in items
                ]
                return self._queue.ack(receipts, results=results if any(results) else None)
            case GivenBack():
                return self._queue.release(receipts)
            case Failed():
                return self._queue.fail(
                    [
                        Failure(lease.receipt, ending.error, ending.retry)
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


def _fitting(pending: Iterable[_Item]) -> int:
    """How many go into one call: results may be large."""
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
