"""Asks the server for news of the queues that somebody waits on: one request for each of them.

On one event loop. Thousands who wait on a queue cost one request. When the last of them goes, it is
left to its end: he mostly comes back.
"""

from __future__ import annotations

import asyncio
import time

from turnabout.remote.exchange import Exchange
from turnabout.remote.signals import Heard, Signals
from turnabout.remote.transport import carry_async, open_async
from turnabout.words.errors import TurnaboutError

HEAR_SECONDS = 20.0
"""How long one request waits for news."""
POLL_SECONDS = 1.0
"""While the server cannot be asked, those who wait look so often by themselves; and one that
answers at once is not asked more often.
"""


class Ear:
    """Keeps `signals` up to date for as long as somebody waits."""

    def __init__(self, exchange: Exchange, signals: Signals) -> None:
        self._exchange = exchange
        self._signals = signals
        self._transport = open_async(exchange.address, None)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def listen(self, queue: str) -> None:
        """Somebody waits on that queue now."""
        if queue not in self._tasks and not self._signals.closed:
            self._tasks[queue] = asyncio.get_running_loop().create_task(
                self._hear(queue), name=f"turnabout hears of {queue}"
            )

    async def close(self) -> None:
        """Cut what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.aclose()

    async def _hear(self, queue: str) -> None:
        try:
            # Nothing is awaited between the last look at who waits and the end.
            while self._signals.is_waited_for(queue):
                asked_at, before = time.monotonic(), self._signals.heard(queue)
                try:
                    heard = await self._ask(queue)
                except TurnaboutError:
                    await asyncio.sleep(POLL_SECONDS)
                    self._signals.wake(queue)
                    continue
                self._signals.hear(queue, heard)
                if heard == before and time.monotonic() - asked_at < POLL_SECONDS:
                    await asyncio.sleep(POLL_SECONDS)  # it is closing, and lets nobody wait
        finally:
            self._tasks.pop(queue, None)

    async def _ask(self, queue: str) -> Heard:
        talk = self._exchange.signal(queue, self._signals.heard(queue), HEAR_SECONDS)
        try:
            request = next(talk)
            while True:
                request = talk.send(await carry_async(self._transport, request))
        except StopIteration as end:
            return end.value
