"""PgQueuer: jobs for asyncio, on asyncpg."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.asyncio_worker import AsyncClient, Handle
from benchmarks.peers.peer import PeerJob, PostgresPeer

ENTRYPOINT = "bench"


class Client(AsyncClient):
    """One connection, as its documentation has it."""

    async def connect(self, job: PeerJob) -> None:
        """Open the connection."""
        self._connection, self._queries = await _connect(job.url)

    async def put(self, count: int) -> None:
        """Enqueue."""
        if count == 1:
            await self.tell(self.payload)
        else:
            payloads = [self.payload] * count
            await self._queries.enqueue([ENTRYPOINT] * count, payloads, [0] * count)

    async def tell(self, payload: bytes) -> None:
        """Enqueue this."""
        await self._queries.enqueue(ENTRYPOINT, payload, 0)

    async def work(self, job: PeerJob, handle: Handle) -> None:
        """Its manager."""
        from pgqueuer import PgQueuer as Worker
        from pgqueuer.types import QueueExecutionMode as Mode

        worker = Worker.from_asyncpg_connection(self._connection)

        @worker.entrypoint(ENTRYPOINT)
        async def run(message: Any) -> None:
            handle(message.payload)

        working = asyncio.ensure_future(
            worker.qm.run(
                batch_size=job.batch,
                dequeue_timeout=timedelta(seconds=1),
                mode=Mode.continuous if job.action == "listen" else Mode.drain,
            )
        )
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            worker.shutdown.set()
            await working

    async def disconnect(self) -> None:
        """Close the connection."""
        await self._connection.close()


async def _connect(url: str) -> tuple[Any, Any]:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    return connection, Queries(AsyncpgDriver(connection))


class PgQueuer(PostgresPeer):
    """Its tables as it installs them."""

    name = "pgqueuer"
    about = "Its worker on asyncpg and uvloop; a batch, and concurrency, is its `batch_size`."
    skills = ("send", "receive", "wait", "tasks")
    backlog_max = 20_000
    slices = 3
    package = module = "pgqueuer"
    tables = ("pgqueuer", "pgqueuer_log")
    waiting = "select count(*) from pgqueuer where status = 'queued'"
    insert = (
        "insert into pgqueuer (priority, status, entrypoint, payload)"
        " select 0, 'queued', 'bench', repeat('x', {size})::bytea from generate_series(1, {count})"
    )

    def install(self, base: PostgresBase) -> None:
        """As its command does."""

        async def install() -> None:
            connection, queries = await _connect(base.url)
            await queries.install()
            await connection.close()

        asyncio.run(install())

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job)
