"""For the worker's tests: a store that can be watched and disturbed, and a clock to be set."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pytest

from tests.support.doors import Clock
from tests.support.loops import inside
from turnabout import aio
from turnabout.store import AsyncForwardingStore, AsyncStore
from turnabout.words.verbs import Receive, Verb
from turnabout.worker import AsyncMessage, Message, Worker, WorkerStats
from turnabout.worker.consumer import Consumer
from turnabout.worker.loop import Lease

A = TypeVar("A")
V = TypeVar("V")

SECONDS = 20.0
"""Longer than anything here takes; only a test that fails waits so long."""


class Watched(AsyncForwardingStore):
    """A store that keeps the verbs it has run, and fails as a test tells it to."""

    def __init__(self, store: AsyncStore) -> None:
        super().__init__(store)
        self.store = store
        self.verbs: list[Verb[Any]] = []
        self.before: Callable[[Verb[Any]], None] = lambda _: None
        self.after: Callable[[Verb[Any]], None] = lambda _: None
        self._ran = asyncio.Event()

    async def run(self, verb: Verb[A]) -> A:
        self.before(verb)
        answer = await self.store.run(verb)
        self.verbs.append(verb)
        self._ran.set()
        self.after(verb)
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        answers = await self.store.run_transaction(verbs, all_or_none=all_or_none)
        self.verbs += verbs
        return answers

    def of(self, kind: type[V]) -> list[V]:
        """The verbs of one kind, in order; also what a receive has acked."""
        parts = [
            one
            for verb in self.verbs
            for one in (verb.apart() if isinstance(verb, Receive) and verb.acks else (verb,))
        ]
        return [verb for verb in parts if isinstance(verb, kind)]

    async def until(self, kind: type[Verb[Any]], count: int = 1) -> None:
        """Wait until so many verbs of that kind have been run."""
        async with asyncio.timeout(SECONDS):
            while len(self.of(kind)) < count:
                self._ran.clear()
                await self._ran.wait()


class Place:
    """A database in memory with a worker's view of it."""

    def __init__(self, turnabout: aio.Turnabout, watched: Watched, clock: Clock) -> None:
        self.turnabout = turnabout
        """The test's own way in, not watched."""
        self.store = watched
        self.clock = clock
        self.queue = turnabout.queue("work")

    def worker(self, **options: Any) -> Worker:
        return Worker(aio.Turnabout(self.store), **options)

    async def send(self, *payloads: Any, queue: str = "work", channel: str = "") -> None:
        for payload in payloads:
            await self.turnabout.queue(queue).send(payload, channel=channel)

    async def worked_off(self, worker: Worker, *payloads: Any, queue: str = "work") -> WorkerStats:
        """What is counted when the worker has done them, and all that was there."""
        await self.send(*payloads, queue=queue)
        return await worker.run_async(until_empty=True)

    @contextlib.asynccontextmanager
    async def begun(
        self, worker: Worker, begun: asyncio.Event, *payloads: Any
    ) -> AsyncIterator[asyncio.Task[Any]]:
        """The worker at work, and its handler has begun with them."""
        await self.send(*payloads)
        async with running(worker) as task:
            await begun.wait()
            yield task


@contextlib.asynccontextmanager
async def place() -> AsyncIterator[Place]:
    clock = Clock()
    async with aio.connect("sqlite://", clock=clock) as turnabout:
        yield Place(turnabout, Watched(turnabout.store), clock)


alive = inside(place)
"""Run an async test in a place of its own."""


class Timers:
    """Time limits of handlers, which pass when a test says so."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._calls = dict[int, Callable[[], object]]()
        patch.setattr(Consumer, "_after", self._after)

    def _after(
        self, _seconds: float, call: Callable[[Lease], None], lease: Lease, _task: object
    ) -> None:
        loop = asyncio.get_running_loop()
        self._calls[lease.receipt.id] = partial(loop.call_soon_threadsafe, call, lease)

    def pass_by(self, message: Message | AsyncMessage) -> None:
        """That of this message's handler."""
        self._calls[message.id]()


@contextlib.asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[Any]]:
    """The worker at work; stopped and waited for at the end."""
    task = asyncio.create_task(worker.run_async())
    try:
        yield task
    finally:
        worker.stop()
        async with asyncio.timeout(SECONDS):
            await task


def waiting(
    begun: asyncio.Event, go: asyncio.Event | None = None
) -> Callable[[AsyncMessage], Awaitable[None]]:
    """A handler that says that it has begun, and waits: for ever, if for nothing."""

    async def handle(_message: AsyncMessage) -> None:
        begun.set()
        await (go or asyncio.Event()).wait()

    return handle
