"""Notifications from a server: for each queue with waiters one request, which the server answers on
a change. Thousands who wait on a queue for the same kind of change cost one request.

A queue's version here changes with every version that the server tells. It may be an old one, from
the last time that somebody waited: then the server answers at once, and the waiters look once more
than needed. Nothing is slept over, and the server is asked for a version only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

from turnabout.remote.exchange import Exchange, ServerVersion
from turnabout.remote.transport import SingleConnections, carry_async
from turnabout.waiting.notifier import Notifier
from turnabout.words.errors import TurnaboutError
from turnabout.words.verb import Change

ASK_SECONDS = 20.0
"""Seconds that one request waits for a change."""
POLL_SECONDS = 1.0
"""Time between two looks of waiters while the server cannot be asked, and the minimum between two
requests to a server that answers at once.
"""


Place = tuple[str, Change]


class RemoteNotifier(Notifier):
    """A notifier that knows which version the server named last. For any thread."""

    def __init__(self, begins: Callable[[str, Change], object]) -> None:
        super().__init__(begins)
        self._last: dict[Place, ServerVersion] = {}

    def last(self, queue: str, change: Change) -> ServerVersion | None:
        """The server's last word."""
        return self._last.get((queue, change))

    def learn(self, queue: str, change: Change, version: ServerVersion) -> None:
        """The server has said this. Waiters are notified if it is another version."""
        if self._last.get((queue, change)) != version:
            self._last[queue, change] = version
            self.notify(queue, change=change)


class RemoteListener:
    """Keeps the notifier up to date for as long as somebody waits. On one event loop."""

    def __init__(self, exchange: Exchange, notifier: RemoteNotifier) -> None:
        self._exchange = exchange
        self._notifier = notifier
        self._connections = SingleConnections(exchange.address)
        self._tasks: dict[Place, asyncio.Task[None]] = {}

    def listen(self, queue: str, change: Change) -> None:
        """Ask the server for changes there, as a caller waits now."""
        place = queue, change
        if place not in self._tasks and not self._notifier.closed:
            self._tasks[place] = asyncio.get_running_loop().create_task(
                self._keep_asking(*place), name=f"turnabout listens for {queue}"
            )

    async def close(self) -> None:
        """Cut what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connections.close()

    async def _keep_asking(self, queue: str, change: Change) -> None:
        try:
            # Nothing is awaited between the last look at the waiters and the end.
            while self._notifier.is_waited_for(queue, change):
                asked_at, before = time.monotonic(), self._notifier.last(queue, change)
                try:
                    version = await self._ask(queue, change)
                except TurnaboutError:
                    await asyncio.sleep(POLL_SECONDS)
                    self._notifier.release(queue, change)
                    continue
                self._notifier.learn(queue, change, version)
                if version == before and time.monotonic() - asked_at < POLL_SECONDS:
                    await asyncio.sleep(POLL_SECONDS)  # it is closing, and lets nobody wait
        finally:
            self._tasks.pop((queue, change), None)

    async def _ask(self, queue: str, change: Change) -> ServerVersion:
        seen = self._notifier.last(queue, change)
        steps = self._exchange.version(queue, change, seen, ASK_SECONDS)
        connection = await self._connections.take()
        try:
            request = next(steps)
            while True:
                request = steps.send(await carry_async(connection, request))
        except StopIteration as end:
            return end.value
        finally:
            self._connections.put(connection)


class ListenerThread:
    """The listener of a blocking store, on an event loop in a thread of its own."""

    def __init__(self, exchange: Exchange, notifier: RemoteNotifier) -> None:
        self._listener = RemoteListener(exchange, notifier)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="turnabout-listen", daemon=True)
        self._thread.start()

    def listen(self, queue: str, change: Change) -> None:
        """Ask the server for changes there, as a caller waits now."""
        with contextlib.suppress(RuntimeError):  # closed meanwhile: nobody waits any more
            self._loop.call_soon_threadsafe(self._listener.listen, queue, change)

    def close(self) -> None:
        """Cut what is under way; the thread ends."""
        asyncio.run_coroutine_threadsafe(self._listener.close(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
