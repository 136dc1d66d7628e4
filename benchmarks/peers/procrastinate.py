"""Procrastinate: tasks for asyncio, on psycopg."""

from __future__ import annotations

from typing import Any

from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.asyncio_worker import AsyncClient, Handle
from benchmarks.peers.peer import PeerJob, PostgresPeer

NAME = "bench"


class Client(AsyncClient):
    """An app with its pool of connections."""

    async def connect(self, job: PeerJob) -> None:
        """Open the app."""
        import procrastinate

        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=job.url))
        self._handle: Handle = lambda _: None

        @self._app.task(name=NAME, queue=NAME)
        async def run(payload: str) -> None:
            self._handle(payload.encode())

        self._task = run
        await self._app.open_async()

    async def put(self, count: int) -> None:
        """Defer."""
        if count == 1:
            await self.tell(self.payload)
        else:
            await self._task.batch_defer_async(*[{"payload": self.payload.decode()}] * count)

    async def tell(self, payload: bytes) -> None:
        """Defer this."""
        await self._task.defer_async(payload=payload.decode())

    async def work(self, job: PeerJob, handle: Handle) -> None:
        """Its worker, which deletes what is done."""
        self._handle = handle
        listening: dict[str, Any] = {"wait": True, "listen_notify": True}
        draining: dict[str, Any] = {"wait": False, "listen_notify": False}
        await self._app.run_worker_async(
            queues=[NAME],
            concurrency=job.batch,
            delete_jobs="always",
            install_signal_handlers=False,
            **(listening if job.action == "listen" else draining),
        )

    async def disconnect(self) -> None:
        """Close the app."""
        await self._app.close_async()


class Procrastinate(PostgresPeer):
    """Its schema as it applies it."""

    name = "procrastinate"
    about = (
        "Its worker on psycopg and uvloop, `delete_jobs=always`. It fetches one job at a time; a"
        " batch is its `concurrency`."
    )
    skills = ("send", "receive", "wait", "tasks")
    backlog_max = 5_000
    slices = 3
    package = module = "procrastinate"
    tables = ("procrastinate_jobs", "procrastinate_events")
    waiting = "select count(*) from procrastinate_jobs where status = 'todo'"
    insert = (
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        " select 'bench', 'bench', jsonb_build_object('payload', repeat('x', {size}))"
        " from generate_series(1, {count})"
    )

    def install(self, base: PostgresBase) -> None:
        """As its command does."""
        import procrastinate

        connector = procrastinate.SyncPsycopgConnector(conninfo=base.url)
        with procrastinate.App(connector=connector).open() as app:
            app.schema_manager.apply_schema()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job)
