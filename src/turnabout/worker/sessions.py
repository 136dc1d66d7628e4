"""A handler's connection with a transaction, in either colour, as the worker's loop uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from turnabout._async import AsyncJoinedQueue
from turnabout._sync import JoinedQueue
from turnabout._sync.shared import Shared
from turnabout.store import Connections, ForwardingStore, Store
from turnabout.words.batch import Batch
from turnabout.words.errors import Disconnected
from turnabout.words.verbs import Verb
from turnabout.worker.endings import Returned
from turnabout.worker.job import Job, Surroundings
from turnabout.worker.loop import HeldLeases, Lease
from turnabout.worker.message import AsyncMessage, BridgeStore, Message, WatchedStore
from turnabout.worker.threads import End, Threads

T = TypeVar("T")


class TransactionSession(Protocol):
    """A connection and its transaction, one after another."""

    async def receive(self) -> Batch[Any]:
        """At most one message, in a transaction that begins with it."""
        ...

    async def handle(self, message: Any, lease: Lease) -> End:
        """The handler, in a savepoint: if it raises, its rows are undone."""
        ...

    async def run(self, verb: Verb[tuple[Any, ...]]) -> tuple[Any, ...]:
        """A verb in the transaction."""
        ...

    async def commit(self) -> None:
        """The end of the transaction."""
        ...

    async def rollback(self) -> None:
        """The other end of it."""
        ...

    async def close(self) -> None:
        """The end of the connection."""
        ...

    def leave(self) -> None:
        """It broke, or its thread would not end: close it as soon as that is safe."""
        ...


async def open_session(
    job: Job, run: Surroundings, held: Mapping[str, HeldLeases], connections: Connections
) -> TransactionSession:
    """A session for the job's handler, in its colour."""
    kind = _ThreadSession if job.coro is None else _AsyncSession
    return await kind.opened(job, run, held, connections)


class _AsyncSession:
    """For an `async` handler."""

    def __init__(
        self, job: Job, queue: AsyncJoinedQueue, store: WatchedStore, connection: Any
    ) -> None:
        self._job = job
        self._connection = connection
        self._queue = queue
        self._store = store

    @classmethod
    async def opened(
        cls, job: Job, run: Surroundings, held: Mapping[str, HeldLeases], connections: Connections
    ) -> _AsyncSession:
        connection = await connections.open_async()
        joined = run.turnabout.store.within(connection)
        watched = WatchedStore(joined, held)
        queue = AsyncJoinedQueue(run.turnabout._shared, job.queue, joined, watched)
        return cls(job, queue, watched, connection)

    async def receive(self) -> Batch[Any]:
        options = self._job.options
        return await self._queue.receive(lease_seconds=options.lease_seconds, shard=options.shard)

    async def handle(self, message: Any, lease: Lease) -> End:
        handler = cast("Callable[[AsyncMessage, Any], Awaitable[object]]", self._job.coro)
        given = AsyncMessage(self._queue, message.delivery, lease)
        try:
            async with self._connection.transaction():
                return Returned(await handler(given, self._connection))
        except BaseException as error:  # noqa: BLE001 - even SystemExit must fail the message
            return error

    async def run(self, verb: Verb[tuple[Any, ...]]) -> tuple[Any, ...]:
        return await self._store.run(verb)

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def close(self) -> None:
        await self._connection.close()

    def leave(self) -> None:
        _closing.add(task := asyncio.ensure_future(self._connection.close()))
        task.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()


class _ThreadSession:
    """For an ordinary handler: all that blocks happens in its thread."""

    def __init__(
        self, job: Job, threads: Threads, queue: JoinedQueue, store: Store, connection: Any
    ) -> None:
        self._job = job
        self._threads = threads
        self._queue = queue
        self._store = store
        self._connection = connection
        self._is_left = False
        self._is_used = False

    @classmethod
    async def opened(
        cls, job: Job, run: Surroundings, held: Mapping[str, HeldLeases], connections: Connections
    ) -> _ThreadSession:
        store = run.turnabout.store
        bridge = BridgeStore(store, asyncio.get_running_loop())
        watch = WatchedStore(store, held)

        def make() -> _ThreadSession:
            connection = connections.open()
            queue, watched = joined_queue(connections, bridge.run, watch, job.queue, connection)
            return cls(job, run.threads, queue, watched, connection)

        return await _in_thread(run.threads, make)

    async def receive(self) -> Batch[Any]:
        options = self._job.options
        return await self._work(
            lambda: self._queue.receive(lease_seconds=options.lease_seconds, shard=options.shard)
        )

    async def handle(self, message: Any, lease: Lease) -> End:
        handler = cast("Callable[[Message, Any], object]", self._job.sync)
        given = Message(self._queue, message.delivery, lease)

        def call() -> End:
            try:
                with self._connection.transaction():
                    answer = handler(given, self._connection)
            except BaseException as error:  # noqa: BLE001 - as above
                return error
            return Returned(answer)

        return await self._work(call)

    async def run(self, verb: Verb[tuple[Any, ...]]) -> tuple[Any, ...]:
        return await self._work(lambda: self._store.run(verb))

    async def commit(self) -> None:
        await self._work(self._connection.commit)

    async def rollback(self) -> None:
        await self._work(self._connection.rollback)

    async def close(self) -> None:
        await self._work(self._connection.close)

    def leave(self) -> None:
        self._is_left = True
        if not self._is_used:
            self._connection.close()

    async def _work(self, work: Callable[[], T]) -> T:
        if self._is_used:
            raise Disconnected("the handler before is still at work on this connection")
        self._is_used = True

        def use() -> T:
            try:
                return work()
            finally:
                self._is_used = False
                if self._is_left:
                    self._connection.close()

        return await _in_thread(self._threads, use)


async def _in_thread(threads: Threads, work: Callable[[], T]) -> T:
    def call() -> End:
        try:
            return Returned(work())
        except BaseException as error:  # noqa: BLE001 - raised on the loop
            return error

    end = await threads.start(call).future
    if isinstance(end, Returned):
        return cast("T", end.value)
    raise end


class _WatchedJoined(ForwardingStore):
    """As `WatchedStore`, for a blocking store on a connection of the handler's."""

    def __init__(self, store: Store, watch: WatchedStore) -> None:
        super().__init__(store)
        self._watch = watch

    def run(self, verb: Verb[T]) -> T:
        """Carry out a verb, and note which messages it ended."""
        answer = super().run(verb)
        self._watch.note(verb, answer)
        return answer


def joined_queue(
    connections: Connections,
    run: Callable[[Verb[Any]], Any],
    watch: WatchedStore,
    queue: str,
    connection: object,
) -> tuple[JoinedQueue, Store]:
    """The queue on a connection of a thread, and its store, which notes what its verbs end."""
    joined = connections.joined(connection, run)
    watched = _WatchedJoined(joined, watch)
    return JoinedQueue(Shared(watched), queue, joined, watched), watched
