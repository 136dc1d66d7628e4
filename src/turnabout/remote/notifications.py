"""Notifications from a server: for each queue with waiters one request, which the server answers on
a change. Thousands who wait on a queue cost one request.

A queue's version here changes with every version that the server tells. It may be an old one, from
the last time that somebody waited: then the server answers at once, and the waiters look once more
than needed. Nothing is slept over, and the server is asked for a version only once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from turnabout.notifier import Notifier
from turnabout.remote.exchange import Exchange, ServerVersion
from turnabout.remote.transport import carry_async, open_async
from turnabout.words.errors import TurnaboutError

ASK_SECONDS = 20.0
"""How long one request waits for a change."""
POLL_SECONDS = 1.0
"""While the server cannot be asked, waiters look for themselves this often; and a server that
answers at once is asked no more often.
"""


class RemoteNotifier(Notifier):
    """A notifier that knows which version the server named last. For any thread."""

    def __init__(self, begins: Callable[[str], object]) -> None:
        super().__init__(begins)
        self._last: dict[str, ServerVersion] = {}

    def last(self, queue: str) -> ServerVersion | None:
        """The server's last word."""
        return self._last.get(queue)

    def learn(self, queue: str, version: ServerVersion) -> None:
        """The server has said this. Waiters are notified if it is another version."""
        if self._last.get(queue) != version:
            self._last[queue] = version
            self.notify(queue)


class RemoteListener:
    """Keeps the notifier up to date for as long as somebody waits. On one event loop."""

    def __init__(self, exchange: Exchange, notifier: RemoteNotifier) -> None:
        self._exchange = exchange
        self._notifier = notifier
        self._transport = open_async(exchange.address, None)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def listen(self, queue: str) -> None:
        """Somebody waits on that queue now."""
        if queue not in self._tasks and not self._notifier.closed:
            self._tasks[queue] = asyncio.get_running_loop().create_task(
                self._keep_asking(queue), name=f"turnabout listens for {queue}"
            )

    async def close(self) -> None:
        """Cut what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.aclose()

    async def _keep_asking(self, queue: str) -> None:
        try:
            # Nothing is awaited between the last look at the waiters and the end.
            while self._notifier.is_waited_for(queue):
                asked_at, before = time.monotonic(), self._notifier.last(queue)
                try:
                    version = await self._ask(queue)
                except TurnaboutError:
                    await asyncio.sleep(POLL_SECONDS)
                    self._notifier.release(queue)
                    continue
                self._notifier.learn(queue, version)
                if version == before and time.monotonic() - asked_at < POLL_SECONDS:
                    await asyncio.sleep(POLL_SECONDS)  # it is closing, and lets nobody wait
        finally:
            self._tasks.pop(queue, None)

    async def _ask(self, queue: str) -> ServerVersion:
        talk = self._exchange.version(queue, self._notifier.last(queue), ASK_SECONDS)
        try:
            request = next(talk)
            while True:
                request = talk.send(await carry_async(self._transport, request))
        except StopIteration as end:
            return end.value
