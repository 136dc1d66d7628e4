"""Handlers with `transaction=True`: rows and the ack are committed together.

PostgreSQL: a consumer for each handler at once, with a connection of its own. It receives, calls
the handler and acks in one transaction, so a crash gives the message back at once. The handler runs
in a savepoint: if it raises, its rows are undone, and the failure is charged and committed.

SQLite, and handlers with a time limit: see `leased.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from turnabout import _async, _sync
from turnabout.words.batch import Batch
from turnabout.words.errors import Disconnected, QueueNotFound, TurnaboutError, UsageError
from turnabout.words.outcomes import Cancelled, LeaseLost
from turnabout.words.verb import Change
from turnabout.worker.consumer import Consumer
from turnabout.worker.endings import Done, Failed, GivenBack, PutOff, Returned, ending_of, verb_of
from turnabout.worker.job import Job, Surroundings
from turnabout.worker.leased import AsyncLeasedHandler, LeasedHandler
from turnabout.worker.loop import HeldLeases, Lease, LeaseStage, Phase
from turnabout.worker.sessions import TransactionSession, open_session
from turnabout.worker.threads import End

T = TypeVar("T")


def consumers(
    job: Job, run: Surroundings, held: HeldLeases, inner: tuple[_async.AsyncQueue, _sync.Queue]
) -> list[Consumer]:
    """Who works on a queue: one consumer, or, for transactions that receive, one for each of the
    handlers that run at once.

    Raises: UsageError for a store that cannot join a caller's transaction, or not in that colour,
            and for options that a transaction that receives does not have.
    """
    if not job.transaction:
        return [Consumer(job, run, held, inner)]
    receives = run.turnabout.store.connections().receives
    if receives and not job.options.timeout_seconds:
        _refuse_what_it_cannot(job)
        options = replace(job.options, concurrency=1, prefetch=0)
        slots = range(job.options.concurrency)
        job = replace(job, options=options)
        return [TransactionConsumer(job, run, HeldLeases(options), inner) for _ in slots]
    if job.sync is not None:
        job = replace(job, sync=LeasedHandler(job, run, held))
    elif receives:
        job = replace(job, coro=AsyncLeasedHandler(job, run, held))
    else:
        raise UsageError(
            "on SQLite a handler with `transaction=True` must be an ordinary function, not `async`"
        )
    return [Consumer(job, run, held, inner)]


def _refuse_what_it_cannot(job: Job) -> None:
    """The lease is the transaction: nobody else sees it before the commit, and nothing ends it."""
    for wrong, wanted, why in (
        (job.options.prefetch > 0, "prefetch=0", "nothing is leased ahead"),
        (not job.options.heartbeat, "heartbeat=True", "no lease can run out"),
        (job.options.cancellable, "cancellable=False", "nobody can ask to cancel what it holds"),
    ):
        if wrong:
            raise UsageError(
                f"the handler of {job.queue!r} has `transaction=True`, where on PostgreSQL {why}: "
                f"leave {wanted}"
            )


class TransactionConsumer(Consumer):
    """Works on one message of a queue at a time, each in a transaction, on PostgreSQL."""

    def __init__(
        self,
        job: Job,
        run: Surroundings,
        held: HeldLeases,
        inner: tuple[_async.AsyncQueue, _sync.Queue],
    ) -> None:
        super().__init__(job, run, held, inner)
        self._session: TransactionSession | None = None
        self._handling: asyncio.Task[End] | None = None
        self._done = asyncio.Event()
        self._done.set()

    async def _take_once(self, room: int) -> None:
        queue, run = self.job.queue, self._run
        mark = run.emptiness.mark()
        self._done.clear()
        try:
            batch = await self._guard(self._turn())
        finally:
            self._done.set()
        if batch:
            self._seen = None
            return
        if run.until_empty and await self._is_empty(batch) and run.emptiness.found(queue, mark):
            run.stop("all queues are empty")
            return
        await self._wait(batch)

    async def _guard(self, turn: Awaitable[T]) -> T:
        """Whatever the connection's library raises: the transaction is undone, try on a new one."""
        try:
            return await turn
        except BaseException as error:
            session, self._session = self._session, None
            if session is not None:
                session.leave()
            if isinstance(error, (TurnaboutError, asyncio.CancelledError)) or not isinstance(
                error, Exception
            ):
                raise
            raise Disconnected(f"a transaction of {self.job.queue} was lost: {error}") from error

    async def _turn(self) -> Batch[Any]:
        """One message, if there is one, from the receive to the commit."""
        if self._session is None:
            self._session = await self._opened()
        session = self._session
        with self._run.emptiness.asking(self.job.queue):
            try:
                batch = await session.receive()
            except QueueNotFound:  # deleted while we work on it: empty until the next send
                batch = Batch[Any]([], None)
            if not batch:
                await session.rollback()
                return batch
            self._run.emptiness.taken(1)
        (plain,) = batch
        self._run.emptiness.came(self.job.queue, (plain.id,))
        lease = self.held.take(plain.delivery, time.monotonic())
        lease.stage = LeaseStage.RUNNING
        try:
            call = partial(session.handle, plain, lease)
            self._handling = asyncio.create_task(
                call() if self._spans is None else self._in_span(self._spans, plain.delivery, call)
            )
            await asyncio.wait({self._handling})
            end = (
                asyncio.CancelledError() if self._handling.cancelled() else self._handling.result()
            )
            await self._end(session, lease, end)
        finally:
            self._handling = None
            self.held.drop(lease)
            self._run.message_ended(self.job.queue, lease)
        return batch

    async def _end(self, session: TransactionSession, lease: Lease, end: End) -> None:
        stats = self._run.stats
        raised = None if isinstance(end, Returned) else end
        cut_short = self._run.phase is Phase.RELEASING and isinstance(
            raised, asyncio.CancelledError
        )
        ending = GivenBack() if cut_short else ending_of(end)
        if isinstance(ending, GivenBack):
            stats.released += 1
            await session.rollback()
            return
        if lease.settled and raised is None:
            await self._commit(session, Change.ANY)
            stats.handled += 1
            self.report.settled(lease)
            return
        (outcome,) = await session.run(verb_of(self.job.queue, lease.receipt, ending))
        if isinstance(ending, Failed):
            self.report.failed(lease, ending, outcome)
        if isinstance(outcome, LeaseLost):
            # Only if the message was ended outside its handler: then nothing of this holds.
            await session.rollback()
            self._note_loss(lease)
            return
        await self._commit(session, Change.ENDED if isinstance(ending, Done) else Change.ANY)
        match ending:
            case _ if isinstance(outcome, Cancelled):
                stats.cancelled += 1
            case Done():
                stats.handled += 1
            case Failed():
                stats.failed += 1
            case PutOff():
                stats.deferred += 1
        if raised is not None and not isinstance(raised, (Exception, asyncio.CancelledError)):
            self._run.broken(raised)

    async def _commit(self, session: TransactionSession, change: Change) -> None:
        await session.commit()
        await self._run.turnabout.store.connections().wake(self.job.queue, change)

    async def _opened(self) -> TransactionSession:
        connections = self._run.turnabout.store.connections()
        held = {self.job.queue: self.held}
        return await open_session(self.job, self._run, held, connections)

    # --- as Run asks for it ----------------------------------------------------------------------

    async def beat(self) -> None:
        """Nothing to extend: nobody sees these leases before the commit."""
        await asyncio.Event().wait()

    async def finish(self) -> None:
        """Wait for the handler that runs."""
        await self._done.wait()

    def let_go(self) -> None:
        """Stop the handler; one in a thread goes on, and its transaction is never committed."""
        if self._handling is not None:
            self._handling.cancel()

    def abandon(self) -> None:
        """As `let_go`: there is nothing more to do, the transaction ends with its connection."""
        self.let_go()

    async def flush(self, seconds: float) -> None:
        """Close the connection; whatever was not committed is undone."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(TimeoutError, Exception):
                await asyncio.wait_for(session.close(), seconds)
