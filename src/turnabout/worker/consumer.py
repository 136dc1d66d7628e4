"""Works on one queue: takes messages, runs the handler, keeps the leases, hands on how each ended.

Two loops. `take` asks for as many messages as there is room for, and waits for a signal when there
are none. `beat` extends all leases in one call, and tells handlers whose lease is lost. A `receive`
under way is never cancelled: what it leased would be nobody's until the leases run out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from turnabout._async import AsyncMessage as PlainMessage
from turnabout._async import AsyncQueue, AsyncTurnabout
from turnabout._sync import Queue
from turnabout.tracing import AsyncTracedStore, Spans
from turnabout.words.batch import Batch
from turnabout.words.entities import Delivery
from turnabout.words.errors import QueueNotFound, Unavailable, Uncertain
from turnabout.words.outcomes import Cancelled, Extended, LeaseLost
from turnabout.words.verb import Change
from turnabout.worker.endings import (
    Defer,
    Done,
    Ending,
    Failed,
    GivenBack,
    GiveUp,
    PutOff,
    Returned,
    ending_of,
)
from turnabout.worker.loop import (
    Backoff,
    ConsumerOptions,
    Emptiness,
    HeldLeases,
    Lease,
    LeaseStage,
    Phase,
    pause_seconds,
)
from turnabout.worker.message import AsyncMessage, Message
from turnabout.worker.settler import Answer, Settler
from turnabout.worker.threads import End, Threads

log = logging.getLogger("turnabout.worker")

SyncHandler = Callable[[Message], object]
AsyncHandler = Callable[[AsyncMessage], Awaitable[object]]


@dataclass(slots=True)
class WorkerStats:
    """Counts of what a worker has done so far."""

    handled: int = 0
    """Acked, or settled by the handler itself."""
    failed: int = 0
    deferred: int = 0
    released: int = 0
    """Given back at a stop."""
    cancelled: int = 0
    """Ended as cancelled, as was requested."""
    lost: int = 0
    """Their lease was lost before they were settled."""


@dataclass(frozen=True, slots=True)
class Job:
    """A queue, its handler (one of the two) and how it is worked on."""

    queue: str
    options: ConsumerOptions
    sync: SyncHandler | None
    coro: AsyncHandler | None
    transaction: bool = False
    """The handler also takes a connection: see `transaction.py`."""


class Surroundings(Protocol):
    """The part of a run that its consumers use."""

    turnabout: AsyncTurnabout
    until_empty: bool
    poll_seconds: float
    phase: Phase
    stats: WorkerStats
    emptiness: Emptiness
    threads: Threads

    def broken(self, error: BaseException) -> None:
        """An error that a retry won't fix: stop the worker, and raise this at its end."""
        ...

    def stop(self, why: str) -> None:
        """Take nothing more, finish what runs, end."""
        ...

    def look_again(self) -> None:
        """The worker holds nothing now: ask all queues whether they are empty."""
        ...


class Consumer:
    """One queue of a running worker."""

    def __init__(
        self, job: Job, run: Surroundings, held: HeldLeases, inner: tuple[AsyncQueue, Queue]
    ) -> None:
        self.job = job
        self.held = held
        self._run = run
        self._async_queue, self._sync_queue = inner
        self._queue = run.turnabout.queue(job.queue)
        store = run.turnabout.store
        self._spans = store.spans if isinstance(store, AsyncTracedStore) else None
        self._settler = Settler(self._queue, self._told, run.broken)
        self._waiting: deque[tuple[Lease, Delivery]] = deque()
        self._tasks: dict[Lease, asyncio.Task[End]] = {}
        self._changed = asyncio.Event()
        self._leases_changed = asyncio.Event()
        self._beat_at = float("inf")
        self._seen: int | None = None
        """Of the queue, if the last look found nothing and others know since then that we wait."""

    # --- taking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something changed for `take`: room, the phase, or that nothing is held any more."""
        self._changed.set()

    async def take(self) -> None:
        """Until the phase changes: fetch what there is room for."""
        backoff = Backoff()
        while self._run.phase is Phase.TAKING:
            self._changed.clear()
            room = self.held.room()
            if room == 0:
                await self._changed.wait()
                continue
            try:
                await self._take_once(room)
            except (Unavailable, Uncertain) as error:
                pause = backoff.next(random.random())  # noqa: S311 - jitter, no secret
                say = log.warning if backoff.tries == 1 else log.debug
                say("no messages from %s: %s; asking again", self.job.queue, error.code)
                await self._sleep(pause)
            else:
                if backoff.tries:
                    log.info("messages from %s again", self.job.queue)
                    backoff = Backoff()

    async def _take_once(self, room: int) -> None:
        queue, run = self.job.queue, self._run
        mark = run.emptiness.mark()
        asked_at = time.monotonic()
        try:
            batch = await self._queue.receive(
                room,
                lease_seconds=self.job.options.lease_seconds,
                shard=self.job.options.shard,
            )
        except QueueNotFound:
            # Deleted while we work on it. The next send makes it again; until then it is empty.
            batch = Batch[PlainMessage]([], None)
        if batch:
            self._seen = None
            self._took(batch, asked_at)
            return
        if run.until_empty and await self._is_empty(batch) and run.emptiness.found(queue, mark):
            run.stop("all queues are empty")
            return
        await self._wait(batch)

    async def _is_empty(self, batch: Batch[PlainMessage]) -> bool:
        """Nothing was handed out. What only waits for its rate still counts as work to do."""
        if batch.retry_after_ms is None:
            return True
        channels = await self._queue.channels(limit=1_000)
        return not any(channel.ready and channel.blocked == "rate" for channel in channels)

    def _took(self, batch: Batch[PlainMessage], asked_at: float) -> None:
        self._run.emptiness.taken(len(batch))
        for message in batch:
            lease = self.held.add(message.receipt, message.delivery.lease_ms / 1000, asked_at)
            if lease.beat_at < self._beat_at:
                self._leases_changed.set()
            self._waiting.append((lease, message.delivery))
        if self._run.phase is Phase.TAKING:
            self._start_handlers()
        else:
            self.give_back_waiting()

    async def _wait(self, nothing: Batch[PlainMessage]) -> None:
        """Until there may be more. First others must know that we wait, then look once more."""
        store, queue = self._run.turnabout.store, self.job.queue
        seen, self._seen = self._seen, None
        if seen is None:
            self._seen = await store.signal(queue, Change.READY)
            return
        seconds = pause_seconds(nothing.retry_after_seconds, self._run.poll_seconds)
        signal = asyncio.create_task(store.wait(queue, seen, seconds, Change.READY))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({signal, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            signal.cancel()
            results = await asyncio.gather(signal, changed, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    # --- handling --------------------------------------------------------------------------------

    def _start_handlers(self) -> None:
        while self._waiting and len(self._tasks) < self.job.options.concurrency:
            lease, delivery = self._waiting.popleft()
            lease.stage = LeaseStage.RUNNING
            call = partial(self._call, lease, delivery)
            task = asyncio.create_task(
                call() if self._spans is None else self._in_span(self._spans, delivery, call),
                name=f"turnabout {self.job.queue} {lease.receipt}",
            )
            self._tasks[lease] = task
            # A callback, as a task that is cancelled before its first step runs nothing of its own.
            task.add_done_callback(partial(self._handled, lease))

    def _handled(self, lease: Lease, task: asyncio.Task[End]) -> None:
        """A handler's task is over. Cancelled: its thread, if it has one, goes on without us."""
        self._tasks.pop(lease, None)
        if task.cancelled():
            self._ended(lease, asyncio.CancelledError())
        else:  # an exception is the worker's, not the handler's: it could not be run
            self._ended(lease, task.exception() or task.result())
        if self._run.phase is Phase.TAKING:
            self._start_handlers()

    async def _in_span(
        self, spans: Spans, delivery: Delivery, call: Callable[[], Awaitable[End]]
    ) -> End:
        with spans.process(self.job.queue, delivery) as handling:
            end = await call()
            if not isinstance(end, (Returned, Defer)):
                handling.failed(end)
            return end

    async def _call(self, lease: Lease, delivery: Delivery) -> End:
        """Run the handler; what it raised or returned."""
        if self.job.coro is not None:
            try:
                message = AsyncMessage(self._async_queue, delivery, lease)
                return Returned(await self.job.coro(message))
            except BaseException as error:  # noqa: BLE001 - even SystemExit must fail the message
                return error
        handler = self.job.sync
        assert handler is not None
        blocking = Message(self._sync_queue, delivery, lease)

        def call() -> End:
            try:
                answer = handler(blocking)
            except BaseException as error:  # noqa: BLE001 - as above
                return error
            if asyncio.iscoroutine(answer):
                answer.close()
                return TypeError("the handler returned a coroutine: write it as `async def`")
            return Returned(answer)

        return await self._run.threads.start(call)

    def _ended(self, lease: Lease, end: End) -> None:
        """A handler is over: settle its message, unless it has done so or has lost it."""
        if lease.stage is not LeaseStage.RUNNING:
            return  # it took too long to hear that it should end
        raised = None if isinstance(end, Returned) else end
        cut_short = lease.lost or self._run.phase is Phase.RELEASING
        if lease.told_to_cancel and isinstance(raised, asyncio.CancelledError):
            cut_short = True
        if lease.refused:
            self._refused(lease, "its handler ended")
            self._drop(lease)
        elif lease.settled:
            self._run.stats.handled += 1
            self._drop(lease)
        elif cut_short and raised is not None and not isinstance(raised, (Defer, GiveUp)):
            # The worker cut it short. If the lease was only presumed lost, giving it back still
            # helps; if the message is to be cancelled, this ends it.
            self._settle(lease, GivenBack())
        else:
            self._settle(lease, ending_of(end))
        if raised is None or (cut_short and isinstance(raised, asyncio.CancelledError)):
            return
        log.info(
            "handler for %s raised %s on message %d (attempt %d)",
            self.job.queue,
            type(raised).__name__,
            lease.receipt.id,
            lease.receipt.attempt,
            extra=self._about(lease),
        )
        if not isinstance(raised, (Exception, asyncio.CancelledError)):
            self._run.broken(raised)

    def _about(self, lease: Lease) -> dict[str, str]:
        """For log records: what a machine may want to pick out. Never a payload."""
        return {"queue": self.job.queue, "receipt": str(lease.receipt)}

    # --- settling --------------------------------------------------------------------------------

    def _settle(self, lease: Lease, ending: Ending) -> None:
        lease.stage = LeaseStage.SETTLING
        self._settler.put(lease, ending)

    def _told(self, lease: Lease, ending: Ending, answer: Answer) -> None:
        """The database has answered for this message, or could not be reached at all."""
        stats = self._run.stats
        if answer == "untold":
            log.error("message %s of %s could not be settled", lease.receipt, self.job.queue)
            self._note_loss(lease)
        elif isinstance(answer, LeaseLost):
            self._refused(lease, type(ending).__name__.lower())
        elif isinstance(answer, Cancelled):
            stats.cancelled += 1
        else:
            match ending:
                case Done():
                    stats.handled += 1
                case Failed():
                    stats.failed += 1
                case PutOff():
                    stats.deferred += 1
                case GivenBack():
                    stats.released += 1
        self._drop(lease)

    def _refused(self, lease: Lease, what: str) -> None:
        say = log.info if self._note_loss(lease) else log.warning
        say(
            "too late for message %s of %s (%s): its lease was lost",
            lease.receipt,
            self.job.queue,
            what,
            extra=self._about(lease),
        )

    def _note_loss(self, lease: Lease) -> bool:
        """Count it once. True if that was done before."""
        noted = lease.noted
        lease.lost = lease.noted = True
        if not noted:
            self._run.stats.lost += 1
        return noted

    def _drop(self, lease: Lease) -> None:
        self.held.drop(lease)
        if self._run.emptiness.ended():
            self._run.look_again()
        self.wake()

    # --- keeping leases --------------------------------------------------------------------------

    async def beat(self) -> None:
        """For as long as the worker runs: extend leases, and notice those that are lost."""
        backoff = Backoff()
        while True:
            next_at = self.held.next_beat()
            self._beat_at = float("inf") if next_at is None else next_at
            self._leases_changed.clear()
            pause = None if next_at is None else next_at - time.monotonic()
            if pause is None or pause > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._leases_changed.wait(), pause)
                continue
            if await self._extend():
                backoff = Backoff()
            else:
                waiting = [lease for lease in self.held if lease.alive]
                pause = backoff.next(random.random())  # noqa: S311 - jitter, no secret
                self.held.put_off(waiting, time.monotonic(), pause)
            for lease in self.held.overdue(time.monotonic()):
                self._lose(lease, "it ran out")

    async def _extend(self) -> bool:
        """One call for all leases. False if the database could not be reached."""
        asked_at = time.monotonic()
        leases = self.held.to_extend(asked_at)
        if not leases:
            return True
        call = asyncio.create_task(
            self._queue.extend(
                [lease.receipt for lease in leases],
                lease_seconds=self.job.options.lease_seconds,
            )
        )
        try:
            # A database that does not answer must not keep handlers from hearing of it.
            while not call.done():
                until_end = min(lease.ends_at for lease in leases) - time.monotonic()
                await asyncio.wait({call}, timeout=max(until_end, 0.05))
                if not call.done():
                    for lease in self.held.overdue(time.monotonic()):
                        self._lose(lease, "it ran out while the database did not answer")
            outcomes = call.result()
        except (Unavailable, Uncertain) as error:
            log.warning("%d leases of %s not extended: %s", len(leases), self.job.queue, error.code)
            return False
        except QueueNotFound:
            outcomes = (LeaseLost("gone"),) * len(leases)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker has to stop
            self._run.broken(error)
            return False
        finally:
            call.cancel()
        for lease, outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Extended):
                self.held.extended(lease, asked_at)
                if outcome.cancel_requested:
                    self._cancel(lease)
            elif lease.alive:  # else its own ack overtook the beat
                lease.refused = True
                self._lose(lease, f"the message is {outcome.now}")
        return True

    def _lose(self, lease: Lease, why: str) -> None:
        """Tell its handler; one on the loop is cancelled."""
        self._note_loss(lease)
        log.warning(
            "the lease of message %s of %s is lost: %s",
            lease.receipt,
            self.job.queue,
            why,
            extra=self._about(lease),
        )
        if lease.stage is LeaseStage.WAITING:
            self._waiting = deque(item for item in self._waiting if item[0] is not lease)
            self._drop(lease)
        elif self.job.coro is not None and lease in self._tasks:
            self._tasks[lease].cancel()

    def _cancel(self, lease: Lease) -> None:
        """The message is to be cancelled: tell its handler."""
        lease.cancel_requested = True
        if lease.told_to_cancel or not lease.alive:
            return
        lease.told_to_cancel = True
        log.info(
            "message %s of %s is to be cancelled",
            lease.receipt,
            self.job.queue,
            extra=self._about(lease),
        )
        if lease.stage is LeaseStage.WAITING:
            self._waiting = deque(item for item in self._waiting if item[0] is not lease)
            self._settle(lease, GivenBack())
        elif self.job.options.cancellable and lease in self._tasks:
            self._tasks[lease].cancel()

    # --- stopping --------------------------------------------------------------------------------

    def give_back_waiting(self) -> None:
        """Release what was fetched ahead: its handlers will not start any more."""
        while self._waiting:
            lease, _ = self._waiting.popleft()
            self._settle(lease, GivenBack())

    async def finish(self) -> None:
        """Wait for the handlers that run."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def let_go(self) -> None:
        """Stop handlers on the loop, leave those in threads behind; release their messages."""
        for lease, task in tuple(self._tasks.items()):
            if self.job.sync is not None:
                lease.lost = True
            task.cancel()

    def abandon(self) -> None:
        """Release the messages of handlers that would not end even so."""
        for lease in tuple(self._tasks):
            lease.lost = True
            self._settle(lease, GivenBack())

    async def flush(self, seconds: float) -> None:
        """Wait until the database knows how all messages ended."""
        await self._settler.flush(seconds)
