"""`AsyncTasks`: an application's tasks, and where they are sent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from turnabout._async import AsyncTurnabout
from turnabout.tasks._async.task import AsyncHandle, AsyncTask
from turnabout.tasks.definition import CallOptions, Definition, name_of
from turnabout.tasks.dispatch import Around, Dispatch
from turnabout.tasks.retry import RetryPolicy
from turnabout.tasks.worker import LifePlan, Lifespan, TaskWorker
from turnabout.words.entities import Receipt
from turnabout.words.errors import QueueNotFound, UsageError
from turnabout.worker.endings import GivenBack, Pause, Returned, ending_of, verb_of

P = ParamSpec("P")
R = TypeVar("R")
DRAINED_AT_ONCE = 10


class AsyncTasks:
    """The tasks of an application.

        tasks = AsyncTasks("env:TURNABOUT_URL")

        @tasks.task(queue="emails", channel=lambda to, customer: customer)
        async def send_email(to: str, customer: str) -> int: ...

        handle = await send_email.enqueue("ada@example.org", customer="acme")

    A call is a message whose payload is a JSON object of the arguments, with the header `task`: any
    client can send one. `turnabout worker app:tasks` calls them.
    """

    def __init__(self, where: str | AsyncTurnabout) -> None:
        """`where`: a URL, or `env:NAME` for one in the environment, or an open connection. Nothing
        is opened before it is needed.
        """
        self._where = where
        self._open: AsyncTurnabout | None = None if isinstance(where, str) else where
        self._plan = LifePlan()
        self._dispatch = Dispatch()
        self._eager = False

    # --- what there is ---------------------------------------------------------------------------

    def task(
        self,
        *,
        queue: str = "default",
        name: str | None = None,
        retry: RetryPolicy | None = None,
        timeout_seconds: float | None = None,
        **options: Any,
    ) -> Register:
        """Make a function a task.

        queue:   where its calls are sent; several tasks may share one.
        name:    in the header `task` of its messages; unless given, module and function.
        retry:   which exceptions are worth another attempt; unless given, all of them, as the
                 queue says.
        timeout_seconds: how long it may take. Ordinary functions of one queue share theirs.
        options: how it is sent, fields of `CallOptions`: channel, priority, unique, …
        """
        try:
            sent = CallOptions(**options)
        except TypeError as error:
            raise UsageError(f"options of a task: {error}") from error

        def register(function: Callable[..., Any]) -> AsyncTask[Any, Any]:
            if not callable(function):
                raise UsageError(f"a task is a function, not {type(function).__name__}")
            called = name or name_of(function)
            if called in self._dispatch.tasks:
                raise UsageError(f"there is a task {called} already")
            made = Definition(called, queue, function, retry or RetryPolicy(), timeout_seconds)
            self._dispatch.tasks[called] = (made, sent)
            return AsyncTask(self, made, sent)

        return register  # type: ignore[return-value]  # for the types of its overloads

    def every(self, when: str | float, *, zone: str = "UTC", **schedule: Any) -> Register:
        """Call a task again and again: by a cron expression, or every so many seconds. A worker
        that knows the task makes the schedule, of the task's name, when it starts.

        A plain function becomes a task with the usual options. `schedule`: more of what
        `Schedules.set` takes, such as `missed` and `overlap`.
        """
        timing = {"cron": when, "zone": zone} if isinstance(when, str) else {"every_seconds": when}

        def register(function: Any) -> AsyncTask[Any, Any]:
            task = cast(
                "AsyncTask[Any, Any]",
                function if isinstance(function, AsyncTask) else self.task()(function),
            )
            self._plan.schedules[task.name] = (
                task.definition.queue,
                task.message,
                {**timing, **schedule},
            )
            return task

        return register  # type: ignore[return-value]

    def around(self, block: Around) -> Around:
        """Have something around each run of a task: a function of the message that gives a context
        manager, as one of `contextlib.contextmanager` does. The first is the outermost.
        """
        self._dispatch.around.append(block)
        return block

    def lifespan(self, block: Lifespan) -> Lifespan:
        """Have something around the life of a worker, such as a pool of connections: a function
        without arguments that gives a context manager, of either colour.
        """
        self._plan.lifespans.append(block)
        return block

    # --- running ---------------------------------------------------------------------------------

    def worker(
        self, *, concurrency: int = 10, where: str | None = None, **options: Any
    ) -> TaskWorker:
        """A worker for all of these tasks: `turnabout worker app:tasks` runs it.

        concurrency: tasks at once of each queue. where: a URL, unless it is theirs.
        `options`: as of `Worker`.
        """
        there = where or (self._url if isinstance(self._where, str) else self._where)
        return TaskWorker(there, self._dispatch, self._plan, concurrency, **options)

    async def drain(self) -> int:
        """Call what is ready now, here, one after the other, until nothing is; how many that were.
        For tests and scripts.
        """
        count = 0
        while found := await self._drain_once():
            count += found
        return count

    async def _drain_once(self) -> int:
        count = 0
        for name in sorted({made.queue for made, _ in self._dispatch.tasks.values()}):
            queue = self.connection.queue(name)
            try:
                batch = await queue.receive(DRAINED_AT_ONCE)
            except QueueNotFound:
                continue
            for message in batch:
                count += 1
                await self._settle(name, message.receipt, message)
        return count

    async def _settle(self, queue: str, receipt: Receipt, message: Any) -> None:
        try:
            end: Any = Returned(await self._dispatch.handle_async(message))
        except Exception as error:  # noqa: BLE001 - any, as in a worker
            end = error
            if isinstance(error, Pause):
                channel = self.connection.queue(queue).channel(message.channel)
                await channel.pause(seconds=error.seconds, reason=error.reason)
        ending = ending_of(end)
        if not message.is_settled and not isinstance(ending, GivenBack):
            await self.connection.store.run(verb_of(queue, receipt, ending))

    @contextmanager
    def eager(self) -> Generator[None]:
        """A block in which `enqueue` also calls the task, by `drain`: for tests."""
        before, self._eager = self._eager, True
        try:
            yield
        finally:
            self._eager = before

    async def sent(self, handle: AsyncHandle[Any]) -> None:
        """A call was enqueued."""
        if self._eager:
            await self.drain()

    # --- where -----------------------------------------------------------------------------------

    @property
    def connection(self) -> AsyncTurnabout:
        """The connection that tasks are sent by; opened at the first use."""
        if self._open is None:
            from turnabout._connect import connect_async  # with its stores

            self._open = connect_async(self._url)
        return self._open

    def use(self, where: str | AsyncTurnabout) -> Self:
        """Send and work on another connection from now on: for tests."""
        self._where = where
        self._open = None if isinstance(where, str) else where
        return self

    @property
    def _url(self) -> str:
        assert isinstance(self._where, str)
        kind, _, variable = self._where.partition(":")
        if kind != "env":
            return self._where
        if not (url := os.environ.get(variable)):
            raise UsageError(f"the environment has no {variable}, which the tasks are sent by")
        return url

    async def close(self) -> None:
        """Free the connection."""
        opened, self._open = self._open, None
        if opened is not None:
            await opened.close()


class Register:
    """The types of `task(…)`: what a function becomes."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> AsyncTask[P, R]: ...
    def __call__(self, function: Any) -> Any:
        """Make it one."""
        raise NotImplementedError
