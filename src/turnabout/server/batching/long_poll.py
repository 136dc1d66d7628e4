"""Where receives wait for messages: one look for all who wait on a queue.

Receives of one queue, lease and shard meet at a spot, in the order of asking. One task looks for
all of them: at once when somebody comes, when there is news of the queue, and when a message is
due. What it finds is handed out from the front of the line. So two thousand who wait cost one
query, and one message wakes one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from math import ceil
from typing import Any, Protocol

from turnabout.server.batching.batcher import gather
from turnabout.server.batching.maintenance import Housekeeping
from turnabout.server.batching.merging import MESSAGES_MAX
from turnabout.store import AsyncStore
from turnabout.words.entities import FIRST_TURN, Delivery, Shard, Turn
from turnabout.words.errors import TurnaboutError
from turnabout.words.outcomes import Received
from turnabout.words.turns import in_turn
from turnabout.words.verbs import Receive, Release

Gone = Callable[[], Awaitable[bool]]

GAP_SECONDS_EACH, GAP_SECONDS_MAX = 0.0001, 0.02
"""Between two looks that leave somebody waiting, for each who waits."""
BELL_SECONDS = 60.0
"""News of a queue is listened for in stretches of this length."""
YOUNG_SECONDS = 0.1
"""Whoever came so short a time ago is taken to be there."""
CHECK_SECONDS = 5.0
"""So often it is checked whether one who waits still is there."""
TURNS_MAX = 10_000
"""Queues and shards whose place in the round robin is remembered."""
NOTHING = Received(())


class Places(Protocol):
    """Who counts those that wait."""

    def one(self) -> AbstractContextManager[None]:
        """A place, for as long as the block. Raises: Busy when there is none left."""
        ...


class Poll:
    """A receive in line: for so many messages, until then."""

    __slots__ = ("answer", "asked_at", "checked_at", "gone", "is_parked", "most", "wait_seconds")

    def __init__(self, most: int, wait_seconds: float, gone: Gone | None) -> None:
        self.most = most
        self.wait_seconds = wait_seconds
        self.gone = gone
        self.asked_at = self.checked_at = time.monotonic()
        self.is_parked = False
        """One look found nothing for it."""
        self.answer: asyncio.Future[Received | None] = _future()
        """None: it waits from now on, and `answer` is another one."""

    def park(self) -> None:
        """There is nothing yet."""
        self.is_parked = True
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
        except Exception:  # noqa: BLE001 - whoever cannot be asked cannot be answered
            return True


class Parking:
    """All receives of one server."""

    def __init__(self, store: AsyncStore, places: Places | None = None) -> None:
        """`places` counts those that wait."""
        self.store = store
        self.housekeeping = Housekeeping(store)
        self.is_closed = False
        self._places = places
        self._spots: dict[tuple[str, int | None, Shard | None], Spot] = {}
        self._turns: OrderedDict[tuple[str, Shard | None], Turn] = OrderedDict()
        self._parked: dict[Poll, None] = {}
        self._guard: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()

    async def receive(self, verb: Receive, wait_seconds: float, gone: Gone | None) -> Received:
        """Deliveries in the order of turns; if there are none within `wait_seconds`, when to ask
        again. It goes on from where the last one of this server ended, whatever `verb.turn` says.

        What comes when the client is `gone`, or its task cancelled, is for others, uncharged.
        Raises: Busy where as many wait as may; and as the store.
        """
        key = (verb.queue, verb.lease_ms, verb.shard)
        spot = self._spots.get(key)
        if spot is None:
            spot = self._spots[key] = Spot(self, verb, lambda: self._spots.pop(key, None))
        poll = Poll(verb.max_messages, 0.0 if self.is_closed else wait_seconds, gone)
        spot.join(poll)
        try:
            received = await poll.answer
            if received is None:
                received = await self._wait(spot, poll)
        except BaseException:
            answer = poll.answer
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.give_back(verb.queue, (answer.result() or NOTHING).deliveries)
            raise
        finally:
            spot.leave(poll)
        return received

    async def _wait(self, spot: Spot, poll: Poll) -> Received:
        with self._places.one() if self._places is not None else nullcontext():
            left = poll.asked_at + poll.wait_seconds - time.monotonic()
            timer = asyncio.get_running_loop().call_later(left, spot.over, poll)
            self._parked[poll] = None
            if self._guard is None:
                self._guard = asyncio.ensure_future(self._watch())
            try:
                return await poll.answer or NOTHING
            finally:
                timer.cancel()
                del self._parked[poll]

    def close(self) -> None:
        """Whoever waits is answered now, without messages; and nobody waits from now on."""
        self.is_closed = True
        for poll in self._parked:
            poll.give(NOTHING)
        if self._guard is not None:
            self._guard.cancel()

    async def look(self, verb: Receive, most: int) -> Received:
        """Lease up to so many, from where the last look into that queue ended."""
        await self.housekeeping.before_look(verb.queue)
        place = (verb.queue, verb.shard)
        turn = self._turns.get(place, FIRST_TURN)
        received = await self.store.run(Receive(verb.queue, most, verb.lease_ms, verb.shard, turn))
        self.housekeeping.exists(verb.queue)
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
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _release(self, verb: Release) -> None:
        try:
            await self.store.run(verb)
        except TurnaboutError:
            return  # then their leases run out

    async def _watch(self) -> None:
        """While anybody waits: see who has gone; and a schedule may be due."""
        try:
            while self._parked:
                await asyncio.sleep(CHECK_SECONDS / 5)
                await self.housekeeping.fire()
                now = time.monotonic()
                for poll in list(self._parked):
                    if now - poll.checked_at >= CHECK_SECONDS and await poll.is_gone(now):
                        poll.give(NOTHING)
        finally:
            self._guard = None


class Spot:
    """Those who want messages of one queue, with one lease and shard, in the order of asking."""

    __slots__ = (
        "_bell",
        "_forget",
        "_hungry_at",
        "_line",
        "_news",
        "_parking",
        "_retry_at",
        "_verb",
    )

    def __init__(self, parking: Parking, verb: Receive, forget: Callable[[], object]) -> None:
        """`forget` is called when nobody is there any more, and then it is not used again."""
        self._parking = parking
        self._verb = verb
        self._forget = forget
        self._line: dict[Poll, None] = {}
        self._news = asyncio.Event()
        self._bell: asyncio.Task[None] | None = None
        self._hungry_at = 0.0
        self._retry_at: float | None = None
        parking.start(self._go())

    def join(self, poll: Poll) -> None:
        """Stand in line, for the next look."""
        self._line[poll] = None
        self._news.set()

    def leave(self, poll: Poll) -> None:
        """Answered, or gone."""
        poll.answer.cancel()
        self._line.pop(poll, None)
        if not self._line:
            self._news.set()

    def over(self, poll: Poll) -> None:
        """It has waited as long as it wanted."""
        left = None
        if self._retry_at is not None:
            left = max(ceil((self._retry_at - time.monotonic()) * 1000), 0)
        poll.give(Received((), left))

    async def _go(self) -> None:
        """Look after look, until the line is empty."""
        try:
            while self._line:
                await self._look()
        except Exception as error:  # noqa: BLE001 - raised again, by everybody in line
            for poll in self._line:
                if not poll.answer.done():
                    poll.answer.set_exception(error)
        finally:
            self._forget()
            if self._bell is not None:
                self._bell.cancel()

    async def _look(self) -> None:
        """One look for all who are there, and the wait for the next one."""
        await self._rest()
        queue = self._verb.queue
        waits = any(poll.wait_seconds for poll in self._line)
        seen = await self._parking.store.signal(queue) if waits else 0
        self._news.clear()
        self._line = {poll: None for poll in self._line if not poll.answer.done()}
        line = list(self._line)
        if not line:
            return
        most = min(sum([poll.most for poll in line]), max(MESSAGES_MAX, line[0].most))
        received = await self._parking.look(self._verb, most)
        hungry = await self._hand_out(line, received.deliveries)
        if received.deliveries:
            # Once more for the others: there may be more, or it says when to ask again.
            if len(received.deliveries) < most:
                self._hungry_at = time.monotonic()
            elif len(line) > 1:
                await self._gather(len(line))
            return
        self._turn_away(hungry, received.retry_after_ms)
        if self._line:
            self._hungry_at = time.monotonic()
            await self._wait(seen)

    async def _gather(self, before: int) -> None:
        """Those who were answered leave the line, and most of them come again in a moment."""
        await asyncio.sleep(0)
        await gather(self._line, before)

    async def _rest(self) -> None:
        """The more are left waiting, the less often is looked for them."""
        gap = min(len(self._line) * GAP_SECONDS_EACH, GAP_SECONDS_MAX)
        pause = self._hungry_at + gap - time.monotonic()
        self._hungry_at = 0.0
        if pause > 0:
            await asyncio.sleep(pause)

    async def _hand_out(
        self, line: Sequence[Poll], deliveries: Sequence[Delivery]
    ) -> Sequence[Poll]:
        """To each what it wants, as long as there is something; who got nothing."""
        first = 0
        for place, poll in enumerate(line):
            if first == len(deliveries):
                return line[place:]
            if poll.is_parked and await poll.is_gone(time.monotonic()):
                poll.give(NOTHING)
            elif not poll.answer.done():
                part = tuple(deliveries[first : first + poll.most])
                poll.give(Received(part))
                first += len(part)
        self._parking.give_back(self._verb.queue, deliveries[first:])
        return ()

    def _turn_away(self, hungry: Sequence[Poll], retry_after_ms: int | None) -> None:
        """There is nothing for them: answered so, or parked."""
        now = time.monotonic()
        self._retry_at = None if retry_after_ms is None else now + retry_after_ms / 1000
        for poll in hungry:
            if now - poll.asked_at >= poll.wait_seconds or self._parking.is_closed:
                poll.give(Received((), retry_after_ms))
            elif not poll.is_parked and not poll.answer.done():
                poll.park()

    async def _wait(self, seen: int) -> None:
        """Until somebody comes, or there is news, or a message is due."""
        if self._bell is None or self._bell.done():
            self._bell = asyncio.ensure_future(self._listen(seen))
        pause = None if self._retry_at is None else self._retry_at - time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._news.wait()

    async def _listen(self, seen: int) -> None:
        try:
            await self._parking.store.wait(self._verb.queue, seen, BELL_SECONDS)
        except TurnaboutError:
            await asyncio.sleep(GAP_SECONDS_MAX)  # the next look finds out
        finally:
            self._news.set()


def _future() -> asyncio.Future[Received | None]:
    return asyncio.get_running_loop().create_future()
