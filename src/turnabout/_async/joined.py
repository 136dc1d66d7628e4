"""A queue in the caller's transaction (`AsyncJoinedQueue`), and `batch()`: many verbs in one."""

from __future__ import annotations

from collections.abc import Sequence

from turnabout._async.queue import AsyncQueue
from turnabout._async.receiving import receive_once
from turnabout._async.shared import Shared
from turnabout.store import AsyncJoined, AsyncStore
from turnabout.words.entities import Delivery
from turnabout.words.errors import UsageError
from turnabout.words.plan import BatchPlan
from turnabout.words.verbs import Receive


class AsyncJoinedQueue(AsyncQueue):
    """A queue on your own connection: what it does is committed or rolled back with your rows.

    Made by `queue.within(connection)`. It sends, receives (without waiting), acks, defers, fails,
    releases, extends, cancels, and reads and sets policies of channels; any other verb raises
    UsageError. It never commits, and never waits for a row that another transaction holds.

    An outcome leaves your transaction as it was; after an exception roll it back.
    """

    def __init__(
        self, shared: Shared, name: str, joined: AsyncJoined, front: AsyncStore | None = None
    ) -> None:
        """`front`: a store in front of the joined one, for all verbs."""
        store = joined if front is None else front
        super().__init__(Shared(store, shared.max_payload_bytes, shared.rounds), name)
        self._joined = joined

    async def _received(
        self, verb: Receive, wait_seconds: float
    ) -> tuple[Sequence[Delivery], int | None]:
        if wait_seconds:
            raise UsageError("a receive inside a transaction cannot wait: leave wait_seconds out")
        return await receive_once(self._shared, verb)

    async def wake(self) -> None:
        """After your commit: tell receivers that wait. Without it they learn when they next look,
        on PostgreSQL after seconds, on SQLite after some milliseconds.
        """
        await self._joined.wake(self.name)


class AsyncBatchBlock:
    """`turnabout.batch()`: a `with` block that notes verbs, and runs them at its end.

    All of it in one transaction; nothing at all if the block raises.
    """

    def __init__(self, shared: Shared) -> None:
        self._store = shared.store
        self._plan = BatchPlan(shared.max_payload_bytes)
        self._is_entered = False

    async def __aenter__(self) -> BatchPlan:
        if self._is_entered:
            raise UsageError("a batch is for one `with` block: make another")
        self._is_entered = True
        return self._plan

    async def __aexit__(self, _kind: object, error: object, _trace: object) -> None:
        verbs = self._plan.close()
        if error is None and verbs:
            self._plan.tell(await self._store.run_transaction(verbs))
