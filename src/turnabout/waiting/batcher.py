"""Many callers, one call, on an event loop: what is asked for during a call goes into the next one.

So a lone item leaves at once, and under load a call carries as many as came together during the
last. Used where items are added and answered elsewhere: the worker's settler, a server's batches.
Where the callers have no loop in common one of them leads, and there is no task: see `line`, and
SQLite's writer (its leader stays in its thread, as a hop would cost more than the verb).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """Items that can go together, in the order in which they were added; one call at a time."""

    __slots__ = ("_call", "_give_up", "_start", "pending", "task")

    def __init__(
        self,
        call: Callable[[deque[T]], Awaitable[None]],
        give_up: Callable[[deque[T], BaseException | None], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]] = asyncio.ensure_future,
    ) -> None:
        """`call` takes some items out of those that are pending and deals with them, errors
        included. `give_up` is called at the end, however it came; what is still pending then was
        cut off by a cancellation or by an error that `call` let through.
        """
        self.pending: deque[T] = deque()
        self.task: asyncio.Task[None] | None = None
        self._call = call
        self._give_up = give_up
        self._start = start

    def add(self, item: T) -> None:
        """Returns at once. The task begins in the loop's next round, so items of the same moment go
        together.
        """
        self.pending.append(item)
        if self.task is None or self.task.done():
            self.task = self._start(self._run())

    async def finish(self, seconds: float) -> None:
        """Wait until nothing is pending; after `seconds` cut it off."""
        if self.task is not None:
            task = self.task
            await asyncio.wait({task}, timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._give_up(self.pending, None)  # of a task that was cancelled before it began

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            while self.pending:
                await self._call(self.pending)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.task = None
            self._give_up(self.pending, error)
