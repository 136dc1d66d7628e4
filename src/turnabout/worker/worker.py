"""`Worker`: handlers for queues, and a loop that runs them until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from typing import Any, Literal, TypeVar, cast

from turnabout._async import AsyncTurnabout
from turnabout._connect import Tracing, connect_async
from turnabout.words import limits
from turnabout.words.entities import QueueStats
from turnabout.words.errors import UsageError
from turnabout.words.policy import QueueSettings
from turnabout.worker.job import AsyncHandler, Job, SyncHandler, WorkerStats
from turnabout.worker.loop import ConsumerOptions
from turnabout.worker.message import AsyncMessage, Message
from turnabout.worker.run import Run, signals_to

H = TypeVar(
    "H",
    bound=Callable[[Message], object]
    | Callable[[AsyncMessage], Awaitable[object]]
    | Callable[[Message, Any], object]
    | Callable[[AsyncMessage, Any], Awaitable[object]],
)


class Worker:
    """Runs handlers on the messages of one or more queues.

        worker = Worker("sqlite:///app.db")

        @worker.handler("emails", concurrency=10)
        def send_email(message): ...

        worker.run()

    If a handler returns, its message is acked, and the returned value (bytes, str or JSON) is the
    result for callers of `wait`; if it raises, the attempt fails, and its traceback is kept.
    `raise Defer(…)` brings it back later, uncharged; `raise GiveUp("why")` makes
    it dead at once. A handler may also settle its message. Ordinary functions run in
    threads, `async` ones on the loop.

    where:         a URL, or an open `turnabout.aio` connection (for `run_async` on its loop).
    grace_seconds: how long handlers may go on after a stop, before their messages are given back.
    shard:         (i, n): only the i-th of n parts of the channels; a handler may differ.
    poll_seconds:  the longest wait for a notification; without any, this is how often it looks.
    timeout_seconds: how long a handler may take, unless it has a limit of its own; None: for ever.
    slots:         messages held at once, over all queues; None: as their concurrency says.
    max_hung:      if so many handlers do not end though their time is up, the worker ends itself.
    tracing:       as in `connect`, for a worker that is given a URL.
    name:          shown beside its host and process wherever workers are listed.
    """

    def __init__(
        self,
        where: str | AsyncTurnabout,
        *,
        grace_seconds: float = 30.0,
        shard: tuple[int, int] | None = None,
        poll_seconds: float = 20.0,
        timeout_seconds: float | None = None,
        max_hung: int = 10,
        slots: int | None = None,
        tracing: Tracing = "off",
        name: str | None = None,
    ) -> None:
        _check_place(where)
        limits.milliseconds(grace_seconds, "grace_seconds", 86_400)
        limits.milliseconds(poll_seconds, "poll_seconds", limits.WAIT_SECONDS_MAX, least=0.001)
        ConsumerOptions(shard=shard, timeout_seconds=timeout_seconds)  # checks them
        self._where = where
        self._grace_seconds = grace_seconds
        self._poll_seconds = poll_seconds
        self._max_hung = limits.whole(max_hung, "max_hung", 1, limits.INTEGER_MAX)
        self.slots = limits.optional_whole(slots, "slots", 1, limits.INTEGER_MAX)
        self._tracing: Tracing = tracing
        if name is not None:
            limits.worker_text(name, "name", most=100)
        self._name = name
        self.shard = shard
        self.timeout_seconds = timeout_seconds
        self.is_used_up = False
        """The last run ended because of its `max_handled`."""
        self.left: tuple[QueueStats, ...] = ()
        """The queues in which the last run `until_empty` left messages behind."""
        self.stats = WorkerStats()
        self._jobs: dict[str, Job] = {}
        self._settings: dict[str, Mapping[str, Any]] = {}
        self._lock = threading.Lock()
        self._running: tuple[asyncio.AbstractEventLoop, Run] | None = None
        self._stopped = False

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that have a handler."""
        return tuple(self._jobs)

    def handler(
        self,
        queue: str,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        lease_seconds: float | None = None,
        heartbeat: bool = True,
        shard: tuple[int, int] | None = None,
        cancellable: bool = False,
        timeout_seconds: float | None = None,
        transaction: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> Callable[[H], H]:
        """Make a function the handler of a queue.

        concurrency:   handlers of this queue at once, in this process.
        prefetch:      messages leased ahead of that; only pays for handlers of a few milliseconds.
        lease_seconds: how long a message is held; default: the queue's setting.
        heartbeat:     extend leases while handlers run. Without it a handler that takes longer
                       than its lease loses the message.
        shard:         (i, n): only the i-th of n parts of the channels.
        cancellable:   an `async` handler is cancelled (`asyncio.CancelledError`) once heartbeats
                       tell that a cancel of its message is requested. Others look at
                       `message.cancel_requested`: the message is acked if they return all the same.
        timeout_seconds: how long it may take; then the attempt fails with a `TimeoutError`. An
                       `async` handler is cancelled. A thread cannot be stopped: it is told by
                       `message.lost` and `message.stop_event`, and another takes its place. None:
                       as the worker says; 0: for ever.
        transaction:   the handler is called with a message and a connection (psycopg's; on SQLite
                       a `sqlite3` one, for ordinary functions only). The worker commits what it
                       does there together with the end of its message.
        settings:      a missing queue is made with these (fields of `QueueSettings`).
        """
        limits.flag(transaction, "transaction")
        limits.queue_name(queue)
        if queue in self._jobs:
            raise UsageError(f"the queue {queue!r} already has a handler")
        options = ConsumerOptions(
            concurrency=concurrency,
            prefetch=prefetch,
            lease_seconds=lease_seconds,
            heartbeat=heartbeat,
            shard=self.shard if shard is None else shard,
            cancellable=cancellable,
            timeout_seconds=self.timeout_seconds if timeout_seconds is None else timeout_seconds,
        )
        QueueSettings().changed(settings or {})

        def register(function: H) -> H:
            if not callable(function):
                raise UsageError(f"a handler is a function, not {type(function).__name__}")
            if queue in self._jobs:
                raise UsageError(f"the queue {queue!r} already has a handler")
            self._jobs[queue] = _job(queue, options, function, transaction=transaction)
            self._settings[queue] = settings or {}
            return function

        return register

    def run(
        self, *, until_empty: bool = False, max_handled: int | None = None, url: str | None = None
    ) -> WorkerStats:
        """Work until stopped: by SIGTERM or SIGINT, by `stop()`, or when the queues are empty.

        The first signal: nothing more is taken, and handlers have `grace_seconds` to end; then
        their messages are given back, uncharged. The second signal gives them back at once.
        Signals are handled only in the main thread.

        until_empty: end when a `receive` of each queue has handed out nothing while this worker
                     held nothing. It doesn't wait for messages that are due later, held by other
                     workers, paused, or blocked by a `max_concurrency` that others use up: `left`
                     then counts them. It does wait for those that only a rate delays, and for
                     those that failed here and are retried within a minute.
        max_handled: end after about this many messages, as if it were stopped. A service manager
                     then starts it again, which frees memory that handlers leak.
        url:         work there, instead of where the worker was made for.
        Raises:      an error that a retry won't fix (Forbidden, WrongVersion, …); HandlersHung, if
                     `max_hung` handlers do not end. An outage of the database is waited out.
        """
        if url is not None:
            self._where = url
        if not isinstance(self._where, str):
            raise UsageError("an open connection belongs to a loop: use `await run_async()` there")
        is_main = threading.current_thread() is threading.main_thread()
        return asyncio.run(
            self.run_async(until_empty=until_empty, max_handled=max_handled, signals=is_main)
        )

    async def run_async(
        self,
        *,
        until_empty: bool | Literal["now"] = False,
        max_handled: int | None = None,
        signals: bool = False,
        where: AsyncTurnabout | None = None,
    ) -> WorkerStats:
        """`run` on the running loop; `signals` says whether SIGTERM and SIGINT stop it. `where`: an
        open connection to work on. `until_empty="now"` waits for no retry.
        """
        if where is not None:
            self._where = where
        if not self._jobs:
            raise UsageError("the worker has no handler: use `@worker.handler(queue)`")
        if self._running is not None:
            raise UsageError("the worker is already running")
        limits.optional_whole(max_handled, "max_handled", 1, limits.INTEGER_MAX)
        async with self._opened() as turnabout:
            run = Run(
                turnabout,
                tuple(self._jobs.values()),
                stats=self.stats,
                until_empty=until_empty,
                grace_seconds=self._grace_seconds,
                poll_seconds=self._poll_seconds,
                max_hung=self._max_hung,
                max_handled=max_handled,
                slots=self.slots,
                name=self._name,
            )
            with self._registered(run), signals_to(run) if signals else contextlib.nullcontext():
                await run.run(self._settings)
            self.is_used_up, self.left = run.is_used_up, tuple(run.left)
        return self.stats

    def stop(self) -> None:
        """Stop as the first signal does. From any thread; before `run`, it ends at once."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                loop, run = self._running
                loop.call_soon_threadsafe(run.stop, "stop()")

    @contextlib.contextmanager
    def _registered(self, run: Run) -> Generator[None, None, None]:
        with self._lock:
            self._running = (asyncio.get_running_loop(), run)
            if self._stopped:
                run.stop("stop()")
        try:
            yield
        finally:
            with self._lock:
                self._running = None
                self._stopped = False

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncGenerator[AsyncTurnabout, None]:
        if isinstance(self._where, str):
            async with connect_async(self._where, tracing=self._tracing) as turnabout:
                yield turnabout
        else:
            yield self._where


def _check_place(where: object) -> None:
    if not isinstance(where, (str, AsyncTurnabout)):
        raise UsageError(
            "a worker is given a URL, or an open connection of turnabout.aio.connect, "
            f"not {type(where).__name__}"
        )


def _job(
    queue: str, options: ConsumerOptions, function: Callable[..., object], *, transaction: bool
) -> Job:
    _check_parameters(function, 2 if transaction else 1)
    is_async = _is_async(function)
    if options.cancellable and not is_async:
        raise UsageError(
            "a thread cannot be cancelled: look at `message.cancel_requested` in the "
            "handler, or write it as `async def`"
        )
    return Job(
        queue,
        options,
        None if is_async else cast("SyncHandler", function),
        cast("AsyncHandler", function) if is_async else None,
        transaction,
    )


def _check_parameters(function: Callable[..., object], count: int) -> None:
    """Refuse a handler here that would fail for each message."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        arguments = "a message and a connection" if count == 2 else "a message and nothing else"
        name = getattr(function, "__qualname__", "it")
        raise UsageError(
            f"a handler is called with {arguments}, which does not fit {name}{signature}"
        ) from error


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with `async def __call__`
    )
