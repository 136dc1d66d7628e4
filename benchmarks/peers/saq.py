"""SAQ: tasks for asyncio in the manner of arq, on psycopg."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.asyncio_worker import AsyncClient, Handle
from benchmarks.peers.peer import PeerJob, PostgresPeer, Shape

NAME = "bench"
STOP_SECONDS = 3.0


def queue_at(url: str) -> Any:
    """Its queue, not connected yet."""
    from saq import Queue

    return Queue.from_url(url, name=NAME)


class Client(AsyncClient):
    """A queue with its pool of connections."""

    async def connect(self, job: PeerJob) -> None:
        """Open the pool."""
        self._queue = queue_at(job.url)
        await self._queue.connect()

    async def work(self, job: PeerJob, handle: Handle) -> None:
        """Its worker, which goes on until it is cancelled."""
        from saq import Worker

        async def run(_: Any, *, payload: str) -> None:
            handle(payload.encode())

        worker = Worker(self._queue, [(NAME, run)], concurrency=job.batch)
        working = asyncio.ensure_future(worker.start())
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            working.cancel()
            # Of many stops in the midst of work one never came back; by then all is counted.
            await asyncio.wait([working], timeout=STOP_SECONDS)

    async def disconnect(self) -> None:
        """Close the pool."""
        await self._queue.disconnect()


class Saq(PostgresPeer):
    """Its tables as it makes them."""

    name = "saq"
    about = (
        "Its worker on psycopg and uvloop, with its queue on PostgreSQL. It writes the row of a"
        " task when it is fetched, begun and done. What is done stays for ten minutes."
    )
    skills = ("tasks",)
    backlog_max = 5_000
    slices = 10
    package = module = "saq"
    tables = ("saq_jobs", "saq_stats")
    waiting = "select count(*) from saq_jobs where status = 'queued'"
    insert = (
        "insert into saq_jobs (key, job, queue, status) select id,"
        " convert_to(replace('{message}', '{key}', id), 'UTF8'), 'bench', 'queued'"
        " from (select gen_random_uuid()::text as id from generate_series(1, {count})) as made"
    )

    def install(self, base: PostgresBase) -> None:
        """As a worker does when it connects."""

        async def install() -> None:
            queue = queue_at(base.url)
            await queue.connect()
            await queue.disconnect()

        asyncio.run(install())

    def fill(self, base: PostgresBase, count: int, shape: Shape) -> None:
        """Insert what is missing, each as its queue would enqueue it."""
        from saq import Job, Status

        queue = queue_at(base.url)
        job = Job(NAME, {"payload": shape.payload.decode()}, queue=queue, status=Status.QUEUED)
        self.add(base, count, message=queue.serialize(job).decode(), key=job.key)

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job)
