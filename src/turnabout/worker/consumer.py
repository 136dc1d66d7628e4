"""Works on one queue: takes messages, runs the handler, keeps the leases, hands on how each ended.

Two loops. `take` acks what is done and asks for as many messages as there is room for, in one call,
and waits for a signal when there are none. `beat` extends all leases in one call, and tells
handlers whose lease is lost. A `receive` under way is never cancelled: what it leased would be
nobody's until the leases run out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from turnabout._async import AsyncMessage as PlainMessage
from turnabout._async import AsyncQueue
from turnabout._sync import Queue
from turnabout.words.batch import Batch
from turnabout.words.entities import Delivery
from turnabout.words.errors import QueueNotFound, Unavailable, Uncertain
from turnabout.words.outcomes import Cancelled, Extended, LeaseLost, Retrying
from turnabout.words.verb import Change
from turnabout.worker.endings import (
    COUNTED,
    Defer,
    Ending,
    Failed,
    GivenBack,
    GiveUp,
    Returned,
    ending_of,
    timeout_error,
)
from turnabout.worker.job import Job, Surroundings, awaited, called, is_ctrl_c
from turnabout.worker.loop import (
    PAUSE_SECONDS_MIN,
    RETRY_LATE_SECONDS,
    Backoff,
    HeldLeases,
    Lease,
    LeaseStage,
    Phase,
    pause_seconds,
)
from turnabout.worker.message import AsyncMessage, Message
from turnabout.worker.report import Report
from turnabout.worker.settler import Answer, Settler, receipts_and_results
from turnabout.worker.threads import End, ThreadCall

log = logging.getLogger("turnabout.worker")

CANCEL_SECONDS = 5.0
"""Time for an `async` handler to end after it was cancelled for its time limit."""


class Consumer:
    """One queue of a running worker."""

    def __init__(
        self, job: Job, run: Surroundings, held: HeldLeases, inner: tuple[AsyncQueue, Queue]
    ) -> None:
        self.job = job
        self.held = held
        self.report = Report(job.queue)
        self._run = run
        self._async_queue, self._sync_queue = inner
        self._queue = run.turnabout.queue(job.queue)
        self._spans: Any = getattr(run.turnabout.store, "spans", None)  # if it is traced
        self._settler = Settler(self._queue, self._on_settled, run.broken, self.wake, run.name)
        self._waiting: deque[tuple[Lease, Delivery]] = deque()
        self._tasks: dict[Lease, asyncio.Task[End]] = {}
        self._calls: dict[Lease, ThreadCall] = {}  # of tasks whose handler is in a thread
        self._changed = asyncio.Event()
        self._leases_changed = asyncio.Event()
        self._beat_at = float("inf")
        self._seen: int | None = None  # if the last look found nothing, and others know we wait

    # --- taking ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Tell `take` of a change: of room, of the phase, or that nothing is held any more."""
        self._changed.set()

    async def take(self) -> None:
        """Fetch messages while there is room, until the phase changes."""
        backoff = Backoff()
        with self._settler.riding():
            while self._run.phase is Phase.TAKING:
                self._changed.clear()
                acks = self._settler.acks()
                room = self._run.slots.take(self.held.room(len(acks)), self.wake)
                if room == 0:
                    self._settler.send(acks)
                    await self._changed.wait()
                    continue
                try:
                    await self._take_once(room, acks)
                except (Unavailable, Uncertain) as error:
                    pause = backoff.next(random.random())  # noqa: S311 - jitter, no secret
                    say = log.warning if backoff.tries == 1 else log.debug
                    say("no messages from %s: %s; asking again", self.job.queue, error.code)
                    await self._sleep(pause)
                else:
                    if backoff.tries:
                        log.info("messages from %s again", self.job.queue)
                        backoff = Backoff()

    async def _take_once(self, room: int, acks: list[tuple[Lease, Ending]]) -> None:
        queue, run = self.job.queue, self._run
        mark = run.emptiness.mark() + len(acks)  # they end before we look
        asked_at = time.monotonic()
        receipts, results = receipts_and_results(acks)
        try:
            batch = await self._queue.receive(
                room,
                lease_seconds=self.job.options.lease_seconds,
                shard=self.job.options.shard,
                acks=receipts,
                results=results,
            )
        except QueueNotFound:
            # Deleted while we work on it. The next send makes it again; until then it is empty.
            batch = Batch[PlainMessage]([], None, (LeaseLost("gone"),) * len(acks))
        except BaseException as error:
            run.slots.put(room)
            self._settler.send(acks, unsure=isinstance(error, Uncertain))
            raise
        run.slots.put(room - len(batch))
        self._settler.acked(acks, batch.acked)
        if batch:
            self._seen = None
            self._took(batch, asked_at)
            return
        if run.until_empty and await self._is_empty(batch) and run.emptiness.found(queue, mark):
            run.stop("all queues are empty")
            return
        await self._wait(batch)

    async def _is_empty(self, batch: Batch[PlainMessage]) -> bool:
        """Nothing was handed out. What only waits for its rate, or for a retry that is near, still
        counts as work to do.
        """
        if self._run.emptiness.next_expected(self.job.queue, time.monotonic()) is not None:
            return False
        if batch.retry_after_ms is None:
            return True
        channels = await self._queue.channels(limit=1_000)
        return not any(channel.ready and channel.blocked == "rate" for channel in channels)

    def _took(self, batch: Batch[PlainMessage], asked_at: float) -> None:
        self._run.emptiness.taken(len(batch))
        self._run.emptiness.came(self.job.queue, (message.id for message in batch))
        for message in batch:
            lease = self.held.take(message.delivery, asked_at)
            if lease.beat_at < self._beat_at:
                self._leases_changed.set()
            self._waiting.append((lease, message.delivery))
        if self._run.phase is Phase.TAKING:
            self._start_handlers()
        else:
            self.give_back_waiting()

    async def _wait(self, nothing: Batch[PlainMessage]) -> None:
        """Wait for messages. The first call announces the waiter, so that another look follows."""
        store, queue = self._run.turnabout.store, self.job.queue
        seen, self._seen = self._seen, None
        if seen is None:
            self._seen = await store.signal(queue, Change.READY)
            return
        seconds = pause_seconds(nothing.retry_after_seconds, self._run.poll_seconds)
        expected = self._run.emptiness.next_expected(queue, time.monotonic())
        if expected is not None:
            late = expected + RETRY_LATE_SECONDS - time.monotonic()
            seconds = min(seconds, max(late, PAUSE_SECONDS_MIN))
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
            name = f"turnabout {self.job.queue} {lease.receipt}"
            task = asyncio.create_task(self._run_handler(lease, delivery), name=name)
            self._tasks[lease] = task
            if self.job.options.timeout_seconds:
                self._after(self.job.options.timeout_seconds, self._timed_out, lease, task)
            # A callback, as a task that is cancelled before its first step runs nothing of its own.
            task.add_done_callback(partial(self._handled, lease))

    def _handled(self, lease: Lease, task: asyncio.Task[End]) -> None:
        """A handler's task is over. Cancelled: its thread, if it has one, goes on without us."""
        self._tasks.pop(lease, None)
        self._calls.pop(lease, None)
        if task.cancelled():
            end: End = asyncio.CancelledError()
        else:  # an exception is the worker's, not the handler's: it could not be run
            end = task.exception() or task.result()
        with self._freeing(lease):
            if lease.timed_out and not isinstance(end, (Returned, Defer, GiveUp)):
                end = self._timeout(end)
            self._ended(lease, end)
        if self._run.phase is Phase.TAKING:
            self._start_handlers()

    async def _run_handler(self, lease: Lease, delivery: Delivery) -> End:
        if self._spans is None:
            end = await self._call(lease, delivery)
        else:
            with self._spans.process(self.job.queue, delivery) as handling:
                end = await self._call(lease, delivery)
                if not isinstance(end, (Returned, Defer)):
                    handling.failed(end)
        return await self._settler.paused(delivery.channel, end)

    async def _call(self, lease: Lease, delivery: Delivery) -> End:
        """Run the handler; what it raised or returned."""
        if self.job.coro is not None:
            return await awaited(self.job.coro, AsyncMessage(self._async_queue, delivery, lease))
        assert self.job.sync is not None
        call = partial(called, self.job.sync, Message(self._sync_queue, delivery, lease))
        self._calls[lease] = started = self._run.threads.start(call)
        return await started.future

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
            self.report.settled(lease)
            self._drop(lease)
        elif cut_short and raised is not None and not isinstance(raised, (Defer, GiveUp)):
            # The worker cut it short. If the lease was only presumed lost, giving it back still
            # helps; if the message is to be cancelled, this ends it.
            self._settle(lease, GivenBack())
        else:
            self._settle(lease, ending_of(end))
        if raised is None or isinstance(raised, Defer):
            return
        if lease.settled:
            self.report.raised_late(lease, raised, "which it had settled")
        elif lease.refused or (cut_short and not isinstance(raised, GiveUp)):
            self.report.raised_late(lease, raised, "which was taken from it")
        if self.job.coro is not None and is_ctrl_c(raised):
            self._run.broken(raised)

    # --- settling --------------------------------------------------------------------------------

    def _settle(self, lease: Lease, ending: Ending) -> None:
        lease.stage = LeaseStage.SETTLING
        self._settler.put(lease, ending)

    def _on_settled(self, lease: Lease, ending: Ending, answer: Answer) -> None:
        """The database has answered for this message, or could not be reached at all."""
        with self._freeing(lease):
            try:
                self._count(lease, ending, answer)
                if isinstance(ending, Failed):
                    self.report.failed(lease, ending, answer)
            finally:
                self._drop(lease)

    @contextlib.contextmanager
    def _freeing(self, lease: Lease) -> Generator[None]:
        """The last resort where a message is settled: what is raised fails it, or is logged."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - what users' objects raise, and our bugs
            if lease.stage is LeaseStage.RUNNING:
                self._settle(lease, ending_of(error))
            else:
                self.report.unsettled(lease, error)

    def _count(self, lease: Lease, ending: Ending, answer: Answer) -> None:
        stats = self._run.stats
        if isinstance(answer, Retrying):
            lease.retry_at = answer.due_at
        if answer == "untold":
            if not isinstance(ending, Failed):
                self.report.say(logging.ERROR, "message %s of %s could not be settled", lease)
            self._note_loss(lease)
        elif isinstance(answer, LeaseLost):
            self._refused(lease, type(ending).__name__.lower())
        elif isinstance(answer, Cancelled):
            stats.cancelled += 1
        else:
            name = COUNTED[type(ending)]
            setattr(stats, name, getattr(stats, name) + 1)

    def _refused(self, lease: Lease, what: str) -> None:
        level = logging.INFO if self._note_loss(lease) else logging.WARNING
        self.report.say(
            level, "too late for message %s of %s (%s): its lease was lost", lease, what
        )

    def _note_loss(self, lease: Lease) -> bool:
        """Count it once. True if that was done before."""
        noted = lease.noted
        lease.noted = True
        lease.lose()
        if not noted:
            self._run.stats.lost += 1
        return noted

    def _drop(self, lease: Lease) -> None:
        self.held.drop(lease)
        self.wake()
        self._run.message_ended(self.job.queue, lease)

    # --- keeping leases --------------------------------------------------------------------------

    async def beat(self) -> None:
        """Extend leases, and notice lost ones, for as long as the worker runs."""
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
        self.report.say(logging.WARNING, "the lease of message %s of %s is lost: %s", lease, why)
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
        self.report.say(logging.INFO, "message %s of %s is to be cancelled", lease)
        if lease.stage is LeaseStage.WAITING:
            self._waiting = deque(item for item in self._waiting if item[0] is not lease)
            self._settle(lease, GivenBack())
        elif self.job.options.cancellable and lease in self._tasks:
            self._tasks[lease].cancel()

    # --- time limits -----------------------------------------------------------------------------

    def _after(
        self,
        seconds: float,
        call: Callable[[Lease], None],
        lease: Lease,
        task: asyncio.Task[End],
    ) -> None:
        """Call it then, unless the handler's task is over before."""
        timer = asyncio.get_running_loop().call_later(seconds, call, lease)
        task.add_done_callback(lambda _: timer.cancel())

    def _timed_out(self, lease: Lease) -> None:
        """A handler has passed its time limit. One on the loop is cancelled."""
        task = self._tasks[lease]
        lease.timed_out = True
        if self.job.coro is None:
            self._leave(lease)
        else:
            task.cancel()
            self._after(CANCEL_SECONDS, self._leave, lease, task)

    def _leave(self, lease: Lease) -> None:
        """A handler does not end: fail its message, and let another have its place."""
        task, call = self._tasks.pop(lease), self._calls.pop(lease, None)
        if lease.sever is not None:  # in a thread: it may have to wait for a lock
            threading.Thread(target=lease.sever, daemon=True).start()
        error = self._timeout(None)
        ended = partial(self._run.hangs, -1)
        self._run.hangs(1)
        if call is None:
            task.add_done_callback(lambda _: ended())
        else:
            error.add_note(f"The handler hangs, in a thread that is here:\n{call.where()}")
            self._run.threads.leave(call, ended)
            task.cancel()
        with self._freeing(lease):
            self._ended(lease, error)
        lease.lose()
        if self._run.phase is Phase.TAKING:
            self._start_handlers()

    def _timeout(self, cause: BaseException | None) -> TimeoutError:
        return timeout_error(self.job.options.timeout_seconds or 0, cause)

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
                lease.lose()
            task.cancel()

    def abandon(self) -> None:
        """Release the messages of handlers that would not end even so."""
        for lease in tuple(self._tasks):
            lease.lose()
            self._settle(lease, GivenBack())

    async def flush(self, seconds: float) -> None:
        """Wait until the database knows how all messages ended."""
        await self._settler.flush(seconds)
