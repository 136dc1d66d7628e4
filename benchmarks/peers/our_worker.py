"""Turnabout's own worker, with a bare handler and with a task: beside other frameworks' workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import turnabout
import turnabout.aio
from benchmarks.library import QUEUE
from benchmarks.peers.asyncio_worker import AsyncClient, Handle
from benchmarks.peers.ours import Turnabout
from benchmarks.peers.peer import PeerJob, Shape
from turnabout.tasks import AsyncTasks
from turnabout.worker import AsyncMessage, Worker

TASK = "bench"


class WorkerClient(AsyncClient):
    """A handler of bytes."""

    async def connect(self, job: PeerJob) -> None:
        """Open the connection."""
        self._mq = await turnabout.aio.connect(job.url).__aenter__()

    async def put(self, count: int) -> None:
        """Send."""
        await self._mq.queue(QUEUE).send_many([turnabout.message(self.payload)] * count)

    async def tell(self, payload: bytes) -> None:
        """Send this."""
        await self._mq.queue(QUEUE).send(payload)

    def worker(self, job: PeerJob, handle: Handle) -> Worker:
        """With its handler."""
        worker = Worker(self._mq)

        @worker.handler(QUEUE, concurrency=job.batch)
        async def run(message: AsyncMessage) -> None:
            handle(message.payload)

        return worker

    async def work(self, job: PeerJob, handle: Handle) -> None:
        """Run it."""
        await self.worker(job, handle).run_async(until_empty=job.action != "listen")

    async def disconnect(self) -> None:
        """Close the connection."""
        await self._mq.close()


class TasksClient(WorkerClient):
    """A task with one argument, a text."""

    async def connect(self, job: PeerJob) -> None:
        """Open the connection."""
        await super().connect(job)
        self._handle: Handle = lambda _: None
        self._tasks = AsyncTasks(self._mq)

        @self._tasks.task(queue=QUEUE, name=TASK)
        async def run(payload: str) -> None:
            self._handle(payload.encode())

        self._task = run

    async def put(self, count: int) -> None:
        """Enqueue."""
        text = self.payload.decode()
        if count == 1:
            await self._task.enqueue(text)
        else:
            messages = [self._task.message(text) for _ in range(count)]
            await self._mq.queue(QUEUE).send_many(messages)

    async def tell(self, payload: bytes) -> None:
        """Enqueue this."""
        await self._task.enqueue(payload.decode())

    def worker(self, job: PeerJob, handle: Handle) -> Worker:
        """That of the tasks."""
        self._handle = handle
        return self._tasks.worker(concurrency=job.batch)


class TurnaboutWorker(Turnabout):
    """Its worker, with an `async` handler."""

    name = "turnabout-worker"
    about = "Its worker, as it comes out of the box; a batch is the handler's `concurrency`."
    skills = ("send", "receive", "wait")
    backlog_max = 20_000
    slices = 3

    def open(self, job: PeerJob) -> Any:
        """A process."""
        return WorkerClient(job)


class TurnaboutTasks(TurnaboutWorker):
    """The same by `turnabout.tasks`."""

    name = "turnabout-tasks"
    about = "A task of `turnabout.tasks` with one argument, which is checked by its type."
    skills = ("send", "receive", "wait", "tasks")

    def fill(self, base: Any, count: int, shape: Shape) -> None:
        """Enqueue them."""
        payload = {"payload": shape.payload.decode()}
        made = [turnabout.message(payload, headers={"task": TASK})]
        missing = count - base.ready()
        with turnabout.connect(base.url) as connection:
            for first in range(0, missing, 5_000):
                some: Sequence[Any] = made * min(5_000, missing - first)
                connection.queue(QUEUE).send_many(some)
        base.tidy()

    def open(self, job: PeerJob) -> Any:
        """A process."""
        return TasksClient(job)


class TurnaboutTasksOnSqlite(TurnaboutTasks):
    """The same on a file."""

    name = "turnabout-sqlite-tasks"
    store = "SQLite"
    skills = ("tasks",)
