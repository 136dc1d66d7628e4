"""litequeue: a table of messages with their states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.on_sqlite import SqliteBase
from benchmarks.peers.peer import PeerJob, Shape, SqlitePeer


class Client:
    """Put, pop, done."""

    def __init__(self, url: str, size: int) -> None:
        import litequeue

        self.queue: Any = litequeue.LiteQueue(SqlitePeer.path(url), timeout=30)
        self.queue.conn.execute(f"pragma synchronous = {SqlitePeer.synchronous(url)}")
        self.payload = "x" * size

    def take(self, most: int) -> Sequence[Any]:
        """Pop one."""
        found = self.queue.pop()
        return [] if found is None else [found]

    def done(self, receipts: Sequence[Any]) -> None:
        """End it."""
        self.queue.done(receipts[0].message_id)

    def put(self, count: int) -> None:
        """Put one."""
        self.queue.put(self.payload)

    def close(self) -> None:
        """Close it."""
        self.queue.close()


class Litequeue(SqlitePeer):
    """Its own file."""

    name = package = module = "litequeue"
    about = (
        "One message a call; what was popped and not ended stays so until somebody retries it."
        " A pop sorts the whole backlog, so it has 2,000 waiting at most."
    )
    backlog_max = 2_000

    def fill(self, base: SqliteBase, count: int, shape: Shape) -> None:
        """Put them, in one transaction."""
        client = Client(base.url, shape.size)
        missing = count - client.queue.qsize()
        with client.queue.transaction(mode="IMMEDIATE"):
            for _ in range(missing):
                client.put(1)
        client.close()

    def open(self, job: PeerJob) -> Client:
        """A process."""
        return Client(job.url, job.size)
