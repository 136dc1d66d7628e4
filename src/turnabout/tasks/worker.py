"""A worker whose handlers are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from turnabout.tasks.definition import Definition
from turnabout.tasks.dispatch import Dispatch, entered
from turnabout.words.entities import Outgoing
from turnabout.words.errors import UsageError
from turnabout.words.policy import QueueSettings
from turnabout.worker import Worker, WorkerStats

Lifespan = Callable[[], Any]
"""Gives a context manager around the life of a worker."""


class LifePlan:
    """A worker's life: schedules to make, and start and stop hooks."""

    def __init__(self) -> None:
        self.schedules: dict[str, tuple[str, Callable[[], Outgoing], dict[str, Any]]] = {}
        """Schedules by the task's name: its queue, its message, and when."""
        self.lifespans: list[Lifespan] = []


class TaskWorker(Worker):
    """A `Worker` with one handler for each queue that has tasks."""

    def __init__(
        self,
        where: Any,
        dispatch: Dispatch,
        plan: LifePlan,
        concurrency: int,
        **options: Any,
    ) -> None:
        super().__init__(where, **options)
        self._dispatch = dispatch
        self._plan = plan
        if not dispatch.tasks:
            raise UsageError("there are no tasks yet: use `@tasks.task(…)`")
        by_queue: dict[str, list[Definition]] = {}
        for definition, _ in dispatch.tasks.values():
            by_queue.setdefault(definition.queue, []).append(definition)
        for queue, some in by_queue.items():
            is_async = all(one.is_async for one in some)
            self.handler(
                queue,
                concurrency=concurrency,
                cancellable=is_async,
                timeout_seconds=None if is_async else _limit(queue, some),
                settings=_settings(some),
            )(dispatch.handle_async if is_async else dispatch.handle)

    async def run_async(self, **options: Any) -> WorkerStats:
        """Like `Worker.run_async`, between the start and stop hooks."""
        self._dispatch.loop = asyncio.get_running_loop()
        try:
            async with self._life():
                return await super().run_async(**options)
        finally:
            self._dispatch.loop = None

    @asynccontextmanager
    async def _life(self) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for made in self._plan.lifespans:
                await entered(stack, made())
            if self._plan.schedules:
                async with self._opened() as turnabout:
                    for name, (queue, message, when) in self._plan.schedules.items():
                        await turnabout.schedules.set(_plain(name), queue, message(), **when)
            yield


def _plain(name: str) -> str:
    """Make a schedule's name, which may have fewer characters."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in name)
    return kept.lstrip("_.-")[-64:].lstrip("_.-")


def _limit(queue: str, some: list[Definition]) -> float | None:
    """The time limit of a queue whose tasks run in threads."""
    limits = {one.timeout_seconds for one in some}
    if len(limits) > 1:
        raise UsageError(
            f"tasks of the queue {queue!r} run in threads, where they share one timeout_seconds: "
            "give them the same, or queues of their own"
        )
    return limits.pop()


def _settings(some: list[Definition]) -> dict[str, Any]:
    """Settings of a missing queue: it allows the attempts that its tasks ask for."""
    usual = QueueSettings().max_attempts or 0
    attempts = max((one.retry.attempts or 0 for one in some), default=0)
    return {"max_attempts": attempts} if attempts > usual else {}
