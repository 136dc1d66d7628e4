"""Long polling: receives wait for messages, and one look serves all that wait on a queue.

Receives of one queue, lease and shard form a group, in the order of asking. One task looks for
all of them: at once when one more comes, when the store notifies of a change in the queue, and
when a message is due. What it finds is handed out from the front of the group. So two thousand that
wait cost one query, and one message wakes one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from math import ceil
from typing import Any

from turnabout.server.admission import Admission
from turnabout.server.batching.batching_store import gather
from turnabout.server.batching.maintenance import Maintenance
from turnabout.server.batching.merging import MESSAGES_MAX
from turnabout.store import AsyncStore
from turnabout.words.entities import FIRST_TURN, Delivery, Shard, Turn
from turnabout.words.errors import TurnaboutError
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn
from turnabout.words.verb import Change
from turnabout.words.verbs import Receive, Release

Gone = Callable[[], Awaitable[bool]]

GAP_SECONDS_EACH, GAP_SECONDS_MAX = 0.0001, 0.02
"""The gap between two looks that leave somebody waiting, for each waiter."""
LISTEN_SECONDS = 60.0
"""How long the store is asked at a time to tell of a change in the queue."""
YOUNG_SECONDS = 0.1
"""A request this recent is assumed to be connected."""
CHECK_SECONDS = 5.0
"""Between two checks that the client of a waiter is still there."""
TURNS_MAX = 10_000
"""Queues and shards whose place in the round robin is remembered."""
NOTHING = Received(())


class Waiter:
    """A receive that wants `most` messages and waits up to `wait_seconds`."""

    __slots__ = ("answer", "asked_at", "checked_at", "gone", "is_waiting", "most", "wait_seconds")

    def __init__(self, most: int, wait_seconds: float, gone: Gone | None) -> None:
        self.most = most
        self.wait_seconds = wait_seconds
        self.gone = gone
        self.asked_at = self.checked_at = time.monotonic()
        self.is_waiting = False
        """One look found nothing for it."""
        self.answer: asyncio.Future[Received | None] = _future()
        """None: it waits from now on, and `answer` is another one."""

    def keep_waiting(self) -> None:
        """There is nothing yet."""
        self.is_waiting = True
        first, self.answer = self.answer, _future()
        first.set_result(None)

    def give(self, received: Received) -> None:
        """The answer, if nobody gave one before."""
        if not self.answer.done():
            self.answer.set_result(received)

    async def is_gone(self, now: float) -> bool:
        """Whether the client has hung up; hardly within the first moments, so not asked then."""
        if self.gone is None or now - self.asked_at < YOUNG_SECONDS:
            return False
        self.checked_at = now
        try:
            return await self.gone()
        except Exception:  # noqa: BLE001 - a client that cannot be asked cannot be answered
            return True


class LongPoll:
    """All receives of one server."""

    def __init__(self, store: AsyncStore, admission: Admission | None = None) -> None:
        """`admission` counts those that wait."""
        self.store = store
        self.maintenance = Maintenance(store)
        self.is_closed = False
        self._admission = admission
        self._groups: dict[tuple[str, int | None, Shard | None], QueueWaiters] = {}
        self._turns: OrderedDict[tuple[str, Shard | None], Turn] = OrderedDict()
        self._waiting: dict[Waiter, None] = {}
        self._guard: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def receive(self, verb: Receive, wait_seconds: float, gone: Gone | None) -> Received:
        """Deliveries in the order of turns; if there are none within `wait_seconds`, when to ask
        again. It goes on from where the last one of this server ended, whatever `verb.turn` says.

        What comes when the client is `gone`, or its task cancelled, is for others, uncharged.
        Raises: Busy where as many wait as may; and as the store.
        """
        key = (verb.queue, verb.lease_ms, verb.shard)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = QueueWaiters(
                self, verb, lambda: self._groups.pop(key, None)
            )
        waiter = Waiter(verb.max_messages, 0.0 if self.is_closed else wait_seconds, gone)
        group.join(waiter)
        try:
            received = await waiter.answer
            if received is None:
                received = await self._wait(group, waiter)
        except BaseException:
            answer = waiter.answer
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.give_back(verb.queue, (answer.result() or NOTHING).deliveries)
            raise
        finally:
            group.leave(waiter)
        return received

    async def _wait(self, group: QueueWaiters, waiter: Waiter) -> Received:
        with self._admission.waiter() if self._admission is not None else nullcontext():
            left = waiter.asked_at + waiter.wait_seconds - time.monotonic()
            timer = asyncio.get_running_loop().call_later(left, group.over, waiter)
            self._waiting[waiter] = None
            if self._guard is None:
                self._guard = asyncio.ensure_future(self._watch())
            try:
                return await waiter.answer or NOTHING
            finally:
                timer.cancel()
                del self._waiting[waiter]

    def close(self) -> None:
        """All that wait are answered now, without messages; and nothing waits from now on."""
        self.is_closed = True
        for waiter in self._waiting:
            waiter.give(NOTHING)
        if self._guard is not None:
            self._guard.cancel()

    async def look(self, verb: Receive, most: int) -> Received:
        """Lease up to `most`, from where the last look into that queue ended."""
        await self.maintenance.before_look(verb.queue)
        place = (verb.queue, verb.shard)
        turn = self._turns.get(place, FIRST_TURN)
        received = await self.store.run(Receive(verb.queue, most, verb.lease_ms, verb.shard, turn))
        self.maintenance.exists(verb.queue)
        if not received.deliveries:
            return received
        deliveries, guess = in_turn(received.deliveries, turn)
        self._turns[place] = received.turn or guess
        self._turns.move_to_end(place)
        if len(self._turns) > TURNS_MAX:
            self._turns.popitem(last=False)
        return Received(tuple(deliveries), received.retry_after_ms)

    def give_back(self, queue: str, deliveries: Sequence[Delivery]) -> None:
        """Messages that were leased for nobody: others may have them at once."""
        if deliveries:
            receipts = tuple(delivery.receipt for delivery in deliveries)
            self.start(self._release(Release(queue, receipts)))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done by a task of its own."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _release(self, verb: Release) -> None:
        try:
            await self.store.run(verb)
        except TurnaboutError:
            return  # then their leases run out

    async def _watch(self) -> None:
        """While anybody waits: drop clients that have gone, and fire schedules that are due."""
        try:
            while self._waiting:
                await asyncio.sleep(CHECK_SECONDS / 5)
                await self.maintenance.fire()
                now = time.monotonic()
                for waiter in list(self._waiting):
                    if now - waiter.checked_at >= CHECK_SECONDS and await waiter.is_gone(now):
                        waiter.give(NOTHING)
        finally:
            self._guard = None


class QueueWaiters:
    """Receives of one queue, with one lease and shard, in the order of asking."""

    __slots__ = (
        "_changed",
        "_forget",
        "_hungry_at",
        "_listener",
        "_long_poll",
        "_pending",
        "_retry_at",
        "_seen",
        "_verb",
    )

    def __init__(self, long_poll: LongPoll, verb: Receive, forget: Callable[[], object]) -> None:
        """`forget` is called when nobody is there any more, and then it is not used again."""
        self._long_poll = long_poll
        self._verb = verb
        self._forget = forget
        self._pending: dict[Waiter, None] = {}
        self._changed = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._hungry_at = 0.0
        self._retry_at: float | None = None
        self._seen: int | None = None
        """Of the queue, if the last look found nothing and others know since then that we wait."""
        long_poll.start(self._go())

    def join(self, waiter: Waiter) -> None:
        """Take part in the next look."""
        self._pending[waiter] = None
        self._changed.set()

    def leave(self, waiter: Waiter) -> None:
        """Answered, or gone."""
        waiter.answer.cancel()
        self._pending.pop(waiter, None)
        if not self._pending:
            self._changed.set()

    def over(self, waiter: Waiter) -> None:
        """It has waited as long as it wanted."""
        left = None
        if self._retry_at is not None:
            left = max(ceil((self._retry_at - time.monotonic()) * 1000), 0)
        waiter.give(Received((), left))

    async def _go(self) -> None:
        """Look after look, until the group is empty."""
        try:
            while self._pending:
                await self._look()
        except Exception as error:  # noqa: BLE001 - raised again, by everybody in the group
            for waiter in self._pending:
                if not waiter.answer.done():
                    waiter.answer.set_exception(error)
        finally:
            self._forget()
            if self._listener is not None:
                self._listener.cancel()

    async def _look(self) -> None:
        """One look for all waiters, and the wait for the next one."""
        await self._rest()
        seen, self._seen = self._seen, None
        self._changed.clear()
        self._pending = {waiter: None for waiter in self._pending if not waiter.answer.done()}
        line = list(self._pending)
        if not line:
            return
        most = min(sum([waiter.most for waiter in line]), max(MESSAGES_MAX, line[0].most))
        received = await self._long_poll.look(self._verb, most)
        hungry = await self._hand_out(line, received.deliveries)
        if received.deliveries:
            # Once more for the others: there may be more, or it says when to ask again.
            if len(received.deliveries) < most:
                self._hungry_at = time.monotonic()
            elif len(line) > 1:
                await self._gather(len(line))
            return
        self._turn_away(hungry, received.retry_after_ms)
        if all(waiter.answer.done() for waiter in self._pending):
            await self._changed.wait()
        elif seen is None:  # others are told that somebody waits, and then one more look is due
            store = self._long_poll.store
            self._seen = await store.signal(self._verb.queue, Change.READY)
        else:
            self._hungry_at = time.monotonic()
            await self._wait(seen)

    async def _gather(self, before: int) -> None:
        """Those who were answered leave the group, and most of them come again in a moment."""
        await asyncio.sleep(0)
        await gather(self._pending, before)

    async def _rest(self) -> None:
        """The more are left waiting, the less often a look is made for them."""
        gap = min(len(self._pending) * GAP_SECONDS_EACH, GAP_SECONDS_MAX)
        pause = self._hungry_at + gap - time.monotonic()
        self._hungry_at = 0.0
        if pause > 0:
            await asyncio.sleep(pause)

    async def _hand_out(
        self, line: Sequence[Waiter], deliveries: Sequence[Delivery]
    ) -> Sequence[Waiter]:
        """Give each waiter what it wants while there is something; those that got nothing."""
        first = 0
        for place, waiter in enumerate(line):
            if first == len(deliveries):
                return line[place:]
            if waiter.is_waiting and await waiter.is_gone(time.monotonic()):
                waiter.give(NOTHING)
            elif not waiter.answer.done():
                part = tuple(deliveries[first : first + waiter.most])
                waiter.give(Received(part))
                first += len(part)
        self._long_poll.give_back(self._verb.queue, deliveries[first:])
        return ()

    def _turn_away(self, hungry: Sequence[Waiter], retry_after_ms: int | None) -> None:
        """There is nothing for them: answered so, or kept waiting."""
        now = time.monotonic()
        self._retry_at = None if retry_after_ms is None else now + retry_after_ms / 1000
        for waiter in hungry:
            if now - waiter.asked_at >= waiter.wait_seconds or self._long_poll.is_closed:
                waiter.give(Received((), retry_after_ms))
            elif not waiter.is_waiting and not waiter.answer.done():
                waiter.keep_waiting()

    async def _wait(self, seen: int) -> None:
        """Until one more comes, or the queue changes, or a message is due."""
        if self._listener is None or self._listener.done():
            self._listener = asyncio.ensure_future(self._listen(seen))
        pause = None if self._retry_at is None else self._retry_at - time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()
        if not self._listener.done():  # it was somebody who came, or something was due
            self._seen = seen

    async def _listen(self, seen: int) -> None:
        try:
            store = self._long_poll.store
            await store.wait(self._verb.queue, seen, LISTEN_SECONDS, Change.READY)
        except TurnaboutError:
            await asyncio.sleep(GAP_SECONDS_MAX)  # the next look finds out
        finally:
            self._changed.set()


def _future() -> asyncio.Future[Received | None]:
    return asyncio.get_running_loop().create_future()
