"""Threads for handlers that block: a bounded number, started when needed, daemons all.

Not `ThreadPoolExecutor`: Python waits for its threads when it exits, so a handler that hangs would
keep a stopped worker's process alive. Here a stopped worker's process ends; the message was given
back, and whatever the handler still does with its receipt is refused. A thread that hangs may be
left behind: another takes its place.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from turnabout.worker.endings import Returned, stack_of

End = BaseException | Returned
Call = Callable[[], End]


class ThreadCall:
    """A call in a thread, from its start to its end."""

    def __init__(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self.loop = loop
        self.future: asyncio.Future[End] = loop.create_future()
        """Wait for the call's result. Cancelling the wait does not stop the call."""
        self.is_over = False
        self.left: Callable[[], object] | None = None
        """Nobody waits for it any more; to be called on the loop once it ends all the same."""
        self._thread: int | None = None

    def run(self) -> End:
        """Run the call in the thread, which outlives any exception."""
        self._thread = threading.get_ident()
        try:
            return self._call()
        except BaseException as error:  # noqa: BLE001 - even SystemExit must fail the message
            return error

    def where(self) -> str:
        """The stack of its thread, as a traceback shows one; empty if it has none yet."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread)
        return "" if frame is None else stack_of(frame)


class Threads:
    """Runs calls for one event loop. A call hands back how it ended."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def start(self, call: Call) -> ThreadCall:
        """Have a thread make the call.

        Raises: RuntimeError if the system allows no thread, and there is none that could take it.
        """
        context = contextvars.copy_context()
        job = ThreadCall(lambda: context.run(call), asyncio.get_running_loop())
        with self._lock:
            if self._idle > 0 or not self._one_more():
                self._idle -= 1  # below 0: it waits for the next free thread
        self._jobs.put(job)
        return job

    def leave(self, job: ThreadCall, ended: Callable[[], object]) -> None:
        """Give the place of a call that hangs to another; `ended` if it ends all the same."""
        with self._lock:
            if job.is_over:
                ended()
                return
            job.left = ended
            self._most += 1
            if self._idle < 0 and self._one_more():
                self._idle += 1

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
            end = job.run() if job.left is None else Returned()
            with self._lock:
                job.is_over = True
                left = job.left
                if left is None:
                    self._idle += 1
                else:
                    self._most -= 1
                    self._threads -= 1
            try:
                if left is None:
                    job.loop.call_soon_threadsafe(_answer, job.future, end)
                else:
                    job.loop.call_soon_threadsafe(left)
            except RuntimeError:
                return  # the loop is closed: the worker has gone without us
            if left is not None:
                return
            del job, end, left


def _answer(future: asyncio.Future[End], end: End) -> None:
    if not future.done():
        future.set_result(end)
