"""persist-queue: its queue with acks on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.on_sqlite import SqliteBase
from benchmarks.peers.peer import PeerJob, Shape, SqlitePeer


class Client:
    """Put, get, ack."""

    def __init__(self, url: str, size: int) -> None:
        import persistqueue

        folder = SqlitePeer.path(url)
        Path(folder).mkdir(exist_ok=True)
        self.queue: Any = persistqueue.SQLiteAckQueue(folder, auto_commit=True, multithreading=True)
        self._nothing = persistqueue.Empty
        self.payload = "x" * size

    def take(self, most: int) -> Sequence[Any]:
        """Get one."""
        try:
            return [self.queue.get(block=False)]
        except self._nothing:
            return []

    def done(self, receipts: Sequence[Any]) -> None:
        """Ack it."""
        self.queue.ack(receipts[0])

    def put(self, count: int) -> None:
        """Put one."""
        self.queue.put(self.payload)

    def close(self) -> None:
        """Close it."""
        self.queue.close()


class PersistQueue(SqlitePeer):
    """`SQLiteAckQueue`, committing each time."""

    name = package = "persist-queue"
    module = "persistqueue"
    about = (
        "`SQLiteAckQueue`, which syncs the disk at each commit. One message a call; not made for"
        " several processes."
    )
    processes_max = 1
    backlog_max = 2_000

    def fill(self, base: SqliteBase, count: int, shape: Shape) -> None:
        """Put what is missing: as a backlog, but slowly."""
        client = Client(base.url, shape.size)
        for _ in range(count - client.queue.qsize()):
            client.put(1)
        client.close()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job.url, job.size)
