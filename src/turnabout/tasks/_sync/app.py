"""For blocking callers. Generated from `_async/app.py` by `tools/unasync.py`: do not edit."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from turnabout._sync import Turnabout
from turnabout.tasks._sync.task import Handle, Task
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


class Tasks:
    """The tasks of an application.

        tasks = Tasks("env:TURNABOUT_URL")

        @tasks.task(queue="emails", channel=lambda to, customer: customer)
        def send_email(to: str, customer: str) -> int: ...

        handle = send_email.enqueue("ada@example.org", customer="acme")

    A call is a message whose payload is a JSON object of the arguments, with the header `task`: any
    client can send one. `turnabout worker app:tasks` calls them.
    """

    def __init__(self, where: str | Turnabout) -> None:
        """`where`: a URL, or `env:NAME` for one in the environment, or an open connection. Nothing
        is opened before it is needed.
        """
        self._where = where
        self._open: Turnabout | None = None if isinstance(where, str) else where
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

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            if not callable(function):
                raise UsageError(f"a task is a function, not {type(function).__name__}")
            called = name or name_of(function)
            if called in self._dispatch.tasks:
                raise UsageError(f"there is a task {called} already")
            made = Definition(called, queue, function, retry or RetryPolicy(), timeout_seconds)
            self._dispatch.tasks[called] = (made, sent)
            return Task(self, made, sent)

        return register  # type: ignore[return-value]  # for the types of its overloads

    def every(self, when: str | float, *, zone: str = "UTC", **schedule: Any) -> Register:
        """Call a task again and again: by a cron expression, or every so many seconds. A worker
        that knows the task makes the schedule, of the task's name, when it starts.

        A plain function becomes a task with the usual options. `schedule`: more of what
        `Schedules.set` takes, such as `missed` and `overlap`.
        """
        timing = {"cron": when, "zone": zone} if isinstance(when, str) else {"every_seconds": when}

        def register(function: Any) -> Task[Any, Any]:
            task = cast(
                "Task[Any, Any]",
                function if isinstance(function, Task) else self.task()(function),
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

    def drain(self) -> int:
        """Call what is ready now, here, one after the other, until nothing is; how many that were.
        For tests and scripts.
        """
        count = 0
        while found := self._drain_once():
            count += found
        return count

    def _drain_once(self) -> int:
        count = 0
        for name in sorted({made.queue for made, _ in self._dispatch.tasks.values()}):
            queue = self.connection.queue(name)
            try:
                batch = queue.receive(DRAINED_AT_ONCE)
            except QueueNotFound:
                continue
            for message in batch:
                count += 1
                self._settle(name, message.receipt, message)
        return count

    def _settle(self, queue: str, receipt: Receipt, message: Any) -> None:
        try:
            end: Any = Returned(self._dispatch.handle(message))
        except Exception as error:  # noqa: BLE001 - any, as in a worker
            end = error
            if isinstance(error, Pause):
                channel = self.connection.queue(queue).channel(message.channel)
                channel.pause(seconds=error.seconds, reason=error.reason)
        ending = ending_of(end)
        if not message.is_settled and not isinstance(ending, GivenBack):
            self.connection.store.run(verb_of(queue, receipt, ending))

    @contextmanager
    def eager(self) -> Generator[None]:
        """A block in which `enqueue` also calls the task, by `drain`: for tests."""
        before, self._eager = self._eager, True
        try:
            yield
        finally:
            self._eager = before

    def sent(self, handle: Handle[Any]) -> None:
        """A call was enqueued."""
        if self._eager:
            self.drain()

    # --- where -----------------------------------------------------------------------------------

    @property
    def connection(self) -> Turnabout:
        """The connection that tasks are sent by; opened at the first use."""
        if self._open is None:
            from turnabout._connect import connect  # with its stores

            self._open = connect(self._url)
        return self._open

    def use(self, where: str | Turnabout) -> Self:
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

    def close(self) -> None:
        """Free the connection."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()


class Register:
    """The types of `task(…)`: what a function becomes."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Any) -> Any:
        """Make it one."""
        raise NotImplementedError
