"""huey on SQLite: its queue and its execution of tasks by our loop, and its own consumer."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from benchmarks.on_sqlite import SqliteBase
from benchmarks.peers.peer import PeerJob, Shape, SqlitePeer
from benchmarks.peers.threaded_worker import Handle, ThreadedClient

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Client:
    """Enqueue; dequeue, and execute a task that does nothing."""

    def __init__(self, url: str, size: int, handle: Handle = lambda: None) -> None:
        import huey

        path = SqlitePeer.path(url)
        durable = SqlitePeer.synchronous(url) == "full"
        self.huey: Any = huey.SqliteHuey(filename=path, fsync=durable or None, timeout=30)
        if not durable:
            self.huey.storage.conn.execute("pragma synchronous = normal")
        self.payload = "x" * size

        @self.huey.task()
        def bench(_: str) -> None:
            """Do nothing but tell."""
            handle()

        self.task: Any = bench

    def take(self, most: int) -> Sequence[Any]:
        """Take one; it is deleted."""
        found = self.huey.dequeue()
        return [] if found is None else [found]

    def done(self, receipts: Sequence[Any]) -> None:
        """Execute it."""
        self.huey.execute(receipts[0])

    def put(self, count: int) -> None:
        """Enqueue one."""
        self.task(self.payload)

    def close(self) -> None:
        """Close it."""
        self.huey.storage.close()


class Huey(SqlitePeer):
    """Its own storage."""

    name = "huey"
    about = "Deletes what it receives: one commit, at most once. One message a call."
    package = module = "huey"

    def fill(self, base: SqliteBase, count: int, shape: Shape) -> None:
        """Insert what its task would be enqueued as."""
        client = Client(base.url, shape.size)
        data = client.huey.serialize_task(client.task.s(client.payload))
        missing = count - client.huey.pending_count()
        rows = [(client.huey.storage.name, data)] * missing
        connection = client.huey.storage.conn
        connection.execute("begin exclusive")
        connection.executemany("insert into task (queue, data, priority) values (?, ?, 0)", rows)
        connection.execute("commit")
        client.close()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job.url, job.size)


class ConsumerClient(ThreadedClient):
    """What its command `huey_consumer` runs: a consumer with threads."""

    def start(self, job: PeerJob, handle: Handle) -> None:
        """Start its threads. It takes signals, which are given back: other peers follow."""
        self._client = Client(job.url, job.size, handle)
        self._handlers = {one: signal.getsignal(one) for one in SIGNALS}
        self._consumer = self._client.huey.create_consumer(workers=job.batch)
        self._consumer.start()

    def close(self) -> None:
        """Stop them."""
        self._consumer.stop(graceful=True)
        for one, handler in self._handlers.items():
            signal.signal(one, handler)
        self._client.close()


class HueyConsumer(Huey):
    """Its worker."""

    name = "huey-consumer"
    about = "Its consumer as it comes; concurrency is its threads. At most once."
    skills = ("tasks",)
    batches = (1, 10)
    backlog_max = 20_000
    slices = 3

    def open(self, job: PeerJob) -> ConsumerClient:
        """A process."""
        return ConsumerClient(job)
