"""Threads for handlers that block: a bounded number, started when needed, daemons all.

Not `ThreadPoolExecutor`: Python waits for its threads when it exits, so a handler that hangs would
keep a stopped worker's process alive. Here a stopped worker's process ends; the message was given
back, and whatever the handler still does with its receipt is refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

from turnabout.worker.endings import Returned

End = BaseException | Returned
Call = Callable[[], End]
_Job = tuple[Call, asyncio.AbstractEventLoop, "asyncio.Future[End]"]


class Threads:
    """Runs calls for one event loop. A call hands back how it ended; it raises nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def start(self, call: Call) -> asyncio.Future[End]:
        """A future of how the call ended. Cancelling it does not stop the call.

        Raises: RuntimeError if the system allows no thread, and there is none that could take it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[End] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._idle > 0 or not self._one_more():
                self._idle -= 1  # below 0: it waits for the next free thread
        self._jobs.put((lambda: context.run(call), loop, future))
        return future

    def close(self) -> None:
        """Let threads that are idle, and those that become idle, end."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _one_more(self) -> bool:
        """Start a thread. False if there are as many as may be."""
        if self._threads == self._most:
            return False
        name = f"turnabout-handler-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:
            if not self._threads:
                raise
            return False
        self._threads += 1
        return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, loop, future = job
            end = call()
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_answer, future, end)
            except RuntimeError:
                return  # the loop is closed: the worker has gone without us
            del job, call, future, end


def _answer(future: asyncio.Future[End], end: End) -> None:
    if not future.done():
        future.set_result(end)
