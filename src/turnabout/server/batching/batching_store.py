"""Concurrent verbs of many clients, carried out together.

Verbs of one kind on one queue share a batcher. A verb that finds it idle goes at once; those that
come while it is busy go as one verb afterwards, in the order of asking. So a lone verb waits for
nothing, and many callers cost the database few transactions. `merging` makes one verb of many, and
many answers of one.

The batcher's own task carries out a batch: a client that goes away takes no other's answer along.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence, Sized
from contextlib import suppress
from typing import Any, TypeVar

from turnabout.server.batching.merging import Key, Mergeable, VerbBatch, channels_of, kind_of
from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.waiting.batcher import Batcher
from turnabout.words.errors import TurnaboutError, UsageError
from turnabout.words.outcomes import ChannelFull, QueueFull, Received
from turnabout.words.value import replace
from turnabout.words.verbs import Receive, Release, Send, Verb

A = TypeVar("A")
Call = tuple[Verb[Any], "asyncio.Future[Any]"]
"""A pending verb, and the future of its answer."""

SPLITS_MAX = 3
"""Retries of a batch of sends, each without those to a channel that turned out to be full."""
GATHER_SECONDS, GATHER_ROUNDS = 0.001, 3
"""Time, and number of waits, for the callers of an answered batch to ask again."""


async def gather(line: Sized, before: int) -> None:
    """Wait briefly after a batch is answered, as most of its callers ask again at once. Otherwise
    the first to ask would go alone, and the others would wait for its commit.
    """
    for _ in range(GATHER_ROUNDS):
        if len(line) * 4 >= before * 3:
            return
        await asyncio.sleep(GATHER_SECONDS)


class BatchingStore(AsyncForwardingStore):
    """See `turnabout.store.AsyncStore`; on one event loop.

    A call that is cancelled before its turn did not happen; after that, it may happen. Messages
    leased for a cancelled call are released at once. Receives that come here have a turn of their
    own; those that leave it to the server are merged by `long_poll` before.
    """

    def __init__(
        self, store: AsyncStore, kinds: Callable[[Verb[Any]], Mergeable | None] = kind_of
    ) -> None:
        """Wrap `store`. `kinds`: the way to merge a verb; None: it is not merged."""
        super().__init__(store)
        self.store = store
        self._kind_of = kinds
        self._batchers: dict[Key, VerbBatcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, verb: Verb[A]) -> A:
        """Run a verb, merged with others of its kind that come at the same time."""
        kind = self._kind_of(verb)
        if kind is None:
            return await self.store.run(verb)
        key = kind.key(verb)
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = self._batchers[key] = VerbBatcher(self, kind, key)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        batcher.ask((verb, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.give_back(verb, answer.result())  # it was on its way to a task that is gone
            raise

    async def close(self) -> None:
        """Finish what is under way, then close the store."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the work in a task of its own, which `close` waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def give_back(self, verb: Verb[Any], answer: Any) -> None:
        """Release messages whose caller has gone, so that other receivers can have them at once."""
        if isinstance(verb, Receive) and answer.deliveries:
            receipts = tuple(delivery.receipt for delivery in answer.deliveries)
            self.start(self._release(Release(verb.queue, receipts)))

    async def _release(self, verb: Release) -> None:
        with suppress(TurnaboutError):  # then their leases run out
            await self.run(verb)

    def forget(self, key: Key) -> None:
        """Remove a batcher that is empty."""
        del self._batchers[key]


class VerbBatcher:
    """Verbs that can become one, in the order of asking."""

    __slots__ = ("_batcher", "_front", "_key", "_kind", "_some_ask_again", "ask")

    def __init__(self, front: BatchingStore, kind: Mergeable, key: Key) -> None:
        self._front = front
        self._kind = kind
        self._key = key
        self._batcher: Batcher[Call] = Batcher(self._next, self._end, front.start)
        self.ask = self._batcher.add
        self._some_ask_again = False
        """Some callers of the last batch were put back to ask again."""

    async def _next(self, pending: deque[Call]) -> None:
        """Carry out one batch."""
        batch = self._take(pending)
        if not batch:
            return
        self._some_ask_again = False
        await self._carry_out(batch, SPLITS_MAX)
        if len(batch) > 1 and not self._some_ask_again:
            await gather(pending, len(batch))

    def _end(self, pending: deque[Call], error: BaseException | None) -> None:
        """Fail calls that are left after a bug, so that no caller waits for ever."""
        for call in pending:
            _fail(call, error or asyncio.CancelledError())
        self._front.forget(self._key)

    def _take(self, waiting: deque[Call]) -> list[Call]:
        """The first one pending, and those behind it that can be one verb with it."""
        taken = list[Call]()
        batch = VerbBatch(self._kind)
        while waiting:
            verb, answer = waiting[0]
            if not answer.done():  # else its task was cancelled: it did not happen
                if not batch.add(verb):
                    break
                taken.append(waiting[0])
            waiting.popleft()
        return taken

    async def _carry_out(self, calls: Sequence[Call], splits: int) -> None:
        """Run one verb for all. If it is refused or wrong, run each alone."""
        if len(calls) == 1:
            await self._alone(calls[0])
            return
        verbs = [verb for verb, _ in calls]
        try:
            answer = await self._front.store.run(self._kind.merge(verbs))
            if isinstance(answer, ChannelFull) and splits:
                await self._without_channel(answer.channel, calls, splits)
            elif isinstance(answer, (ChannelFull, QueueFull)):
                self._set_apart(calls)
            else:
                self._share(calls, answer, self._kind.cut(verbs, answer))
        except UsageError:
            self._set_apart(calls)  # nothing happened, and one of them may be the cause
        except Exception as error:  # noqa: BLE001 - raised again, by everybody in the batch
            for one in calls:
                _fail(one, error)

    def _share(self, calls: Sequence[Call], answer: Any, parts: Sequence[Any]) -> None:
        """Give each caller its part. A receive that got nothing while others got something asks
        again: there may be more now, and only an empty answer says when something is due.
        """
        again: list[Call] = []
        for one, part in zip(calls, parts, strict=True):
            if isinstance(answer, Received) and answer.deliveries and not part.deliveries:
                if part.acked:  # that is done, and is not to be done again: it asks by itself
                    self._hand_out(one, replace(part, retry_after_ms=0))
                else:
                    again.append(one)
            else:
                self._hand_out(one, part)
        self._batcher.pending.extendleft(reversed(again))
        self._some_ask_again = bool(again)

    async def _without_channel(self, full: str, calls: Sequence[Call], splits: int) -> None:
        """Handle a full channel: run the sends to it one by one, without delaying the others."""
        apart = [one for one in calls if full in channels_of(one[0])]
        others = [one for one in calls if full not in channels_of(one[0])]
        self._set_apart(apart)
        if others:
            await self._carry_out(others, splits - 1)

    def _set_apart(self, calls: Sequence[Call]) -> None:
        """Each alone, not by the batcher. Sends one after the other: the first has the room."""
        if isinstance(calls[0][0], Send):
            self._front.start(self._one_by_one(calls))
        else:
            for one in calls:
                self._front.start(self._alone(one))

    async def _one_by_one(self, calls: Sequence[Call]) -> None:
        for one in calls:
            if not one[1].done():
                await self._alone(one)

    async def _alone(self, call: Call) -> None:
        try:
            self._hand_out(call, await self._front.store.run(call[0]))
        except Exception as error:  # noqa: BLE001 - raised again, by the caller
            _fail(call, error)

    def _hand_out(self, call: Call, part: Any) -> None:
        verb, answer = call
        if answer.done():
            self._front.give_back(verb, part)
        else:
            answer.set_result(part)


def _fail(call: Call, error: BaseException) -> None:
    if not call[1].done():
        call[1].set_exception(error)
