"""Dramatiq on PostgreSQL, by the broker of dramatiq-postgres."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from benchmarks.on_postgres import PostgresBase
from benchmarks.peers.peer import PeerJob, PostgresPeer, Shape
from benchmarks.peers.threaded_worker import Handle, ThreadedClient

NAME = "bench"


def actor(broker: Any, handle: Handle) -> Any:
    """A task that does nothing."""
    import dramatiq

    @dramatiq.actor(broker=broker, actor_name=NAME, queue_name=NAME)
    def run(_: str) -> None:
        handle()

    return run


class Client(ThreadedClient):
    """What each process of its command runs: a worker with threads."""

    def start(self, job: PeerJob, handle: Handle) -> None:
        """Start its threads."""
        from dramatiq import Worker
        from dramatiq_postgres import PostgresBroker

        self._broker = PostgresBroker(url=job.url)
        actor(self._broker, handle)
        self._worker = Worker(self._broker, worker_threads=job.batch)
        self._worker.start()

    def close(self) -> None:
        """Stop them; what they fetched and did not do is queued again."""
        self._worker.stop()
        self._broker.close()


class Dramatiq(PostgresPeer):
    """Its schema as its broker applies it."""

    name = "dramatiq"
    about = (
        "A worker process of Dramatiq with the broker of dramatiq-postgres; concurrency is its"
        " threads. It fetches twice as many tasks as it has threads, and deletes each by itself."
    )
    skills = ("tasks",)
    backlog_max = 20_000
    slices = 3
    package, module = "dramatiq-postgres", "dramatiq_postgres"
    tables = ("dramatiq.queue",)
    waiting = "select count(*) from dramatiq.queue where state = 'queued'"
    insert = (
        "insert into dramatiq.queue (message_id, queue_name, state, message)"
        " select id, 'bench', 'queued', jsonb_set('{message}', '{{message_id}}', to_jsonb(id))"
        " from (select gen_random_uuid() as id from generate_series(1, {count})) as made"
    )

    def version(self) -> str:
        """Of both."""
        broker = super().version()
        return f"{importlib.metadata.version('dramatiq')} (dramatiq-postgres {broker})"

    def install(self, base: PostgresBase) -> None:
        """As its command does."""
        import dramatiq_postgres

        for statement in dramatiq_postgres.generate_init_sql().split(";"):
            if statement.strip():
                base.say(statement)

    def fill(self, base: PostgresBase, count: int, shape: Shape) -> None:
        """Insert what is missing, each as its actor would enqueue it."""
        from dramatiq.brokers.stub import StubBroker

        made = actor(StubBroker(), lambda: None).message(shape.payload.decode()).encode().decode()
        self.add(base, count, message=made)

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job)
