"""`AsyncTurnabout`: a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from turnabout._async.batch import AsyncBatchBlock
from turnabout._async.queue import AsyncQueue
from turnabout._async.redrives import run_to_end
from turnabout._async.schedules import AsyncSchedules
from turnabout._async.shared import Shared
from turnabout.colours import ended_async
from turnabout.store import AsyncStore
from turnabout.words import limits
from turnabout.words.entities import QueueEntry, QueueStats
from turnabout.words.records import Redrive
from turnabout.words.verbs import QueueList, RedriveCancel, RedriveList, RedriveStep, Stats


class AsyncTurnabout:
    """A connection to a store; made by `connect`, closed by `close` or a `with` block."""

    def __init__(
        self, store: AsyncStore, *, max_payload_bytes: int = limits.PAYLOAD_BYTES_MAX
    ) -> None:
        self._store = store
        self._shared = Shared(store, max_payload_bytes)

    @property
    def store(self) -> AsyncStore:
        """The store under this face, for APIs and tools that speak in verbs."""
        return self._store

    @property
    def max_payload_bytes(self) -> int:
        """The longest payload that this connection sends."""
        return self._shared.max_payload_bytes

    def queue(self, name: str) -> AsyncQueue:
        """A handle to a queue. Touches nothing: the queue need not exist yet."""
        return AsyncQueue(self._shared, limits.queue_name(name))

    def batch(self) -> AsyncBatchBlock:
        """A `with` block that collects sends and policies, and runs them together at its end.

        `batch.queue("emails").send(...)` gives an object whose `outcome` is set afterwards.
        """
        return AsyncBatchBlock(self._shared)

    @property
    def schedules(self) -> AsyncSchedules:
        """The schedules: messages to be sent at given times."""
        return AsyncSchedules(self._shared)

    async def queues(self) -> tuple[QueueEntry, ...]:
        """Iterate over all queues with their settings, by name."""
        return await self._store.run(QueueList())

    async def stats(self) -> tuple[QueueStats, ...]:
        """Counts of all queues, by name."""
        return await self._store.run(Stats())

    async def redrives(self, limit: int = 20, *, queue: str | None = None) -> tuple[Redrive, ...]:
        """Redrives, running and ended, of all queues or of one; the newest first."""
        limits.whole(limit, "limit", 1, limits.PEEK_MESSAGES_MAX)
        if queue is not None:
            limits.queue_name(queue)
        return await self._store.run(RedriveList(queue, limit))

    async def redrive_step(self, redrive_id: int) -> Redrive:
        """Move the next messages of a redrive, up to 1,000 and as many as its rate allows."""
        return await self._store.run(
            RedriveStep(limits.whole(redrive_id, "a redrive's id", 1, limits.ID_MAX))
        )

    async def redrive_resume(
        self, redrive_id: int, *, progress: Callable[[Redrive], object] | None = None
    ) -> Redrive:
        """Go on with a redrive to its end, as `Queue.redrive` does."""
        return await run_to_end(self._store, await self.redrive_step(redrive_id), progress)

    async def redrive_cancel(self, redrive_id: int) -> Redrive:
        """Stop a redrive where it is; what was moved stays moved."""
        return await self._store.run(
            RedriveCancel(limits.whole(redrive_id, "a redrive's id", 1, limits.ID_MAX))
        )

    async def close(self) -> None:
        """Free connections and files. Calls that wait return; later calls raise UsageError."""
        await ended_async(self._shared.loose_ends)
        self._shared.is_closed = True
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
