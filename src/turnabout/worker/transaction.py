"""Handlers with `transaction=True`: their rows and the ack are committed together.

A message is leased beforehand, as for any other handler. The handler is called with a connection
and inside a transaction; the end of its message joins that, so both are committed or neither. What
the handler raises rolls it back; the failure is then charged on the worker's own connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

from turnabout import _async, _sync
from turnabout._sync.shared import Shared
from turnabout.store import AsyncConnections, AsyncJoined, ForwardingStore, Joined, Store
from turnabout.words.entities import Receipt
from turnabout.words.errors import Unavailable, Uncertain, UsageError
from turnabout.words.verb import Change
from turnabout.words.verbs import Verb
from turnabout.worker.consumer import Consumer
from turnabout.worker.endings import Defer, GivenBack, GiveUp, Returned, ending_of, text_of, verb_of
from turnabout.worker.job import Job, Surroundings
from turnabout.worker.loop import HeldLeases, Lease
from turnabout.worker.message import AsyncMessage, BridgeStore, Message, WatchedStore

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
        store = run.turnabout.store
        self._connections = connections = store.connections()
        if job.coro is None:
            self._handler: Callable[..., Any] = cast("Callable[..., Any]", job.sync)
            job = replace(job, sync=self._handle)
        elif isinstance(connections, AsyncConnections):
            self._handler, self._open_async = job.coro, connections.open_async
            job = replace(job, coro=self._handle_async)
        else:
            raise UsageError(
                "on SQLite a handler with `transaction=True` must be an ordinary function, "
                "not `async`"
            )
        super().__init__(job, run, held, inner)
        self._on_loop = BridgeStore(store, asyncio.get_running_loop()).on_loop

    async def flush(self, seconds: float) -> None:
        """Wait until the database knows how all messages ended; then close the connections."""
        await super().flush(seconds)
        self._connections.close()

    # --- the handler, as a consumer calls it -----------------------------------------------------

    def _handle(self, message: Message) -> None:
        """Call the handler in a transaction, and commit it with the end of its message."""
        lease = message._lease
        with self._opening(lease):
            connection = self._connections.open()
        joined = self._connections.joined(connection, self._on_loop)
        store = _WatchedJoined(joined, WatchedStore(self._run.turnabout.store, self._own(lease)))
        queue = _sync.JoinedQueue(Shared(store), self.job.queue, joined, store)
        with self._lent(connection, lease) as ending, self._connections.transaction(connection):
            answer = self._handler(Message(queue, message.delivery, lease), connection)
            if not lease.settled:
                store.run(self._end(lease, answer))
            _check(lease, ending)
        with suppress(Unavailable, Uncertain):  # only a hint: those who wait look by themselves
            joined.wake(self.job.queue, store.changes)

    async def _handle_async(self, message: AsyncMessage) -> None:
        """The same for an `async` handler."""
        lease, turnabout = message._lease, self._run.turnabout
        with self._opening(lease):
            connection = await self._open_async()
        joined = turnabout.store.within(connection)
        store = _AsyncWatchedJoined(joined, self._own(lease))
        queue = _async.AsyncJoinedQueue(turnabout._shared, self.job.queue, joined, store)
        with self._lent(connection, lease) as ending:
            async with self._connections.transaction(connection):
                handling: Awaitable[object] = self._handler(
                    AsyncMessage(queue, message.delivery, lease), connection
                )
                answer = await handling
                if not lease.settled:
                    await store.run(self._end(lease, answer))
                _check(lease, ending)
        with suppress(Unavailable, Uncertain):
            await joined.wake(self.job.queue, store.changes)

    def _end(self, lease: Lease, answer: object) -> Verb[tuple[Any, ...]]:
        ending = ending_of(Returned(answer))
        assert not isinstance(ending, GivenBack)
        return verb_of(self.job.queue, lease.receipt, ending)

    def _own(self, lease: Lease) -> Mapping[str, Mapping[Receipt, Lease]]:
        """Endings are noted of its own message alone: of others, a rollback would not undo them."""
        return {self.job.queue: {lease.receipt: lease}}

    @contextmanager
    def _opening(self, lease: Lease) -> Generator[None]:
        try:
            yield
        except Unavailable as error:
            raise self._put_off(lease, error) from error

    @contextmanager
    def _lent(self, connection: Any, lease: Lease) -> Generator[threading.Lock]:
        """Around a transaction: what is raised within has rolled it back. The lock is taken once:
        by the commit, or by who severs the connection of a handler that does not end.
        """
        ending = threading.Lock()

        def sever() -> None:
            if ending.acquire(blocking=False):
                self._connections.sever(connection)

        lease.sever = sever
        try:
            yield ending
        except _Undone:
            return
        except BaseException as error:
            lease.settled = lease.dead = False
            is_lost = self._connections.is_lost(connection) and not lease.timed_out
            if is_lost and isinstance(error, Exception) and not isinstance(error, (Defer, GiveUp)):
                raise self._put_off(lease, error) from error
            raise
        finally:
            lease.sever = None  # before that, they have set `timed_out`
            self._connections.put_back(connection, keep=not lease.timed_out)

    def _put_off(self, lease: Lease, error: Exception) -> Defer:
        self.report.say(
            logging.WARNING,
            "message %s of %s comes back in %g s: no connection for its handler: %s",
            *(lease, AWAY_SECONDS, text_of(error)),
        )
        return Defer(delay_seconds=AWAY_SECONDS)


class _Undone(Exception):
    """Another worker has the message and will do the work: this transaction is rolled back."""


def _check(lease: Lease, ending: threading.Lock) -> None:
    """The last step before the commit."""
    if lease.refused or not ending.acquire(blocking=False):
        raise _Undone


class _WatchedJoined(ForwardingStore):
    """Like `WatchedStore`, for a blocking store on the handler's connection."""

    def __init__(self, store: Store, watch: WatchedStore) -> None:
        super().__init__(store)
        self._watch = watch
        self.changes = Change.NOTHING

    def run(self, verb: Verb[T]) -> T:
        """Carry out a verb, and note which messages it ended."""
        with self._watch.under_way((verb,)):
            answer = super().run(verb)
            self._watch.note(verb, answer)
        self.changes |= verb.to_notify()
        return answer

    def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Verb by verb, each noted."""
        joined = cast("Joined", self)
        return Joined.run_transaction(joined, verbs, all_or_none=all_or_none)


class _AsyncWatchedJoined(WatchedStore):
    """The same for an `async` handler."""

    changes = Change.NOTHING

    async def run(self, verb: Verb[T]) -> T:
        """Carry out a verb, and note which messages it ended."""
        answer = await super().run(verb)
        self.changes |= verb.to_notify()
        return answer

    async def run_transaction(
        self, verbs: Sequence[Verb[Any]], *, all_or_none: bool = False
    ) -> list[Any]:
        """Verb by verb, each noted."""
        joined = cast("AsyncJoined", self)
        return await AsyncJoined.run_transaction(joined, verbs, all_or_none=all_or_none)
