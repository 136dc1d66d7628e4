"""Handlers with `transaction=True`: their rows and the ack are committed together.

A message is leased beforehand, as for any other handler. The handler is called with a connection
and inside a transaction; the end of its message joins that, so both are committed or neither. What
the handler raises rolls it back; the failure is then charged on the worker's own connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

from turnabout import _async, _sync
from turnabout._sync.shared import Shared
from turnabout.store import AsyncConnections, ForwardingStore, Store
from turnabout.words.entities import Delivery
from turnabout.words.errors import Unavailable, Uncertain, UsageError
from turnabout.words.outcomes import LeaseLost
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb
from turnabout.worker.consumer import Consumer
from turnabout.worker.endings import Defer, GivenBack, GiveUp, Returned, ending_of, text_of, verb_of
from turnabout.worker.job import Job, Surroundings
from turnabout.worker.loop import HeldLeases, Lease
from turnabout.worker.message import AsyncMessage, BridgeStore, Message, WatchedStore
from turnabout.worker.threads import End

T = TypeVar("T")

AWAY_SECONDS = 1.0
"""A message whose handler got no connection, or lost it, comes back uncharged after that time."""


class TransactionConsumer(Consumer):
    """A consumer whose handler also takes a connection.

    Raises: UsageError for a store without transactions, or without any for asyncio.
    """

    def __init__(
        self,
        job: Job,
        run: Surroundings,
        held: HeldLeases,
        inner: tuple[_async.AsyncQueue, _sync.Queue],
    ) -> None:
        self._connections = connections = run.turnabout.store.connections()
        if job.coro is None:
            self._handler: Callable[..., Any] = cast("Callable[..., Any]", job.sync)
            job = replace(job, sync=self._handle)
        elif isinstance(connections, AsyncConnections):
            self._handler, self._async_connections = job.coro, connections
            job = replace(job, coro=self._handle_async)
        else:
            raise UsageError(
                "on SQLite a handler with `transaction=True` must be an ordinary function, "
                "not `async`"
            )
        super().__init__(job, run, held, inner)
        self._bridge = BridgeStore(run.turnabout.store, asyncio.get_running_loop())
        self._leases = {job.queue: held}
        self._watch = WatchedStore(run.turnabout.store, self._leases)

    async def _call(self, lease: Lease, delivery: Delivery) -> End:
        end = await super()._call(lease, delivery)
        if isinstance(end, Returned) and isinstance(end.value, Change):
            with suppress(Unavailable, Uncertain):  # only a hint: those who wait look by themselves
                await self._connections.wake(self.job.queue, end.value)
        return end

    async def flush(self, seconds: float) -> None:
        """Wait until the database knows how all messages ended; then close the connections."""
        await super().flush(seconds)
        await self._connections.close()

    # --- the handler, as a consumer calls it -----------------------------------------------------

    def _handle(self, message: Message) -> Change:
        """Call the handler in a transaction, and commit it with the end of its message.

        Answers what those who wait at the queue may want to know.
        """
        lease, finishing = message._lease, threading.Lock()

        def sever() -> None:
            with finishing:
                self._connections.sever(connection)

        try:
            connection = self._connections.open()
        except Unavailable as error:
            raise self._put_off(lease, error) from error
        lease.sever = sever
        try:
            with self._noted(connection, lease), ExitStack() as lock:
                joined = self._connections.joined(connection, self._bridge.run)
                store = _WatchedJoined(joined, self._watch)
                queue = _sync.JoinedQueue(Shared(store), self.job.queue, joined, store)
                with self._connections.transaction(connection):
                    answer = self._handler(Message(queue, message.delivery, lease), connection)
                    lock.enter_context(finishing)
                    if not (lease.settled or lease.timed_out):
                        _note_end(lease, store.run(self._end(lease, answer)))
                    if lease.refused or lease.timed_out:
                        raise _Undone
                return store.changes
            return Change.NOTHING
        finally:
            self._connections.put_back(connection, keep=_is_over(lease))

    async def _handle_async(self, message: AsyncMessage) -> Change:
        """The same for an `async` handler."""
        lease, turnabout = message._lease, self._run.turnabout
        try:
            connection = await self._async_connections.open_async()
        except Unavailable as error:
            raise self._put_off(lease, error) from error
        lease.sever = lambda: self._connections.sever(connection)
        try:
            with self._noted(connection, lease):
                joined = turnabout.store.within(connection)
                store = _AsyncWatchedJoined(joined, self._leases)
                queue = _async.AsyncJoinedQueue(turnabout._shared, self.job.queue, joined, store)
                async with self._connections.transaction(connection):
                    handling: Awaitable[object] = self._handler(
                        AsyncMessage(queue, message.delivery, lease), connection
                    )
                    answer = await handling
                    if not lease.settled:
                        _note_end(lease, await store.run(self._end(lease, answer)))
                    if lease.refused:
                        raise _Undone
                return store.changes
            return Change.NOTHING
        finally:
            await self._async_connections.put_back_async(connection, keep=_is_over(lease))

    def _end(self, lease: Lease, answer: object) -> Verb[tuple[Any, ...]]:
        ending = ending_of(Returned(answer))
        assert not isinstance(ending, GivenBack)
        return verb_of(self.job.queue, lease.receipt, ending)

    @contextmanager
    def _noted(self, connection: Any, lease: Lease) -> Generator[None]:
        """Around a transaction: what is raised within has rolled it back."""
        try:
            yield
        except _Undone:
            return
        except BaseException as error:
            lease.settled = lease.dead = False
            is_lost = self._connections.is_lost(connection) and not lease.timed_out
            if is_lost and isinstance(error, Exception) and not isinstance(error, (Defer, GiveUp)):
                raise self._put_off(lease, error) from error
            raise

    def _put_off(self, lease: Lease, error: Exception) -> Defer:
        self.report.say(
            logging.WARNING,
            "message %s of %s comes back in %g s: no connection for its handler: %s",
            *(lease, AWAY_SECONDS, text_of(error)),
        )
        return Defer(delay_seconds=AWAY_SECONDS)


class _Undone(Exception):
    """Somebody else has the message and will do the work: this transaction is rolled back."""


def _is_over(lease: Lease) -> bool:
    """Whether nobody severs its connection any more: before that, they have set `timed_out`."""
    lease.sever = None
    return not lease.timed_out


def _note_end(lease: Lease, outcomes: tuple[Any, ...]) -> None:
    """Nobody else notes a lost lease of a message that the worker has given back meanwhile."""
    lease.refused = lease.refused or isinstance(outcomes[0], LeaseLost)


class _WatchedJoined(ForwardingStore):
    """As `WatchedStore`, for a blocking store on a connection of the handler's."""

    def __init__(self, store: Store, watch: WatchedStore) -> None:
        super().__init__(store)
        self._watch = watch
        self.changes = Change.NOTHING

    def run(self, verb: Verb[T]) -> T:
        """Carry out a verb, and note which messages it ended."""
        answer = super().run(verb)
        self._watch.note(verb, answer)
        self.changes |= verb.to_notify()
        return answer


class _AsyncWatchedJoined(WatchedStore):
    """The same for an `async` handler."""

    changes = Change.NOTHING

    async def run(self, verb: Verb[T]) -> T:
        """Carry out a verb, and note which messages it ended."""
        answer = await super().run(verb)
        self.changes |= verb.to_notify()
        return answer
