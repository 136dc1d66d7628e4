"""Handlers with `transaction=True` for messages that are leased beforehand, as usual.

The handler has a connection with a transaction, and the end of its message joins it: its rows and
the ack are committed together. So on SQLite, where no transaction is open while a handler only
computes (it begins at the first write), and wherever handlers have a time limit: a transaction that
hangs can be ended from outside, and the message be failed by another connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any, NoReturn, cast

from turnabout._async import AsyncJoinedQueue
from turnabout.words.errors import Unavailable, UsageError
from turnabout.words.outcomes import LeaseLost
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb
from turnabout.worker.endings import Defer, GivenBack, Returned, ending_of, verb_of
from turnabout.worker.job import Job, Surroundings
from turnabout.worker.loop import HeldLeases, Lease
from turnabout.worker.message import AsyncMessage, BridgeStore, Message, WatchedStore
from turnabout.worker.sessions import joined_queue

AWAY_SECONDS = 1.0
"""Where there is no connection the message comes back, uncharged, after that time."""


class LeasedHandler:
    """An ordinary handler with a connection, as one without."""

    def __init__(self, job: Job, run: Surroundings, held: HeldLeases) -> None:
        store = run.turnabout.store
        bridge = BridgeStore(store, asyncio.get_running_loop())
        self._job = job
        self._watch = WatchedStore(store, {job.queue: held})
        self._connections = connections = store.connections()
        self._bridge = bridge
        self._beside = bridge.run if connections.receives else _alone

    def __call__(self, message: Message) -> object:
        """Run the handler; commit its rows together with the end of its message, or neither."""
        handler = cast("Callable[[Message, Any], object]", self._job.sync)
        queue, lease = self._job.queue, message._lease
        finishing = threading.Lock()
        try:
            opened = self._connections.open()
        except Unavailable as error:
            raise Defer(delay_seconds=AWAY_SECONDS) from error
        with closing(opened) as connection:

            def sever() -> None:
                with finishing:
                    self._connections.sever(connection)

            lease.sever = sever
            joined, store = joined_queue(
                self._connections, self._beside, self._watch, queue, connection
            )
            try:
                answer = handler(Message(joined, message.delivery, lease), connection)
                with finishing:
                    if not (lease.settled or lease.timed_out):
                        (outcome,) = store.run(_end(lease, queue, answer))
                        # Nobody notes it for a message that the worker has given back meanwhile.
                        lease.refused = lease.refused or isinstance(outcome, LeaseLost)
                    if lease.refused or lease.timed_out:
                        connection.rollback()  # somebody else has the message, and will do the work
                        return None
                    connection.commit()
            except BaseException:
                with suppress(Exception):  # severed: it is closed already
                    connection.rollback()
                lease.settled = lease.dead = False
                raise
        if self._connections.receives:
            self._bridge.on_loop(self._wake())
        return None

    async def _wake(self) -> None:
        await self._connections.wake(self._job.queue, Change.ANY)


class AsyncLeasedHandler:
    """The same for an `async` handler."""

    def __init__(self, job: Job, run: Surroundings, held: HeldLeases) -> None:
        self._job = job
        self._held = {job.queue: held}
        self._turnabout = run.turnabout
        self._connections = run.turnabout.store.connections()

    async def __call__(self, message: AsyncMessage) -> object:
        """As that of `LeasedHandler`."""
        handler = cast("Callable[[AsyncMessage, Any], Awaitable[object]]", self._job.coro)
        name, lease = self._job.queue, message._lease
        try:
            connection = await self._connections.open_async()
        except Unavailable as error:
            raise Defer(delay_seconds=AWAY_SECONDS) from error
        lease.sever = lambda: self._connections.sever(connection)
        try:
            joined = self._turnabout.store.within(connection)
            store = WatchedStore(joined, self._held)
            queue = AsyncJoinedQueue(self._turnabout._shared, name, joined, store)
            try:
                answer = await handler(AsyncMessage(queue, message.delivery, lease), connection)
                if not lease.settled:
                    (outcome,) = await store.run(_end(lease, name, answer))
                    lease.refused = lease.refused or isinstance(outcome, LeaseLost)
                if lease.refused:
                    await connection.rollback()
                    return None
                await connection.commit()
            except BaseException:
                with suppress(Exception):
                    await connection.rollback()
                lease.settled = lease.dead = False
                raise
        finally:
            await connection.close()
        await self._connections.wake(name, Change.ANY)
        return None


def _end(lease: Lease, queue: str, answer: object) -> Verb[tuple[Any, ...]]:
    ending = ending_of(Returned(answer))
    assert not isinstance(ending, GivenBack)
    return verb_of(queue, lease.receipt, ending)


def _alone(verb: Verb[Any]) -> NoReturn:
    raise UsageError(f"{verb.name} needs a second connection, which SQLite doesn't have here")
